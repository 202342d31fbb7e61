// THE table of bandwidths in the model, in GB/s (1e9 bytes per second) and one direction. They are
// what NCCL's planner assumes, so that plans agree; a measured number may differ. Each row
// names its source. Pure; threads: any.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace collctl::topology {

// Inside one chip, or where nothing is known to limit.
inline constexpr double kLocalGBps = 5000;

struct Bandwidth {
  double gbps = 0;
  std::string assumed;  // what was missing and what is assumed, to follow "has"; or empty
};

// A PCI link by the kernel's text for its speed ("16.0 GT/s PCIe") and its lanes.
Bandwidth pci_bandwidth(const std::optional<std::string>& speed, const std::optional<int>& width);
// 1..6, or 0 when the text is unknown.
int pci_generation(const std::string& speed);
// A network device of that many 10^6 bits per second.
Bandwidth net_bandwidth(const std::optional<int64_t>& mbps);
// One NVLink of a GPU by its compute capability x 10 (0: unknown).
double nvlink_bandwidth(int sm);
// One xGMI link by AMD's name of the architecture ("908", "gfx942").
double xgmi_bandwidth(const std::string& gcn);
// The read bandwidth of one socket's memory, the sum of its channels; 0: unknown here.
double memory_bandwidth(const std::string& vendor, int family, int model);
// Between two NUMA nodes, by vendor and model of the CPUs.
Bandwidth cpu_bandwidth(const std::string& arch, const std::string& vendor, int family, int model);

}  // namespace collctl::topology
