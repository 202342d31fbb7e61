// THE table of constants of the model of GPU ranks (model.h): latencies in microseconds, bandwidths
// in GB/s (1e9 bytes per second), each row with its source. They are what NCCL's planner
// assumes, so that plans agree; a measured number may differ. Pure; threads: any.
#pragma once
#include <cstdint>

#include "kernels/algo/ids.h"
#include "kernels/contract/types.h"

namespace collctl::runtime {

// The kind of wire that a hop goes over.
enum class HopKind : uint8_t { nvlink, pci, net };
// GPU generations, by compute capability x 10: below 80, below 90, below 100, above.
enum class Generation : uint8_t { volta, ampere, hopper, blackwell };
Generation generation_of(int sm);

struct LatencyRow {
  kernels::AlgorithmId algorithm;
  kernels::Protocol protocol;
  double base_us;    // of the operation: launch, first and last touch
  double hop_us[3];  // by HopKind
  const char* source;
};
// Null: the algorithm and protocol have no model.
const LatencyRow* find_latency(kernels::AlgorithmId algorithm, kernels::Protocol protocol);

// The most that a protocol or algorithm moves, by generation and 1, 2, 3 or more nodes.
enum class CapId : uint8_t { ll_total, ring_ll128_channel, tree_ll128_channel, tree_channel };
double cap_gbps(CapId cap, Generation generation, int nodes);
// ll_total on several nodes depends on the CPUs instead; amd: AMD or several makers.
double ll_cap_between_nodes(bool amd, int nodes);

enum class FactorId : uint8_t {
  ring_ll,     // share of bandwidth left by the flags
  ring_ll128,  // 120 of 128 bytes, and some
  tree,        // of a ring's bandwidth
  tree_ll,     // divides
  tree_ll128_one_node,
  tree_ll128,
  plain_tree,          // one GPU takes all network traffic
  net_step_us,         // the host's part of each step over the network
  net_step_amd_us,     // on AMD CPUs
  net_step_simple,     // multiplies it
  plateau,             // multiplies ring latency, Simple between nodes
  plateau_old,         // the same below SM 80
  plateau_from_bytes,  // of each rank and channel
  slow_gbps,           // a ring that is no faster needs fewer threads
};
double factor(FactorId id);

// Bandwidth share of a tree all-reduce at a size: medium sizes fall below the model.
double tree_share(kernels::Protocol protocol, uint64_t bytes);

// Threads of one block.
struct ThreadsRow {
  kernels::Protocol protocol;
  int most;
  uint64_t bytes_each;  // fewer threads or channels when each had less to do
  const char* source;
};
const ThreadsRow& threads_of(kernels::Protocol protocol);
inline constexpr int kTreeThreads = 640, kSlowRingThreads = 256, kWarp = 32;

}  // namespace collctl::runtime
