// Decisions from the paths: whether two GPUs communicate directly, through host memory or over the
// network, whether a NIC reads and writes GPU memory itself, which network device belongs to which
// GPU, and whether a message goes to its NIC through another GPU (PXN). Every decision carries its
// rule, its inputs, and what would change it. Unless stated otherwise `paths` are those of
// base_paths. Pure; threads: any.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/graph/paths.h"

namespace collctl::topology {

struct Rules {
  std::optional<PathType> p2p_level = {};  // NCCL_P2P_LEVEL: the worst type allowed
  std::optional<PathType> gdr_level = {};  // NCCL_NET_GDR_LEVEL
  std::optional<bool> gdr_read = {};       // NCCL_NET_GDR_READ: NICs read GPU memory to send it
  bool pxn = true;                         // NCCL_PXN_DISABLE
  int p2p_pxn_level = 2;                   // NCCL_P2P_PXN_LEVEL; 0 without PXN
  bool p2p_pxn_asked = false;              // that level by name
  bool p2p = true, shm = true;             // NCCL_P2P_DISABLE, NCCL_SHM_DISABLE
  bool gdr_c2c = true, pxn_c2c = true;     // NCCL_NET_GDR_C2C, NCCL_PXN_C2C
  bool nvb = true;                         // NCCL_NVB_DISABLE
  bool net_intra = true;                   // NCCL_NET_DISABLE_INTRA
};
// From the knobs. Errors: usage: a level that is no path type.
Result<Rules> read_rules();

struct Decision {
  bool yes = false;
  std::string why;  // the rule and its inputs, and in brackets what would change it
};

// Two GPUs (nodes of the graph) by loads and stores of each other's memory. Up to PXB; up to SYS
// with at most two GPUs on AMD's x86 CPUs; on different hosts by NVLink only.
Decision p2p(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b);
// The receiver reads instead of the sender writing: two sm 80 GPUs joined by NVLink.
Decision p2p_read(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b);
// Through memory of their host that both map.
Decision shm(const Graph& graph, const Rules& rules, int gpu_a, int gpu_b);
// By NVLink although they are on different hosts.
Decision fabric(const Graph& graph, const Paths& paths, int gpu_a, int gpu_b);
// Over the network although they are on one host: both reach network devices near to them (up to
// PXB) faster than each other.
Decision by_network(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a,
                    int gpu_b);
// The path that two GPUs take without the network: as it is with P2P, else through the CPU of the
// second; DIS when there is none.
Path pair_path(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b);

enum class Way : uint8_t { p2p, shm, net };
const char* way_name(Way way);  // "P2P", "SHM", "NET"
struct GpuWay {
  Way way = Way::net;
  std::string why;
};
// The result of the decisions above.
GpuWay gpu_way(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b);

enum class Direction : uint8_t { send, receive };  // send: the NIC reads the GPU's memory
// Both sides must be able to, and the path no worse than P2C (PXB where C2C is ruled out).
Decision gdr(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net,
             Direction direction);

// The part of it that the path and the user decide; whether the two are able to is not checked.
Decision gdr_wanted(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net,
                    Direction direction);

// Whether what a NIC has written into a GPU's memory must be flushed before the GPU is told.
Decision flush(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net);

// The part of it that GPU and paths decide, where a NIC does write there.
Decision flush_wanted(const Graph& graph, const Paths& paths, int gpu, int net);

// Those of `candidates` with the widest path from `from`, then the best type, in their order.
std::vector<int> nearest_ends(const Paths& paths, int from, const std::vector<int>& candidates);

// Which network device belongs to which GPU. Refers to nothing afterwards.
class Locality {
 public:
  Locality(const Graph& graph, const Paths& paths);
  // The devices with the best bandwidth, then the best type, in the file's order.
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
// `always`: also where the GPU's own path is just as fast.
Relay pxn(const Graph& graph, const Paths& paths, const Locality& locality, const Rules& rules,
          int gpu, int net, bool always = false);
// For each GPU and network device of the graph, in the order of `gpus` and Graph::nets: the GPU by
// which a message of the first leaves there when that is its receiver's rail, as
// NCCL_P2P_PXN_LEVEL has it: the GPU itself or a relay; -1: it is not to, and leaves by a device
// near itself. `effective` of effective_paths.
std::vector<std::vector<int>> rail_senders(const Graph& graph, const Paths& effective,
                                           const Rules& rules, const std::vector<int>& gpus);

// The paths that messages take after all decisions: GPU pairs without P2P and GPUs without GDR go
// through a CPU, PXN leads through the relay. From `paths` of make_paths.
Paths effective_paths(const Graph& graph, const Paths& paths, const Rules& rules);
// make_paths, with GPU to NIC paths by C2C and the GPU's own CPU named P2C.
Paths base_paths(const Graph& graph, const PathOptions& options = {});

}  // namespace collctl::topology
