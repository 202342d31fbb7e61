// Best paths between the GPUs, network devices and NUMA nodes of a graph. A path is as bad as its
// worst step: types in NCCL's words, best first; among equal types the faster wins, then the
// shorter. Paths never lead through a network device, and through a GPU only as one NVLink hop.
// Made once by make_paths; decide.h says what is done with them. Pure; threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace collctl::topology {

enum class PathType : uint8_t {
  loc,  // itself
  nvl,  // NVLink or xGMI, direct or through NVSwitches
  nvb,  // NVLink through one other GPU
  c2c,  // NVLink-C2C
  pix,  // at most one PCI switch
  pxb,  // several PCI switches, no CPU
  p2c,  // C2C to the CPU, then PCI to the NIC
  pxn,  // NVLink to a GPU that is next to the NIC
  phb,  // through one CPU
  sys,  // between NUMA nodes
  net,  // over the network
  dis   // not at all
};
inline constexpr int kPathTypes = 12;
const char* path_type_name(PathType type);  // "LOC", "NVL", ...
std::optional<PathType> parse_path_type(const std::string& name);

struct Path {
  PathType type = PathType::dis;
  double gbps = 0;         // of the slowest link
  int hops = 0;            // links
  std::vector<int> nodes;  // from the first to the last; empty when there is no path
};

struct PathOptions {
  bool through_gpus = true;  // NVB allowed (NCCL_NVB_DISABLE forbids it)
};

class Paths {
 public:
  // Both must be GPUs, network devices or NUMA nodes of the graph.
  const Path& at(int from, int to) const;
  Path& at(int from, int to);
  const std::vector<int>& endpoints() const { return endpoints_; }

 private:
  friend Paths make_paths(const Graph& graph, const PathOptions& options);
  std::vector<int> endpoints_;
  std::vector<int> row_;  // by node; -1: no endpoint
  std::vector<Path> paths_;
};

Paths make_paths(const Graph& graph, const PathOptions& options = {});

// The best type that a path with this link can have.
PathType step_type(const Graph& graph, int from, const GraphLink& link);
// One path after another.
Path joined(const Path& first, const Path& second);
// The slowest link of a path, as "GPU/0 -> PCI/0000:08:00.0 (PCI, 24 GB/s)"; empty without links.
std::string limiting_link(const Graph& graph, const Path& path);

}  // namespace collctl::topology
