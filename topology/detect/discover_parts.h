// The parts of a detection that share its state. Used by discover*.cc only. Threads: one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topology/detect/discover_pci.h"
#include "topology/detect/reader.h"

namespace collctl::topology {

// Network devices of sockets at most, as in NCCL.
inline constexpr size_t kMaxSocketNets = 16;
// So that a graph of them, with GPUs and NUMA nodes, stays within its own bound.
inline constexpr size_t kMaxRdmaNets = 128;

struct Detection {
  explicit Detection(Reader& from)
      : reader(from), files(*from.files), findings(from.host), pci(*from.files, findings) {}
  void note(Severity severity, std::string what, std::string where, std::string remedy = {}) {
    findings.add({severity, std::move(what), where.empty() ? reader.host : std::move(where),
                  std::move(remedy)});
  }

  Reader& reader;
  FileTree& files;
  FindingList findings;
  PciWalk pci;
  std::vector<Nic> virtual_nics;  // without a PCI device
  bool gpu_memory = false;        // the kernel lets NICs reach that of GPUs
};

// GPUs by their drivers, or by the PCI bus alone.
void discover_gpus(Detection& detection);
// RDMA devices; without any, the interfaces that sockets would use.
void discover_nets(Detection& detection);

}  // namespace collctl::topology
