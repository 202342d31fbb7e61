// A machine as a person sees it: CPUs, switches, GPUs and NICs with their names, links and faults
// in words, still without a form. The tree, the picture and the comparison are made of it. Pure;
// threads: values. A Part refers to the view that it was made from.
#pragma once
#include <string>
#include <vector>

#include "cmd/text/sizes.h"
#include "cmd/topo/view.h"

namespace collctl::cmd {

enum class PartKind : uint8_t { cpu, bridge, gpu, nic, other };

// One network device of a NIC, or of a CPU when it has no PCI device.
struct PartNet {
  const topology::Node* node = nullptr;
  std::string name;   // "mlx5_0", safe to print
  std::string speed;  // "400 Gb/s"
  std::string marks;  // what is wrong with it, or empty
};

struct Part {
  PartKind kind = PartKind::other;
  int host = 0;
  const topology::Cpu* cpu = nullptr;    // of cpu
  const topology::Pci* pci = nullptr;    // of all others
  const topology::Node* node = nullptr;  // of cpu, and of gpu when it is used
  std::string title;                     // "CPU 0", "GPU 3 H100", "ConnectX-7"
  std::string bus;                       // "11:00.0": without the domain where all are in domain 0
  std::string link;                      // "gen5 x16"; of its own uplink
  double gbps = 0;                       // of that
  bool link_assumed = false;
  std::string marks;  // what is wrong, separated by commas; or empty
  bool assumed = false;
  std::vector<std::string> details;  // of cpu: model, threads; of gpu: model, rank, C2C
  std::vector<std::string> fabrics;  // of gpu: its NVLinks, "18 NVLinks to NVSwitch"
  std::vector<PartNet> nets;         // of nic and cpu
  std::vector<Part> below;           // children in the file's order
};

// NVLinks or xGMI links of one GPU to one neighbour.
struct Fabric {
  int from = 0, to = -1;  // nodes of the graph; -1: NVSwitches
  int count = 0;
  double gbps = 0;
  bool xgmi = false;
};

struct Parts {
  std::vector<Part> cpus;
  // By from, then to; between two GPUs both directions are listed.
  std::vector<Fabric> fabrics;
  int nvswitches = 0;   // that can be told apart; 1 when they cannot be seen
  double cpu_gbps = 0;  // between NUMA nodes; 0: one node, or not limited
  bool several_hosts = false;
};

Parts machine_parts(const TopoView& view);

// Physical cores of a NUMA node, where they were detected; 0: unknown.
int processor_cores(const TopoView& view, const topology::Cpu& cpu);
// "2 NUMA nodes, 8 GPUs (H100), 16 network devices"
std::string machine_summary(const TopoView& view);

}  // namespace collctl::cmd
