// What is done with the paths: whether two GPUs talk directly, whether a NIC reads and writes GPU
// memory itself, which network device belongs to which GPU, and whether a message goes to its NIC
// through another GPU (PXN). Every decision carries its reason. Pure; threads: any.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/paths.h"

namespace collctl::topology {

struct Rules {
  std::optional<PathType> p2p_level = {};  // NCCL_P2P_LEVEL: the worst type allowed
  std::optional<PathType> gdr_level = {};  // NCCL_NET_GDR_LEVEL
  bool pxn = true;                         // NCCL_PXN_DISABLE
  bool p2p = true, shm = true;             // NCCL_P2P_DISABLE, NCCL_SHM_DISABLE
  bool gdr_c2c = true, pxn_c2c = true;     // NCCL_NET_GDR_C2C, NCCL_PXN_C2C
  bool nvb = true;                         // NCCL_NVB_DISABLE
  bool net_intra = true;                   // NCCL_NET_DISABLE_INTRA
};
// From the knobs. Errors: usage: a level that is no path type.
Result<Rules> read_rules();

struct Decision {
  bool yes = false;
  std::string why;  // the rule and its inputs, and what would change it
};

// GPU nodes of the graph. Up to PXB; up to SYS with at most two GPUs on AMD's x86 CPUs.
Decision p2p(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b);

enum class Direction : uint8_t { send, receive };  // send: the NIC reads the GPU's memory
// Both sides must be able to, and the path no worse than P2C.
Decision gdr(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net,
             Direction direction);

// Those of `candidates` with the widest path from `from`, then the best type, in their order.
std::vector<int> nearest_ends(const Paths& paths, int from, const std::vector<int>& candidates);

// Which network device belongs to which GPU. Refers to nothing afterwards.
class Locality {
 public:
  Locality(const Graph& graph, const Paths& paths);
  // The devices with the best bandwidth, then the best type, in the graph's order.
  const std::vector<int>& nets(int gpu) const { return choices_.at(gpu).nets; }
  // The one of them that a GPU prefers for a channel; -1 without network devices.
  int net(int gpu, int channel) const;
  // The first GPU that would pick the device, by channels, then GPUs; -1: none would.
  int gpu(int net) const;

 private:
  struct Choice {
    std::vector<int> nets;
    int start = 0, turns = 1;
  };
  std::map<int, Choice> choices_;
  std::map<int, int> gpu_of_;
};

struct Relay {
  int gpu = -1;  // the GPU in between; -1: none, the GPU sends itself
  std::string why;
};
Relay pxn(const Graph& graph, const Paths& paths, const Locality& locality, const Rules& rules,
          int gpu, int net);

// The paths that messages take after all decisions: GPU pairs without P2P and GPUs without GDR go
// through a CPU, PXN leads through the relay. From `paths` of make_paths.
Paths effective_paths(const Graph& graph, const Paths& paths, const Rules& rules);
// make_paths, with GPU to NIC paths by C2C and the GPU's own CPU named P2C.
Paths base_paths(const Graph& graph, const PathOptions& options = {});

}  // namespace collctl::topology
