#include "runtime/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/algo/algorithms.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cpu_places.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;

// One row per kind of path between ranks; Simple and LL. Measured on a two-core x86 server over
// shared memory (both cores on one cache) and over loopback TCP; only their ratios matter for a
// choice.
struct WireCost {
  double hop_us[2];
  double gbps[2];      // 1e9 bytes per second that one rank sends, receives and reduces
  std::string narrow;  // what keeps it from being faster
};
constexpr double kSocketHopUs = 9.0, kSocketGbps[2] = {3.2, 0.7};
constexpr double kRdmaHopUs = 2.0;  // a small message of an adapter of 200 Gb/s, and our work on it
// Through shared memory a hop is some work and four cache lines that change hands (data, tail,
// head, bell); how long a line takes depends on how near the cores are (cpu_places.h names the
// source).
constexpr double kHopWorkUs[2] = {0.07, 0.01};
constexpr double kLinesPerHop = 4;
constexpr double kLineUs[kNearnessCount] = {0.025, 0.1, 0.2};
constexpr double kSharedGbps[2] = {7.0, 3.1};
// Per byte that a rank moves: its source is read, and its destination read and written back.
constexpr double kMemoryTouches = 3;
constexpr double kCpuLaunchUs = 0.1;
constexpr double kTurnUs = 4.5;  // giving a core to the next rank
constexpr const char* kTurnsText = "turns of ranks that share cores";

// A lent message (kernels/cpu/block_cpu.h): a system call, and one copy that its receiver makes,
// within the caches and beyond (two cores, us: 2.2 at 16 KiB, 5.2 at 64 KiB, 14 at 256 KiB, 66 at
// 1 MiB, 1040 at 8 MiB).
constexpr double kLentHopUs = 1.0, kLentGbps = 16, kLentFarGbps = 8;
constexpr uint64_t kLentNearBytes = 512 << 10;
// The factor of a root that copies alone where ranks share cores: in a window all of them work (4
// ranks on 2 cores, gather of 512 KiB each: 250 us and 170).
constexpr double kLentRootAlone = 1.5;

// Over memory that all ranks map, measured like the rest. An arrival is a line that changes hands
// and the lines of further peers, which are looked at together; a second one in a piece finds the
// ranks less in step. Bytes count as staged, as read where a peer staged them, or as moved within
// this rank's caches.
constexpr double kArrivalLines = 1.6, kPeerLines = 0.25;
constexpr double kSecondArrivalUs = 0.15;
constexpr double kReadPeer = 1.3, kOwn = 0.3;
constexpr double kWindowGbps = 25.0;

// A calibration goes before the constants, which are of a machine that is known.
double line_us(const LocalLinks& local) {
  const int nearness = std::min<int>(local.farthest, kNearnessCount - 1);
  return local.line_us > 0 ? local.line_us : kLineUs[nearness];
}

// Between the sizes that were measured, by their logarithm.
double window_gbps(const LocalLinks& local, uint64_t bytes) {
  const auto& gbps = local.window_gbps;
  if (!(gbps[0] > 0)) return kWindowGbps;
  size_t above = 0;
  while (above < gbps.size() && kCalibratedBytes[above] < bytes) ++above;
  if (above == 0 || above == gbps.size()) return gbps[above == 0 ? 0 : above - 1];
  const double least = double(kCalibratedBytes[above - 1]);
  const double part =
      std::log2(double(bytes) / least) / std::log2(double(kCalibratedBytes[above]) / least);
  return gbps[above - 1] + part * (gbps[above] - gbps[above - 1]);
}

double pace_of(const LocalLinks& local, uint64_t bytes) {
  return window_gbps(local, bytes) / kWindowGbps;
}

// `piece`: what is copied at once.
WireCost shared_memory(const LocalLinks& local, uint64_t bytes, uint64_t piece) {
  WireCost wire{{}, {}, "copies through shared memory"};
  const double pace = pace_of(local, piece);
  double most = 1e9;
  // All edges between two sockets share their link; ranks of a node share its memory, once what
  // they touch (input and output) is more than their caches hold.
  const auto limit = [&](double gbps, const char* what) {
    if (gbps < most && gbps < pace * kSharedGbps[0]) wire.narrow = what;
    most = std::min(most, gbps);
  };
  if (local.crossings > 0 && local.socket_gbps > 0)
    limit(local.socket_gbps / local.crossings, "the link between sockets");
  if (local.memory_gbps > 0 && local.cache_bytes > 0 && 2 * bytes > local.cache_bytes)
    limit(local.memory_gbps / local.ranks_per_node / kMemoryTouches, "memory bandwidth");
  for (int p = 0; p < 2; ++p) {
    wire.hop_us[p] = kHopWorkUs[p] + kLinesPerHop * line_us(local);
    // LL carries as many flags as data.
    wire.gbps[p] = std::min(pace * kSharedGbps[p], p == 0 ? most : most / 2);
  }
  return wire;
}

// A two-shot of ranks that share cores: what one has staged has left the cache when the next reads
// it. Still the least from about 128 KiB on, since sums are staged by long copies (4 ranks on 2
// cores of a busy machine, us, one-shot / two-shot / ring: 43 / 38 / 60 at 128 KiB, 139 / 95 / 149
// at 512 KiB, 557 / 434 / 516 at 2 MiB): it needs fewer turns than a ring.
constexpr double kCrowdedTwoShotGbps = 18.0;

struct WindowPath {
  double arrivals, seconds;  // one for each piece; those that follow in a piece
  double bytes;              // of the busiest rank
};
// Directly between buffers: what others' inputs bring is read, what goes into others' outputs is
// written there, as if it were staged.
WindowPath shared_path_of(const CostQuery& q, const CommShape& shape) {
  const double n = shape.nranks, others = n - 1, bytes = double(q.bytes) / q.channels;
  const auto path = [&](double moved) { return WindowPath{1, 1, moved * bytes}; };
  switch (q.collective) {
    case Collective::all_gather:
      return path(others + 2 * kOwn);
    case Collective::reduce_scatter:
      return path(kReadPeer * others + 2 * kOwn);
    case Collective::all_to_all:
      return path((1 + kOwn) * others + 2 * kOwn);
    case Collective::broadcast:
    case Collective::scatter:
      return path(kReadPeer + kOwn);
    case Collective::gather:
      return path(1 + kOwn);
    case Collective::reduce:
      return path((kReadPeer * others + 1 + kOwn) / n);
    default:
      return path(((kReadPeer + 1) * others + 2 * kOwn) / n);
  }
}

WindowPath window_path_of(const CostQuery& q, const CommShape& shape) {
  if (q.shared) return shared_path_of(q, shape);
  const double n = shape.nranks, others = n - 1, bytes = double(q.bytes) / q.channels;
  const double pieces = std::max(1.0, std::ceil(bytes / double(q.chunk_bytes)));
  if (q.algorithm == AlgorithmId::two_shot) {
    // The others' slices are staged, the own one is summed and staged, the finished ones are read.
    const double sliced = std::max(1.0, std::ceil(bytes / n / double(q.chunk_bytes)));
    return {sliced, sliced, (1 + 2 * kReadPeer * others / n + kOwn * (1 + 2 / n)) * bytes};
  }
  switch (q.collective) {
    case Collective::all_gather:
      return {pieces, 0, (1 + kReadPeer * others + kOwn * n) * bytes};
    case Collective::reduce_scatter:
      return {pieces, 0, ((1 + kReadPeer) * others + 2 * kOwn) * bytes};
    case Collective::all_to_all:
      return {pieces, 0, ((1 + kReadPeer + kOwn) * others + 2 * kOwn) * bytes};
    case Collective::gather:
      return {pieces, 0, (1 + (kReadPeer + kOwn) * others) * bytes};
    case Collective::scatter:
      return {pieces, 0, (others + kReadPeer + kOwn) * bytes};
    case Collective::broadcast:
      return {pieces, 0, (1 + kReadPeer + kOwn) * bytes};
    case Collective::reduce:
      return {pieces, 0, (1 + kReadPeer * others + kOwn) * bytes};
    default:  // all ranks sum everything
      return {pieces, 0, (1.2 + kReadPeer * others + 2 * kOwn) * bytes};
  }
}

Prediction predict_window(const CostQuery& q, const CommShape& shape) {
  const WindowPath path = window_path_of(q, shape);
  const double crowd = std::max(1.0, shape.ranks_per_core);
  double arrival_us = line_us(shape.local) * (kArrivalLines + kPeerLines * (shape.nranks - 2));
  double second_us = arrival_us + kSecondArrivalUs;
  if (crowd > 1) arrival_us = second_us = std::max(second_us, crowd * kTurnUs);
  // A two-shot's copies are of slices.
  const bool slices = q.algorithm == AlgorithmId::two_shot && !q.shared;
  const WireCost wire =
      shared_memory(shape.local, q.bytes, slices ? q.bytes / shape.nranks : q.bytes);
  const bool slow = crowd > 1 && slices;
  const double gbps = (slow ? kCrowdedTwoShotGbps : kWindowGbps) * wire.gbps[0] / kSharedGbps[0];
  const double arrivals_us = path.arrivals * arrival_us + path.seconds * second_us;
  const double bytes_us = path.bytes * crowd / (gbps * 1e3);
  const char* latency = crowd > 1 ? kTurnsText : "arrivals of all ranks";
  return {kCpuLaunchUs + arrivals_us + bytes_us, arrivals_us > bytes_us ? latency : wire.narrow};
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
    case AlgorithmId::rooted_tree: {
      const kernels::AlgorithmRow& row = kernels::algorithm(q.algorithm);
      const double again = has_op(q.collective) ? detail::kReadTwice : 1;
      // An inner rank sends to two, or takes in from two.
      return {double(row.steps(q.collective, shape.nranks)) + chunks - 1,
              again * (shape.nranks > 3 ? 2.0 : 1.0) * bytes};
    }
    case AlgorithmId::bruck:
    case AlgorithmId::halving:
      // Data that has arrived is read again to be sent on.
      return {double(kernels::Bruck::messages(shape.nranks)), detail::kReadTwice * (n - 1) * bytes};
    case AlgorithmId::collnet: {
      // Up the chain, through the network, down again; the network carries everything once each
      // way, which a rank behind a head passes on besides.
      const double chain = shape.network.longest_chain;
      return {2 * chain, (chain > 1 ? 2.0 : 1.0) * bytes};
    }
    case AlgorithmId::pairwise:
      if (q.collective == Collective::send_recv) return {1, bytes};
      return {n - 1, (n - 1) * bytes};
    default: {
      // Nothing was measured of it: its formulas.
      const kernels::AlgorithmRow& row = kernels::algorithm(q.algorithm);
      const double again = has_op(q.collective) ? detail::kReadTwice : 1;
      return {double(row.steps(q.collective, shape.nranks)),
              again * most_sent(row, q.collective, shape.nranks) * bytes};
    }
  }
}

// One rank's bandwidth of the network: a share of it, on a host whose ranks all send at once.
WireCost network(const CostQuery& q, const CommShape& shape) {
  const NetworkPath& path = shape.path;
  WireCost wire{{kSocketHopUs, kSocketHopUs},
                {kSocketGbps[0], kSocketGbps[1]},
                shape.all_on_one_host ? "sockets" : "sockets between hosts"};
  if (path.gbps <= 0 || shape.all_on_one_host) return wire;
  const double local = path.ranks_per_host, n = shape.nranks;
  const kernels::Over over = kernels::algorithm(q.algorithm).over;
  const double sharing = over == kernels::Over::rounds     ? local * (n - local) / (n - 1)
                         : over == kernels::Over::partners ? local
                                                           : 1;
  // A channel has what one interface carries, and all together what all do.
  const double parts = std::max(q.channels, path.interfaces);
  const double gbps = path.gbps / std::max(1.0, sharing) / std::max(1.0, parts);
  if (!path.rdma && gbps >= wire.gbps[0]) return wire;
  if (path.rdma) wire.hop_us[0] = wire.hop_us[1] = kRdmaHopUs;
  wire.narrow = path.words;
  wire.gbps[0] = gbps;
  wire.gbps[1] = path.rdma ? gbps / 2 : std::min(wire.gbps[1], gbps / 2);
  return wire;
}

// Where no wire is slower than sockets a rank's core is what carries everything, both ways, and one
// worker drives them at a time: an inner rank of a tree has more to do than its bytes one way say,
// and the halves of a split one take turns (8 ranks on 16 cores, all-reduce of 256 KiB, us: ring
// 373, tree 563, split 735).
double by_one_core(const CostQuery& q) {
  return q.algorithm == AlgorithmId::tree ? 1.45 : q.algorithm == AlgorithmId::tree_split ? 2.3 : 1;
}

bool is_lent(const CostQuery& q, const CommShape& shape) {
  const uint8_t from = detail::lends_from(shape);
  return q.algorithm == AlgorithmId::pairwise && q.protocol == Protocol::simple && from != 0 &&
         q.bytes / uint64_t(q.channels) >> from != 0;
}

}  // namespace

double line_us_of(double exchange_us) {
  return exchange_us / kArrivalLines;
}
double window_gbps_of(uint64_t bytes, double exchange_us) {
  return (1 + kReadPeer + 2 * kOwn) * double(bytes) / (exchange_us * 1e3);
}

Prediction predict(const CostQuery& q, const CommShape& shape) {
  if (shape.nranks < 2) return {kCpuLaunchUs, "the call itself"};
  if (kernels::algorithm(q.algorithm).window) return predict_window(q, shape);
  const bool by_network = shape.path.used || !shape.all_on_one_host;
  WireCost wire = by_network ? network(q, shape) : shared_memory(shape.local, q.bytes, q.bytes);
  const int p = q.protocol == Protocol::simple ? 0 : 1;
  const double crowd = std::max(1.0, shape.ranks_per_core);
  Path path = path_of(q, shape);
  if (!by_network && is_lent(q, shape)) {
    const double message = double(q.bytes) / q.channels;
    const double near = std::min(message, double(kLentNearBytes));
    const double alone = crowd > 1 && q.collective == Collective::gather ? kLentRootAlone : 1;
    if (q.collective == Collective::scatter) path.bytes = message;  // each receiver copies its own
    // Its own constants have the memory beyond the caches.
    const double pace = pace_of(shape.local, std::min<uint64_t>(q.bytes, kLentNearBytes / 8));
    const double gbps =
        pace * message / (near / kLentGbps + (message - near) / kLentFarGbps) / alone;
    wire.hop_us[0] = kLentHopUs;
    if (wire.gbps[0] < pace_of(shape.local, q.bytes) * kSharedGbps[0]) {
      wire.gbps[0] = std::min(wire.gbps[0], gbps);
    } else {
      wire.gbps[0] = gbps;
      wire.narrow = "copies out of the sender's memory";
    }
  }
  double hops_us = path.hops * wire.hop_us[p];
  // In every round each rank needs its turn on a core.
  if (crowd > 1) hops_us = std::max(hops_us, path.hops * crowd * kTurnUs);
  // Where the cores are shared, the sum over all ranks counts, and busy and idle ranks of a tree
  // even out: 2 (n - 1) / n x bytes as in a ring, and some more because a tree's ranks wait longer.
  double bytes = path.bytes;
  if (crowd > 1 && kernels::algorithm(q.algorithm).over == kernels::Over::tree)
    bytes = 1.15 * 2.0 * (shape.nranks - 1) / shape.nranks * double(q.bytes) / q.channels;
  double bytes_us = bytes * crowd / (wire.gbps[p] * 1e3);
  if (q.algorithm == AlgorithmId::tree_split && crowd > 1) bytes_us *= 1.1;  // two workers a rank
  if (by_network && crowd <= 1 && wire.gbps[0] >= kSocketGbps[0]) bytes_us *= by_one_core(q);
  const char* latency = crowd > 1 ? kTurnsText : "hops from rank to rank";
  return {kCpuLaunchUs + hops_us + bytes_us, hops_us > bytes_us ? latency : wire.narrow};
}

}  // namespace collctl::runtime
