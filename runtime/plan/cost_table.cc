#include "runtime/plan/cost_table.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Protocol;

constexpr const char* kTuning = "NCCL 2.30 (tuning: base and hardware latencies)";
constexpr const char* kAsRing = "ours: a message costs what a ring's hop costs";

constexpr LatencyRow kLatencies[] = {
    {AlgorithmId::ring, Protocol::simple, 8.4, {3.4, 5.7, 14}, kTuning},
    {AlgorithmId::ring, Protocol::ll, 6.6, {0.6, 1.0, 2.7}, kTuning},
    {AlgorithmId::ring, Protocol::ll128, 14, {1.9, 2.5, 4.0}, kTuning},
    {AlgorithmId::tree, Protocol::simple, 8.4, {4.0, 4.0, 14}, kTuning},
    {AlgorithmId::tree, Protocol::ll, 6.8, {0.6, 1.0, 5.0}, kTuning},
    {AlgorithmId::tree, Protocol::ll128, 14, {1.25, 1.9, 8.5}, kTuning},
    {AlgorithmId::pairwise, Protocol::simple, 8.4, {3.4, 5.7, 14}, kAsRing},
    {AlgorithmId::pairwise, Protocol::ll, 6.6, {0.6, 1.0, 2.7}, kAsRing},
};

struct CapRow {
  CapId id;
  Generation generation;
  double gbps[3];  // 1, 2, 3 and more nodes
  const char* source;
};
constexpr const char* kCaps = "NCCL 2.30 (tuning: most per channel)";
constexpr CapRow kCapRows[] = {
    {CapId::ring_ll128_channel, Generation::volta, {20, 20, 20}, kCaps},
    {CapId::ring_ll128_channel, Generation::ampere, {20, 20, 20}, kCaps},
    {CapId::ring_ll128_channel, Generation::hopper, {36.7, 36.7, 36.7}, kCaps},
    {CapId::ring_ll128_channel, Generation::blackwell, {40, 40, 40}, kCaps},
    {CapId::tree_ll128_channel, Generation::volta, {20, 20, 20}, kCaps},
    {CapId::tree_ll128_channel, Generation::ampere, {20, 20, 20}, kCaps},
    {CapId::tree_ll128_channel, Generation::hopper, {36.7, 36.7, 29}, kCaps},
    {CapId::tree_ll128_channel, Generation::blackwell, {55.6, 31.7, 20}, kCaps},
    {CapId::tree_channel, Generation::volta, {26.5, 18.5, 10}, kCaps},
    {CapId::tree_channel, Generation::ampere, {24, 23.6, 17.8}, kCaps},
    {CapId::tree_channel, Generation::hopper, {38.7, 41.4, 36}, kCaps},
    {CapId::tree_channel, Generation::blackwell, {70, 42.8, 24}, kCaps},
    // Several nodes: kLlBetweenNodes.
    {CapId::ll_total, Generation::volta, {39, 0, 0}, "NCCL 2.30 (tuning: LL on one node)"},
    {CapId::ll_total, Generation::ampere, {87.7, 0, 0}, "NCCL 2.30 (tuning: LL on one node)"},
    {CapId::ll_total, Generation::hopper, {141, 0, 0}, "NCCL 2.30 (tuning: LL on one node)"},
    {CapId::ll_total, Generation::blackwell, {282, 0, 0}, "NCCL 2.30 (tuning: LL on one node)"},
};

struct LlBetweenNodesRow {
  bool amd;
  double gbps[2];  // 2, 3 and more nodes
  const char* source;
};
constexpr LlBetweenNodesRow kLlBetweenNodes[] = {
    {false, {39, 20.4}, "NCCL 2.30 (tuning: LL between nodes, Intel and others)"},
    {true, {22.5, 19}, "NCCL 2.30 (tuning: LL between nodes, AMD or mixed)"},
};

struct FactorRow {
  FactorId id;
  double value;
  const char* source;
};
constexpr FactorRow kFactors[] = {
    {FactorId::ring_ll, 0.5, "LL: half of every 8 bytes is a flag"},
    {FactorId::ring_ll128, 0.92, "NCCL 2.30 (tuning)"},
    {FactorId::tree, 0.92, "NCCL 2.30 (tuning)"},
    {FactorId::tree_ll, 3.8, "NCCL 2.30 (tuning)"},
    {FactorId::tree_ll128_one_node, 7.0 / 9.0, "NCCL 2.30 (tuning)"},
    {FactorId::tree_ll128, 120.0 / 128.0, "LL128: 8 of 128 bytes are a flag"},
    {FactorId::plain_tree, 0.85, "NCCL 2.30 (tuning)"},
    {FactorId::net_step_us, 1, "NCCL 2.30 (tuning: overhead of a network step)"},
    {FactorId::net_step_amd_us, 2, "NCCL 2.30 (tuning: overhead of a network step)"},
    {FactorId::net_step_simple, 3, "NCCL 2.30 (tuning: overhead of a network step)"},
    {FactorId::plateau, 1.4, "NCCL 2.30 (tuning: plateau of rings between nodes)"},
    {FactorId::plateau_old, 1.9, "NCCL 2.30 (tuning: plateau of rings between nodes)"},
    {FactorId::plateau_from_bytes, 64, "NCCL 2.30 (tuning: plateau of rings between nodes)"},
    {FactorId::slow_gbps, 12, "NCCL 2.30 (tuning: PCIe gen3 x16)"},
};

// Tenths of the bandwidth at 64 B, 128 B, 256 B, ... 512 MiB; beyond: all.
struct TreeShareRow {
  Protocol protocol;
  uint8_t tenths[24];
  const char* source;
};
constexpr const char* kDips = "NCCL 2.30 (tuning: measured against the model)";
constexpr TreeShareRow kTreeShares[] = {
    {Protocol::ll,
     {10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10},
     kDips},
    {Protocol::ll128,
     {10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10, 10},
     kDips},
    {Protocol::simple,
     {9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9, 9},
     kDips},
};

constexpr ThreadsRow kThreads[] = {
    {Protocol::simple, 512, 64, "NCCL 2.30 (tuning: thread thresholds)"},
    {Protocol::ll, 512, 8, "NCCL 2.30 (tuning: thread thresholds)"},
    {Protocol::ll128, 640, 8, "NCCL 2.30 (tuning: thread thresholds)"},
};

}  // namespace

Generation generation_of(int sm) {
  if (sm >= 100) return Generation::blackwell;
  if (sm >= 90) return Generation::hopper;
  return sm >= 80 ? Generation::ampere : Generation::volta;
}

const LatencyRow* find_latency(AlgorithmId algorithm, Protocol protocol) {
  for (const LatencyRow& row : kLatencies)
    if (row.algorithm == algorithm && row.protocol == protocol) return &row;
  return nullptr;
}

double cap_gbps(CapId cap, Generation generation, int nodes) {
  const size_t column = size_t(std::clamp(nodes, 1, 3) - 1);
  for (const CapRow& row : kCapRows)
    if (row.id == cap && row.generation == generation && row.gbps[column] > 0)
      return row.gbps[column];
  base::check_failed("the cap has a row", __FILE__, __LINE__, "");
}

double ll_cap_between_nodes(bool amd, int nodes) {
  COLL_CHECK(nodes > 1);
  return kLlBetweenNodes[amd ? 1 : 0].gbps[nodes == 2 ? 0 : 1];
}

double factor(FactorId id) {
  for (const FactorRow& row : kFactors)
    if (row.id == id) return row.value;
  base::check_failed("the factor has a row", __FILE__, __LINE__, "");
}

double tree_share(Protocol protocol, uint64_t bytes) {
  if (bytes < 64) return 1;
  const size_t column = size_t(std::bit_width(bytes >> 6)) - 1;
  for (const TreeShareRow& row : kTreeShares)
    if (row.protocol == protocol && column < std::size(row.tenths))
      return row.tenths[column] / 10.0;
  return 1;
}

const ThreadsRow& threads_of(Protocol protocol) {
  for (const ThreadsRow& row : kThreads)
    if (row.protocol == protocol) return row;
  base::check_failed("the protocol has threads", __FILE__, __LINE__, kernels::name_of(protocol));
}

}  // namespace collctl::runtime
