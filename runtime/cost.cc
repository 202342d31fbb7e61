#include "runtime/cost.h"

#include <algorithm>
#include <cmath>

#include "runtime/cpu_places.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;

// One row per way between ranks; Simple and LL. Measured on a two-core x86 server over shared
// memory (both cores on one cache) and over loopback TCP; only their ratios matter for a choice.
struct Wire {
  double hop_us[2];
  double gbps[2];      // 1e9 bytes per second that one rank sends, receives and reduces
  const char* narrow;  // what keeps it from being faster
};
constexpr Wire kSockets{{9.0, 9.0}, {1.6, 0.7}, "sockets between hosts"};
// Through shared memory a hop is some work and four cache lines that change hands (data, tail,
// head, bell); how long a line takes depends on how near the cores are (cpu_places.h names the
// source).
constexpr double kHopWorkUs[2] = {0.07, 0.01};
constexpr double kLinesPerHop = 4;
constexpr double kLineUs[kNearnessCount] = {0.025, 0.1, 0.2};
constexpr double kSharedGbps[2] = {7.0, 3.1};
// Per byte that a rank moves: its source is read, and its destination read and written back.
constexpr double kMemoryTouches = 3;
constexpr double kLaunchUs = 0.1;
constexpr double kTurnUs = 4.5;  // giving a core to the next rank

Wire shared_memory(const LocalLinks& local, uint64_t bytes) {
  Wire wire{{}, {}, "copies through shared memory"};
  const int nearness = std::min<int>(local.farthest, kNearnessCount - 1);
  double most = 1e9;
  // All edges between two sockets share their link; ranks of a node share its memory, once what
  // they touch (input and output) is more than their caches hold.
  const auto limit = [&](double gbps, const char* what) {
    if (gbps < most && gbps < kSharedGbps[0]) wire.narrow = what;
    most = std::min(most, gbps);
  };
  if (local.crossings > 0 && local.socket_gbps > 0)
    limit(local.socket_gbps / local.crossings, "the link between sockets");
  if (local.memory_gbps > 0 && local.cache_bytes > 0 && 2 * bytes > local.cache_bytes)
    limit(local.memory_gbps / local.ranks_per_node / kMemoryTouches, "memory bandwidth");
  for (int p = 0; p < 2; ++p) {
    wire.hop_us[p] = kHopWorkUs[p] + kLinesPerHop * kLineUs[nearness];
    // LL carries as many flags as data.
    wire.gbps[p] = std::min(kSharedGbps[p], p == 0 ? most : most / 2);
  }
  return wire;
}

struct Path {
  double hops;   // dependent chunk moves before the last byte is there, without the pipeline's tail
  double bytes;  // what the busiest rank moves
};

Path path_of(const CostQuery& q, const CommShape& shape) {
  const double n = shape.nranks, bytes = double(q.bytes) / q.channels;
  const double depth = std::max(1, shape.tree_depth);
  const double chunks = std::max(1.0, std::ceil(bytes / double(q.chunk_bytes)));
  switch (q.algorithm) {
    case AlgorithmId::ring:
      if (q.collective == Collective::all_reduce || q.collective == Collective::barrier)
        return {2 * (n - 1), 2 * (n - 1) / n * bytes};
      if (q.collective == Collective::all_gather || q.collective == Collective::reduce_scatter)
        return {n - 1, (n - 1) * bytes};
      return {n - 1 + chunks - 1, bytes};
    case AlgorithmId::tree:
      // An inner rank takes in two children's data and its own on the way up, and sends to two on
      // the way down.
      return {2 * depth, (shape.nranks > 2 ? 3.0 : 2.0) * bytes};
    case AlgorithmId::tree_split:
      return {2 * depth + 1, (shape.nranks > 2 ? 2.5 : 2.0) * bytes};
    case AlgorithmId::doubling: {
      // Every step sends and adds everything, whose source is read twice; ranks beyond the power of
      // two come in before and hear after.
      const double core = std::floor(std::log2(n)), around = std::exp2(core) < n ? 2 : 0;
      return {core + around, 1.2 * (core + around / 2) * bytes};
    }
    default:
      if (q.collective == Collective::send_recv) return {1, bytes};
      return {n - 1, (n - 1) * bytes};
  }
}

}  // namespace

Prediction predict(const CostQuery& q, const CommShape& shape) {
  if (shape.nranks < 2) return {kLaunchUs, "the call itself"};
  const Wire wire = shape.all_on_one_host ? shared_memory(shape.local, q.bytes) : kSockets;
  const int p = q.protocol == Protocol::simple ? 0 : 1;
  const double crowd = std::max(1.0, shape.ranks_per_core);
  const Path path = path_of(q, shape);
  double hops_us = path.hops * wire.hop_us[p];
  // In every round each rank needs its turn on a core.
  if (crowd > 1) hops_us = std::max(hops_us, path.hops * crowd * kTurnUs);
  // Where the cores are shared, the sum over all ranks counts, and busy and idle ranks of a tree
  // even out: 2 (n - 1) / n x bytes as in a ring, and some more because a tree's ranks wait longer.
  double bytes = path.bytes;
  if (crowd > 1 && (q.algorithm == AlgorithmId::tree || q.algorithm == AlgorithmId::tree_split))
    bytes = 1.15 * 2.0 * (shape.nranks - 1) / shape.nranks * double(q.bytes) / q.channels;
  double bytes_us = bytes * crowd / (wire.gbps[p] * 1e3);
  if (q.algorithm == AlgorithmId::tree_split && crowd > 1) bytes_us *= 1.1;  // two workers a rank
  const char* latency = crowd > 1 ? "turns of ranks that share cores" : "hops from rank to rank";
  return {kLaunchUs + hops_us + bytes_us, hops_us > bytes_us ? latency : wire.narrow};
}

}  // namespace collctl::runtime
