// The RDMA devices of this host in detail, and what decides whether they reach the memory of its
// GPUs (GPUDirect RDMA). Facts from the kernel's files, each bounded, nothing is opened or changed;
// and a pure judgement of them. Read when called. Threads: any. `root`: of the file system, for
// tests.
#pragma once
#include <string>
#include <vector>

namespace collctl::base {

struct RdmaGid {
  int index = 0;
  std::string type;       // "IB", "RoCE v1", "RoCE v2"; empty: the kernel does not say
  std::string address;    // "fe80::1", "::ffff:10.0.0.7"
  std::string interface;  // whose address it is; empty on InfiniBand
  bool operator==(const RdmaGid&) const = default;
};
struct RdmaPortDetail {
  int port = 0;
  std::string state = {}, physical = {};  // "ACTIVE", "LinkUp"
  std::string rate = {}, link = {};       // "400 Gb/sec (4X NDR)"; "InfiniBand", "Ethernet"
  std::vector<RdmaGid> gids = {};         // those that are set
  bool operator==(const RdmaPortDetail&) const = default;
};
struct RdmaDevice {
  std::string name, bus_id;  // "mlx5_0", "0000:18:00.0"; no bus id: not on the PCI bus
  int numa = -1;
  std::string firmware, board;          // "28.39.1002", "MT_0000000838"
  std::vector<std::string> interfaces;  // of the same PCI device
  std::vector<RdmaPortDetail> ports;
  bool operator==(const RdmaDevice&) const = default;
};
inline constexpr size_t kMostRdmaDevices = 256, kMostRdmaPorts = 16, kMostRdmaGids = 256;
std::vector<RdmaDevice> rdma_devices(const std::string& root = "");

struct GpuDirectFacts {
  int gpus = 0;              // of NVIDIA on the PCI bus
  int rdma_devices = 0;      // on the PCI bus
  std::string kernel;        // release
  std::string driver;        // of NVIDIA; empty: not loaded
  bool open_driver = false;  // its open kernel modules
  std::string module;        // that registers GPU memory, with its version; empty: none is loaded
  // Type of the IOMMU groups of GPUs and RDMA devices: "identity" passes addresses on, "DMA" and
  // "DMA-FQ" translate them; the last is told when they differ. Empty: no IOMMU is on.
  std::string iommu;
  // Bridges above GPUs or RDMA devices whose ACS sends traffic between devices through the CPU.
  std::vector<std::string> redirecting;
  bool acs_known = false;  // else the bridges' registers cannot be read, as without root
  bool operator==(const GpuDirectFacts&) const = default;
};
GpuDirectFacts gpu_direct_facts(const std::string& root = "");

// Something that the user should know about GPUDirect RDMA; one sentence each, without a full stop.
struct GpuDirectReason {
  std::string what, remedy;
  bool prevents = false;  // else it only makes it slower, or is not known
};
struct GpuDirectAdvice {
  bool applies = false;   // there are GPUs and RDMA devices
  bool possible = false;  // as far as these facts say
  std::string by;         // "DMA-BUF", or the module
  std::vector<GpuDirectReason> reasons;
};
GpuDirectAdvice judge_gpu_direct(const GpuDirectFacts& facts);

}  // namespace collctl::base
