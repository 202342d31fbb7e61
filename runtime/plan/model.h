// Predicted time of a collective on GPU ranks, and the best choice: NCCL's model (time = latency +
// bytes / bandwidth, by algorithm and protocol) from the facts of the nodes' channels. Called by
// `plan`, and by the planner for GPU ranks; CPU ranks have cost.h. Pure; all ranks get the same
// answer because all have the same facts. Threads: any.
//
//   ring   all-reduce 2(n-1) dependent steps, gather, reduce-scatter, broadcast and reduce n-1;
//          steps that leave a node cost a network hop, the others one inside it
//   tree   all-reduce: twice the depth: (GPUs of the largest node - 1) inside, ceil(log2 nodes)
//          between (NCCL counts the whole part of log2)
//   pairwise  (ours) the n-1 messages of a rank go side by side on all channels, in ceil((n-1) /
//          channels) rounds of one hop; bandwidth: what leaves a GPU inside the node by the node's
//          links, what leaves the node by the GPU's even share of the network
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/algo/ids.h"
#include "runtime/plan/calibration.h"
#include "runtime/request/choices.h"
#include "topology/cluster/cluster.h"

namespace collctl::runtime {

// All that the model knows of a cluster. bw of one search channel in GB/s (1e9).
struct ModelInput {
  int nodes = 1, ranks = 1, largest_node = 1;
  int channels = 1;       // in use
  int full_channels = 1;  // that carry the whole bandwidth
  int min_sm = 0, max_sm = 0;
  uint32_t gpu_model = 0;  // PCI vendor and device of the first; 0: unknown
  bool amd_gpus = false;
  bool known = true;          // how the machine is wired
  bool staged = false;        // between nodes data goes through the host's memory
  bool through_host = false;  // GPUs of a node without P2P: data goes through the host's memory
  // Why LL128's lines cannot go over the network between nodes; empty: as far as paths tell, they
  // can.
  std::string no_network_lines = {};
  topology::CpuMaker cpu = topology::CpuMaker::other;
  topology::Pattern tree_pattern = topology::Pattern::tree;
  topology::PatternFacts ring, tree;
  double host_gbps = 0;  // of a GPU through its host's memory, the least of all nodes; 0: unknown
  // In words: what is not known, so that a path's bandwidth is only assumed; empty: nothing.
  std::string unknown = {};
  GpuCalibration windows = {};  // of the machine, where it was measured
};
ModelInput model_input(const topology::Cluster& cluster);

struct Estimate {
  double us = 0;
  double latency_us = 0;   // the part that does not depend on the size
  double gbps = 0;         // bytes per second (1e9) of the rest: algorithm bandwidth
  std::string limited_by;  // in words: what to improve first
};

// Empty, or why the model gives no time for it (a sentence without a full stop).
std::string unavailable(const ModelInput& input, kernels::AlgorithmId algorithm,
                        kernels::Protocol protocol, kernels::Collective collective);

// bytes: as in algbw (all-gather, reduce-scatter, all-to-all, gather, scatter: of all ranks).
// Requires unavailable() to be empty.
Estimate estimate(const ModelInput& input, kernels::AlgorithmId algorithm,
                  kernels::Protocol protocol, kernels::Collective collective, uint64_t bytes);

// At most `channels`: as many as have enough to do for `bytes` (as in estimate), then as many
// threads of each; all channels where they are `fixed`.
struct Width {
  int channels = 1, threads = 0;
};
Width useful_width(const ModelInput& input, kernels::AlgorithmId algorithm,
                   kernels::Protocol protocol, int channels, bool fixed, uint64_t bytes);

struct Candidate {
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  double us = 0;
  std::string unavailable;  // empty: `us` counts
};

struct Choice {
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  int channels = 1, threads = 0;  // threads of a channel's block
  Estimate expected;
  std::string why;  // next best and by how much
  // In the table's order: every protocol of the algorithms that support the collective.
  std::vector<Candidate> candidates;
};

// The fastest of what `choices` allows; equal times go to the first in the table. Fewer channels,
// then fewer threads, where each would have too little to do, unless `choices` says how many
// channels. Errors: usage: nothing that is allowed supports the collective here, with the reasons.
Result<Choice> choose(const ModelInput& input, const Choices& choices,
                      kernels::Collective collective, uint64_t bytes);

}  // namespace collctl::runtime
