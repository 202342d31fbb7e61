#include "runtime/cost.h"

#include <algorithm>
#include <cmath>

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;

// One row per way between ranks; Simple and LL. Measured on a two-core x86 server over shared
// memory and over loopback TCP; only their ratios matter for a choice.
struct Wire {
  double hop_us[2];
  double gbps[2];  // 1e9 bytes per second that one rank sends, receives and reduces
};
constexpr Wire kSharedMemory{{0.55, 0.30}, {6.0, 1.6}};
constexpr Wire kSockets{{14.0, 13.0}, {1.6, 0.7}};
constexpr double kLaunchUs = 0.3;
constexpr double kTurnUs = 2.0;  // giving a core to the next rank

struct Path {
  double hops;   // dependent chunk moves before the last byte is there, without the pipeline's tail
  double bytes;  // what the busiest rank moves
  double messages;  // chunk moves of all ranks together
};

Path path_of(const CostQuery& q, const CommShape& shape) {
  const double n = shape.nranks, bytes = double(q.bytes) / q.channels;
  const double depth = std::max(1, shape.tree_depth);
  const double chunks = std::max(1.0, std::ceil(bytes / double(q.chunk_bytes)));
  switch (q.algorithm) {
    case AlgorithmId::ring:
      if (q.collective == Collective::all_reduce || q.collective == Collective::barrier)
        return {2 * (n - 1), 2 * (n - 1) / n * bytes,
                2 * n * (n - 1) * std::max(1.0, std::ceil(chunks / n))};
      if (q.collective == Collective::all_gather || q.collective == Collective::reduce_scatter)
        return {n - 1, (n - 1) * bytes, n * (n - 1) * chunks};
      return {n - 1 + chunks - 1, bytes, (n - 1) * chunks};
    case AlgorithmId::tree:
      // An inner rank takes in two children's data and its own on the way up, and sends to two on
      // the way down.
      return {2 * depth, (shape.nranks > 2 ? 3.0 : 2.0) * bytes, 2 * (n - 1) * chunks};
    case AlgorithmId::tree_split:
      return {2 * depth + 1, (shape.nranks > 2 ? 2.5 : 2.0) * bytes, 2 * (n - 1) * chunks};
    case AlgorithmId::doubling: {
      const double steps = std::ceil(std::log2(n));
      return {steps, steps * bytes, n * steps * chunks};
    }
    default:
      if (q.collective == Collective::send_recv) return {1, bytes, chunks};
      return {n - 1, (n - 1) * bytes, n * (n - 1) * chunks};
  }
}

}  // namespace

double predict_us(const CostQuery& q, const CommShape& shape) {
  if (shape.nranks < 2) return kLaunchUs;
  const Wire& wire = shape.all_on_one_host ? kSharedMemory : kSockets;
  const int p = q.protocol == Protocol::simple ? 0 : 1;
  const double crowd = std::max(1.0, shape.ranks_per_core);
  const Path path = path_of(q, shape);
  double hops_us = path.hops * wire.hop_us[p];
  if (crowd > 1) {
    // Every message costs a turn somewhere; the cores take turns side by side.
    const double cores = std::max(1.0, shape.nranks / crowd);
    hops_us = std::max(hops_us, path.messages * kTurnUs / cores);
  }
  // Where the cores are shared, the sum over all ranks counts, and every algorithm's busy and idle
  // ranks even out: 2 (n - 1) / n x bytes for all-reduce by ring and tree alike.
  double bytes = path.bytes;
  if (crowd > 1 && (q.algorithm == AlgorithmId::tree || q.algorithm == AlgorithmId::tree_split))
    bytes = 2.0 * (shape.nranks - 1) / shape.nranks * double(q.bytes) / q.channels;
  double bytes_us = bytes * crowd / (wire.gbps[p] * 1e3);
  if (q.algorithm == AlgorithmId::tree_split && crowd > 1) bytes_us *= 1.1;  // two workers a rank
  return kLaunchUs + hops_us + bytes_us;
}

}  // namespace collctl::runtime
