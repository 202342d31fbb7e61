// Plan: values only. The planner's decision for one submission: per channel the Work structs, and
// why. Made by the planner, run by an executor; the one who holds the plan owns what Work points
// to, apart from the caller's buffers.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/algo/ids.h"
#include "kernels/contract/work.h"
#include "runtime/plan/calibration.h"
#include "runtime/plan/rank_nics.h"
#include "runtime/plan/tuner.h"

namespace collctl::runtime {

// Chains of ranks through the hosts (or parts of them that only a network joins) to their heads,
// which come first.
using Chains = std::vector<std::vector<int32_t>>;

struct ChannelShape {
  std::vector<int32_t> ring;  // ranks in ring order
  kernels::TreeLinks tree;    // this rank's place in the channel's tree
  Chains collnet = {};        // as the search has them; empty: in the order of ranks
};

// The links between CPU ranks of one host, where they are worst: filled in by cpu_places. 0:
// unknown.
struct LocalLinks {
  uint8_t farthest = 0;    // Nearness of the farthest neighbours in the ring
  int crossings = 0;       // ring edges from one NUMA node to another, of the busiest pair of nodes
  int ranks_per_node = 1;  // on the fullest NUMA node
  uint64_t cache_bytes = 0;  // of the last-level cache, a rank's share
  double memory_gbps = 0;    // of a NUMA node, 1e9 bytes/s
  double socket_gbps = 0;    // between two NUMA nodes, one direction
  // From a calibration (calibration.h), of the slowest host that has one.
  double line_us = 0;
  std::array<double, kCalibratedBytes.size()> window_gbps = {};
};

// In-network reduction between hosts (network_reduction.h).
struct NetworkReduction {
  uint64_t serves = 0;  // a set of transport::reduction_bit(); 0: nothing, for this reason:
  std::string why_not = "no network plugin was searched for";
  // By channel: all chains, and this rank's place; a head is its own parent.
  std::vector<Chains> groups;
  std::vector<kernels::TreeLinks> chains;
  int longest_chain = 1;  // ranks
};

// Two ranks of a host whose GPUs are not to use each other's memory, by the topology's rules.
struct NoP2p {
  int a = 0, b = 0;  // a < b
  std::string why;
};
// In words: the first pair; empty: all may.
std::string no_p2p_text(const std::vector<NoP2p>& pairs);
// The reason for two ranks; empty: they may.
std::string no_p2p_between(const std::vector<NoP2p>& pairs, int a, int b);

struct ModelInput;  // model.h
// kernels::cuda::Launcher::window_serves
using WindowServes = bool (*)(kernels::Collective, kernels::AlgorithmId, kernels::Protocol,
                              kernels::DataType, kernels::RedOp, int nranks, uint64_t bytes);

// kernels::cuda::Launcher::window_direct
using WindowDirect = bool (*)(kernels::Collective, kernels::DataType, kernels::RedOp, int nranks,
                              uint64_t bytes);

// The network between the hosts of CPU ranks, or between ranks of one host that use a network.
struct NetworkPath {
  bool used = false;
  double gbps = 0;         // of the narrowest host, one direction, 1e9 bytes/s; 0: not known
  int ranks_per_host = 1;  // of the largest host
  bool rdma = false;       // else sockets
  int interfaces = 0;      // that each rank's sockets are spread over; 0: another network
  std::string words;       // "mlx5_0 of node03, 200 Gb/s"; without a rate where it is not known
};

// The planner's view of the communicator. Pure data, and but for `rank` and the tree places the
// same on every rank: all ranks must come to the same choice.
struct CommShape {
  int rank = 0, nranks = 1;
  std::vector<ChannelShape> channels;
  uint32_t slot_bytes[kernels::kProtocolCount] = {};  // wire bytes of a slot; 0: not offered
  uint32_t slot_count = 8;
  uint64_t window_bytes = 0;  // of a bank; 0: the ranks share no mapped memory, for this reason:
  std::string no_window;      // (of GPU ranks, with gpu_window false)
  int window_channels = 0;
  // GPU ranks. `local`, `tree_depth`, `ranks_per_core` and the window of banks are CPU ranks'.
  bool gpu = false;
  // All ranks map each other's memory for the window kernels (kernels/cuda/launch.h). Says which
  // operations these have; null: none.
  bool gpu_window = false;
  bool pinned_window = false;  // else host memory, for all but LL128
  WindowServes window_serves = nullptr;
  WindowDirect window_direct = nullptr;  // and which are direct between users' windows
  bool ll128_passed = false;  // the torn-store test, on every path in use; else why LL128 is off:
  std::string no_ll128;
  int pair_channels = 0;                 // for messages and all-to-all; may be more than `channels`
  std::shared_ptr<const RankNics> nics;  // of the rank's node; null: not known
  std::vector<NoP2p> no_p2p;  // pairs of GPUs of this rank's host; none where P2P is asked for
  std::shared_ptr<const ModelInput> model;  // what the model of time knows; never null
  bool all_on_one_host = true;
  NetworkReduction network;
  NetworkPath path;  // of CPU ranks; the model of GPU ranks has its own
  LocalLinks local;
  int tree_depth = 0;         // levels between the root and the deepest rank
  bool lends = false;         // messages inside a host may be lent (kernels/cpu/block_cpu.h)
  double ranks_per_core = 1;  // of the most crowded host
  int default_channels = 1;   // what an operation may use by default
  Tuner* tuner = nullptr;     // may change choices; null: none
};

// The host's part in operations of GPU ranks on a stream (gpu_cost.h). 0: it has none.
struct HostTime {
  double launch_us = 0;  // it launches one after the other at this pace; shorter ones wait for it
  double block_us = 0;   // it waits so long besides for all that it has launched
};

// The expected time of an operation, to be compared with its real one.
struct Expected {
  double us = 0;
  std::string limited_by;  // the link, or what else takes most of it
  // By the model. Else this machine is not one that the model's figures are of, and it is the bound
  // of its paths: what they allow, with the latencies of machines that are known.
  bool modelled = true;
  // Not empty: neither, as a bandwidth is only assumed, for want of this (in words).
  std::string unknown = {};
  HostTime host = {};
  const char* source() const { return !unknown.empty() ? "assumed" : modelled ? "model" : "bound"; }
};

struct PlannedOp {
  kernels::AlgorithmId algorithm = kernels::AlgorithmId::ring;
  kernels::Protocol protocol = kernels::Protocol::simple;
  kernels::Collective collective = kernels::Collective::all_reduce;  // as the user named it
  int channels = 0;
  // One per channel in use; one for all where a window kernel of GPUs runs it (by_window_kernel).
  // Pointers refer to `orders`, `pairs` and the caller's buffers.
  std::vector<kernels::Work> works;
  bool by_window_kernel = false;
  bool by_copies = false;  // of a GPU's driver, one for each round: messages to oneself
  bool direct = false;     // from buffer to buffer: all lie in users' windows (shared.h)
  int threads = 0;         // of a channel's block on a GPU; 0: not used
  double expected_us = 0;  // by the cost model
  Expected expected = {};
  std::string why;
  std::optional<TunedChoice> tuned = {};  // a tuner was asked
};

struct Plan {
  std::vector<PlannedOp> ops;
  // Storage that Work points to (ring orders, pair steps); moves with the plan.
  std::vector<std::shared_ptr<const std::vector<int32_t>>> orders;
  std::vector<std::shared_ptr<const std::vector<kernels::PairStep>>> pairs;
};

}  // namespace collctl::runtime
