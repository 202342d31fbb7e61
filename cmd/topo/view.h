// Facts that `topo` and `plan` have of one machine, and where they came from: a topology file, a
// snapshot, or this machine itself. Read once by read_view; then pure values. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/host_limits.h"
#include "base/host_rdma.h"
#include "base/processors.h"
#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/text/console.h"
#include "topology/detect/inspect.h"
#include "topology/graph/decide.h"
#include "topology/types.h"

namespace collctl::cmd {

// Why the figures of a topology are lower than those on data sheets.
inline constexpr const char* kModelRates =
    "GB/s less protocol, by NCCL: 18 NVLinks 370.8 of 450; PCIe gen5 x16 48 of 63";

// Everything that is known of one machine.
struct TopoView {
  std::string source;  // the file's path, or the name of this host
  bool live = false;   // detected here and now
  topology::System system;
  std::optional<base::Processors> processors;  // of this machine, or of a snapshot
  // Facts of live machines only: addresses are no part of snapshots.
  std::vector<base::RdmaDevice> rdma;
  std::optional<base::GpuDirectFacts> gpu_direct;
  uint64_t memlock_bytes = base::kUnlimited;
  topology::Graph graph;
  topology::Rules rules;            // from the knobs
  topology::Paths base, effective;  // of the hardware; after P2P, GDR and PXN
  std::vector<topology::Oddity> oddities;
  std::vector<topology::Finding> findings;  // all of them
};

// Graph, paths and findings of a machine. `known`: what is odd already. Errors: usage: a machine
// that cannot be (two GPUs of one rank), or a knob with no legal value.
Result<TopoView> view_of(topology::System system, std::string source,
                         std::vector<topology::Finding> known);

struct ViewOptions {
  std::string from;                       // a topology file or a snapshot; empty: this machine
  std::string save;                       // where the snapshot goes; empty: nowhere
  std::string assume;                     // a model of GPUs; empty: none
  std::optional<double> assume_nic_gbps;  // 1e9 bits/s
};

// This machine is completed by TOPO_FILE where that is set; a file stands for itself. Errors:
// usage, with file, line and column: no such file, no topology, no snapshot, nothing to assume in;
// unavailable: the snapshot cannot be written.
Result<TopoView> read_view(const ViewOptions& options);
Result<TopoView> read_view(const ParsedLine& line);

// One line each on standard error.
void print_findings(const std::vector<topology::Finding>& findings, Console& console);

}  // namespace collctl::cmd
