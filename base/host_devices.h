// The devices of this host that a job cares about: network interfaces, RDMA devices, NVIDIA GPUs.
// Facts only; nothing is opened or changed. Read when called. Threads: any.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace collctl::base {

struct InterfaceAddress {
  std::string text;  // "10.0.0.7", "fe80::1"
  int prefix = 0;    // bits of the network
};
struct NetInterface {
  std::string name;
  bool up = false;  // and running
  bool loopback = false;
  int mtu = 0;
  int64_t speed_mbps = 0;  // 0: the driver does not say
  std::vector<InterfaceAddress> addresses;
  // Which interface packets from its address leave by, of one that shares a subnet with another;
  // else empty.
  std::string leaves_by = {};
  std::string aside =
      {};  // why no other host is reached by it (base/interface_choice.h); empty: it counts
};
// How the names of interfaces begin that lead to no other host, unless the user names one of them:
// of containers, of this host itself, of virtual machines. In the order in which sockets take them
// where there is nothing else.
inline constexpr std::string_view kInnerInterfaces[] = {"docker", "lo", "virbr"};
bool is_inner_interface(std::string_view name);

std::vector<NetInterface> net_interfaces();  // in the kernel's order

struct RdmaPort {
  std::string device;  // "mlx5_0"
  int port = 0;
  std::string state;  // "ACTIVE", "DOWN"
  std::string rate;   // "400 Gb/sec (4X NDR)"
  std::string link;   // "InfiniBand", "Ethernet"
};
std::vector<RdmaPort> rdma_ports();

int rdma_numa_node(const std::string& device);  // -1: the kernel does not say
// Entry `index` of the port's table of addresses is of RoCE v2.
bool rdma_gid_is_roce_v2(const std::string& device, int port, int index);
// The module that lets RDMA devices reach GPU memory, with its version; empty: none is loaded.
// `root`: of the file system, for tests.
std::string gpu_peer_memory_module(const std::string& root = "");

struct NvidiaFacts {
  std::string driver;             // "550.54.15"; empty: no driver is loaded
  std::vector<std::string> gpus;  // model by model
  int on_pci = 0;                 // as nvidia_pci_devices() counts
};
NvidiaFacts nvidia_facts();

// The link of a PCI device to the bridge above it, as it is now: GPUs that idle lower its rate.
struct PciLink {
  int lanes = 0;    // 0: the kernel does not say
  double GTps = 0;  // of a lane; likewise
};
// At 2.5 and 5 GT/s ten bits are sent for a byte.
inline double pci_Mbps(double lanes, double GTps) {
  return lanes * GTps * (GTps < 8 ? 800 : 984);
}
PciLink pci_link_at(const std::string& folder);  // of the device in /sys
PciLink pci_link(const std::string& bus_id);
// The most that both of its ends can do. Nothing where the other end cannot be seen: a virtual
// machine shows none, or one that is made up.
PciLink best_pci_link_at(const std::string& folder);
PciLink best_pci_link(const std::string& bus_id);

// A GPU whose device file is here (containers may show more than they hand in), and that PCI shows,
// or may be shown by the driver's library: device files and the driver's folders alone are left
// where a container or an image has them and the host no GPU.
struct NvidiaGpu {
  std::string bus_id;  // "0000:4b:00.0", lower case
  std::string uuid;    // "GPU-2f1a..."; empty when the driver does not say
  int numa = -1;       // the kernel's number; -1: it does not say
};
// By bus id: so the driver's tools count them, and CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID. `root`:
// of the file system, for tests.
std::vector<NvidiaGpu> nvidia_gpus_here(const std::string& root = "");
// The NVIDIA display and 3D controllers that PCI shows, with a driver or without one; those handed
// to virtual machines (vfio-pci, pci-stub) are not this host's. `root`: as above.
int nvidia_pci_devices(const std::string& root = "");

}  // namespace collctl::base
