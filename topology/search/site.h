// The machine as the search sees it: which GPUs and network devices to try in which order, and what
// it asks of paths again and again, kept ready. Used by the search only; not for two threads at
// once.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "topology/graph/decide.h"

namespace collctl::topology {

class SearchSite {
 public:
  // `graph` and `paths` must outlive it. Without `network` channels stay inside the node.
  SearchSite(const Graph& graph, const Paths& paths, bool network);
  const Graph& graph() const { return graph_; }
  const Paths& paths() const { return paths_; }
  // In the order of the file, which is that of PCI addresses below a CPU.
  const std::vector<int>& gpus() const { return gpus_; }
  const std::vector<int>& nets() const { return nets_; }  // empty without the network
  bool has_nvswitch() const { return nvswitch_; }
  int index_of(int gpu) const { return index_[size_t(gpu)]; }
  // The devices to try: those that the GPU (-1: every GPU in turn) prefers, then the others by
  // rising path type up to `worst`.
  const std::vector<int>& nets_to_try(int gpu, PathType worst) const;
  // The GPUs to start from behind a network device, its own first.
  const std::vector<int>& gpus_near(int net) const { return near_.at(net); }
  // A GPU that a channel may continue to.
  struct NextGpu {
    int gpu = -1, index = -1;
    std::pair<int, int> nearness;  // bandwidth and links inside the node
  };
  // All that `gpu` reaches, those to try first in front; seen from a channel that will leave by the
  // side of the network device `net`, or (-1) has not to. Valid until the next call.
  const std::vector<NextGpu>& ranked(int gpu, int net) const;
  // Facts of the path between two ends: its type, the worse type of both directions, links.
  struct Step {
    PathType type, both_types;
    int hops;
  };
  const Step& step(int from, int to) const {
    return steps_[size_t(row_[size_t(from)]) * ends_ + size_t(row_[size_t(to)])];
  }
  // Ports of one card share its bandwidth, and are the same device for cross_nic 0.
  bool is_same_port(int net_a, int net_b) const;

 private:
  void fill_steps();
  const Graph& graph_;
  const Paths& paths_;
  Locality locality_;
  std::vector<int> gpus_, nets_, index_;
  bool nvswitch_ = false;
  std::map<int, std::vector<int>> near_;
  size_t ends_ = 0;
  std::vector<int> row_;  // of each node among the ends
  std::vector<Step> steps_;
  // Made when needed.
  mutable std::map<std::pair<int, PathType>, std::vector<int>> net_lists_;
  mutable std::map<std::pair<int, int>, std::vector<NextGpu>> ranked_;
};

}  // namespace collctl::topology
