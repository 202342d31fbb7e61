#include "runtime/plan/gpu_cost.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "kernels/cuda/launch.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cost_table.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Over;
using kernels::Protocol;

// From the fit of what was measured in CUDA graphs on 2 x H200 (NVLink), float32 all-reduce.
struct WindowRow {
  AlgorithmId algorithm;
  Protocol protocol;
  double base_us;     // of two ranks: the first flag out and in
  double rank_us;     // each further rank: its flags (from a trial on 4 x H200)
  double first_gbps;  // 1e9 bytes a second that leave or enter a rank: of the first kFirstBytes
  double gbps;        // of the rest
};
constexpr double kFirstBytes = 16 << 20;
constexpr WindowRow kWindowRows[] = {
    {AlgorithmId::one_shot, Protocol::ll, 2.0, 0.15, 225, 225},
    {AlgorithmId::one_shot, Protocol::ll128, 2.6, 0.15, 300, 300},
    {AlgorithmId::one_shot, Protocol::simple, 7.0, 1.5, 328, 367},
    {AlgorithmId::two_shot, Protocol::ll, 3.2, 0.3, 187, 187},
    {AlgorithmId::two_shot, Protocol::ll128, 3.5, 0.3, 348, 348},
    {AlgorithmId::two_shot, Protocol::simple, 10.3, 0.3, 355, 367},
};
// Through host memory (2 and 4 x H200, PCIe 5.0, on a stream).
constexpr WindowRow kPinnedRows[] = {
    {AlgorithmId::one_shot, Protocol::ll, 3.5, 0.4, 31, 31},
    {AlgorithmId::one_shot, Protocol::simple, 17.5, 1.5, 38, 42},
    {AlgorithmId::two_shot, Protocol::ll, 6.0, 2.3, 31, 31},
    {AlgorithmId::two_shot, Protocol::simple, 25.0, 3.0, 25, 29},
};
// A launch on a stream adds so much (1.0 to 1.5), as the model's times of fifos have it within.
constexpr double kLaunchUs = 1.2;
// In operations with a root all ranks tell each other that they have arrived.
constexpr double kArrivalUs = 0.3, kPinnedArrivalUs = 0.9;
// LL128 that only moves, where sums reach what the row says (2 x H200).
constexpr double kMovedLinesGbps = 355, kAddedLinesGbps = 300;
// And between more than two, where lines of several senders come in side by side (4 x H100).
constexpr double kMovedLinesOfMoreGbps = 285, kAddedLinesOfMoreGbps = 270;
// A rank's own block goes into place between the others', by store while the links are busy; lines
// have it at hand, but for an all-to-all's, which is loaded (2 x H200: 1.9 us of 8 MiB).
constexpr double kOwnBlockGbps = 4400;
// Data that receivers of a broadcast hand on takes a second hop (measured on 4 x H200).
constexpr double kHandedOnUs = 4, kHandedOnLinesUs = 1.5, kDealtRankUs = 0.15;
// Through host memory (handing on took 5, but rings are faster there than their model says); and
// the share of the first bytes' rate that remains where each of more ranks gives all others
// something of its own (4 x H200).
constexpr double kPinnedHandedOnUs = 20, kPinnedOfMoreShare = 0.7;

// Directly between users' windows (2 and 4 x H200): what is put beats slots from some MiB on; sums
// and what is loaded never do, and are here for those who force them.
struct DirectRow {
  bool adds, loads;  // loads: data is loaded by who adds it up, or hands it on
  double base_us, rank_us, gbps;
};
constexpr DirectRow kDirectRows[] = {
    {true, false, 11.0, 0.3, 360},
    {true, true, 11.0, 0.3, 330},
    {false, false, 9.0, 0.3, 367},
    {false, true, 15.0, 0.3, 330},
};

bool adds_up(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

double wire_bytes_per_byte(Protocol protocol) {
  if (protocol == Protocol::ll) return 2;
  return protocol == Protocol::ll128 ? 128.0 / 120 : 1;
}

// Measured over paths of kMeasuredGbps. That of PCIe is a flag's way through the host (H100).
constexpr double kMeasuredGbps = GpuPath().gbps, kPcieUs = 2;
constexpr double kSeenGbps = 367;         // the most that such a path was seen to carry
constexpr double kMeasuredHostGbps = 48;  // a GPU's PCIe of the table through host memory
double on_path(double gbps, const GpuPath& path) {
  const double known = path.pinned ? kMeasuredHostGbps : kMeasuredGbps;
  return path.gbps == known ? gbps : std::min(gbps * path.gbps / known, path.gbps);
}

// The time of the bytes that leave a rank, or enter it.
double moved_us(const WindowRow& row, const GpuQuery& q, double bytes) {
  const bool adds = adds_up(q.collective);
  const bool of_more = q.nranks > 2 && q.collective != Collective::broadcast;
  if (row.protocol == Protocol::ll128 && row.algorithm == AlgorithmId::one_shot &&
      (!adds || of_more)) {
    const double gbps = !of_more ? kMovedLinesGbps
                        : adds   ? kAddedLinesOfMoreGbps
                                 : kMovedLinesOfMoreGbps;
    return bytes / (row.gbps * gbps / kAddedLinesGbps * 1e3);
  }
  const double first = std::min(bytes, kFirstBytes);
  return first / (row.first_gbps * 1e3) + (bytes - first) / (row.gbps * 1e3);
}

const WindowRow& table_row(AlgorithmId algorithm, Protocol protocol, bool pinned) {
  for (const WindowRow& row : pinned ? std::span<const WindowRow>(kPinnedRows) : kWindowRows)
    if (row.algorithm == algorithm && row.protocol == protocol) return row;
  base::check_failed("the window kernel has a row", __FILE__, __LINE__, name_of(algorithm));
}

// The host's part (2 x H200 of a virtual machine, driver 580, 2026-11-30). It launches one
// operation after the other in 4 us: 20 all-reduces in a row take 4.2 to 5.0 us each, of 8 B as of
// 64 KiB. Until the first begins, and from the last one's end until that is seen, pass 11 us: of 5
// in a row each takes 2.2 us longer, from 1 KiB to 16 MiB.
constexpr HostTime kKnownHost{.launch_us = 4, .block_us = 11};

// A calibration that finds more has found the host's pace, which longer operations hide.
double launch_us(const GpuPath& path) {
  const double measured = double(path.measured.launch_us);
  return measured > 0 ? std::min(measured, kLaunchUs) : kLaunchUs;
}

// Null: it was not.
const float* measured_base(const GpuCalibration& c, AlgorithmId algorithm, Protocol protocol) {
  for (size_t i = 0; i < kCalibratedKernels.size(); ++i)
    if (kCalibratedKernels[i].algorithm == algorithm && kCalibratedKernels[i].protocol == protocol)
      return c.base_us[i] > 0 ? &c.base_us[i] : nullptr;
  return nullptr;
}

// As measured between two GPUs, else the table's on this path. More than two share the path.
WindowRow window_row(AlgorithmId algorithm, Protocol protocol, const GpuPath& path, int nranks) {
  WindowRow row = table_row(algorithm, protocol, path.pinned);
  const float* const base = measured_base(path.measured, algorithm, protocol);
  if (base == nullptr) {
    row.first_gbps = on_path(row.first_gbps, path);
    row.gbps = on_path(row.gbps, path);
    if (path.pcie && !path.pinned) row.base_us += kPcieUs;
    return row;
  }
  row.rank_us *= double(*base) / row.base_us;
  row.base_us = double(*base);
  // The measured rate is that of the table's first bytes; the rest is faster by the table's ratio.
  const double measured = double(path.measured.gbps[base - path.measured.base_us]);
  const double most = nranks <= 2   ? measured * row.gbps / row.first_gbps
                      : path.pinned ? path.gbps
                                    : path.gbps * kSeenGbps / kMeasuredGbps;
  row.gbps = std::min(measured * row.gbps / row.first_gbps, most);
  row.first_gbps = std::min(measured, most);
  return row;
}

// The algorithm whose row of the model stands for one that NCCL's model has not, and what of it: of
// partners each message has all bytes.
AlgorithmId modelled(AlgorithmId algorithm) {
  if (find_latency(algorithm, Protocol::simple) != nullptr) return algorithm;
  if (detail::is_tree(algorithm)) return AlgorithmId::tree;
  return kernels::algorithm(algorithm).over == Over::ring ? AlgorithmId::ring
                                                          : AlgorithmId::pairwise;
}
Collective modelled(AlgorithmId algorithm, Collective collective) {
  return kernels::algorithm(algorithm).over == Over::partners ? Collective::send_recv : collective;
}

// The share of NVLink's bandwidth in the model that fifos reach: 303 of 360 GB/s (a broadcast by
// ring, 2 x H200). Windows' kernels have what was measured, so this counts in comparing.
constexpr double kNvlinkShare = 0.84;

// Through the host's memory, which both GPUs cross PCIe for (fits of 2 and 4 x H100 and H200): a
// launch and a hop, of messages apart; and what the begin of an operation gets of the bandwidth, by
// rings and trees, and where all goes to one peer at a time.
struct HostRow {
  bool messages;
  Protocol protocol;
  double base_us, hop_us;
};
constexpr HostRow kHostRows[] = {{false, Protocol::simple, 10.6, 7.1},
                                 {false, Protocol::ll, 9.8, 4.5},
                                 {true, Protocol::simple, 4.5, 6.5},
                                 {true, Protocol::ll, 4.0, 3.9}};
constexpr double kHostFirstShare = 0.75, kHostFirstShareOfPeer = 0.62;
// Between nodes through host memory LL is no faster than Simple but for what is smallest: a proxy
// puts its lines together and takes them apart (2 x H200, sockets).
constexpr uint64_t kStagedLlBytes = 4 << 10;
constexpr double kStagedLlUs = 1;
// Reading twice is hidden behind a network while all data fits into the slots in flight (2 x H200,
// sockets, us, ring and doubling: 256 KiB 175 and 150, 1 MiB 342 and 186, 4 MiB 600 and 550, 16 MiB
// 1377 and 2357).
constexpr uint64_t kHiddenByNetwork = 4 << 20;
constexpr double kHostShareOfPeers = 0.82;  // of all bytes, where there is more than one peer
constexpr double kHostFirstBytes = 8 << 20;

double bytes_us(const ModelInput& input, const Estimate& made) {
  const bool nvlink = input.nodes == 1 && input.ring.type_intra == topology::PathType::nvl;
  return (made.us - made.latency_us) / (nvlink ? kNvlinkShare : 1);
}

}  // namespace

uint64_t moved_bytes(Collective collective, int nranks, uint64_t bytes) {
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
      return bytes * uint64_t(nranks);
    default:
      return bytes;
  }
}

HostTime host_time(const GpuCalibration& windows) {
  HostTime host = kKnownHost;
  // The smallest operation on a stream, as it was measured.
  if (windows.launch_us > 0 && windows.base_us[0] > 0)
    host.launch_us = double(windows.launch_us) + double(windows.base_us[0]);
  return host;
}

GpuPath path_of_windows(const ModelInput& input, bool pinned) {
  const double host = input.host_gbps > 0 ? input.host_gbps : kMeasuredHostGbps;
  if (!input.known || input.ring.channels == 0)
    return {.gbps = pinned ? host : GpuPath().gbps, .pinned = pinned};
  return {.gbps = pinned ? host : input.ring.channels * input.ring.bw_intra,
          .pcie = input.ring.type_intra > topology::PathType::nvb,
          .pinned = pinned,
          .measured = input.windows};
}

bool has_window_table(const ModelInput& input, bool pinned) {
  const GpuPath path = path_of_windows(input, pinned);
  return input.known && input.min_sm == 90 && input.max_sm == 90 &&
         path.gbps == (pinned ? kMeasuredHostGbps : kMeasuredGbps) && (pinned || !path.pcie);
}

std::string window_signature(const ModelInput& input, bool pinned,
                             const base::Processors& processors) {
  const GpuPath path = path_of_windows(input, pinned);
  return format(
      "{}; GPUs {:08x} of SM {}, {}", machine_signature(processors), input.gpu_model, input.min_sm,
      pinned ? format("through host memory at {:.4g} GB/s", path.gbps)
             : format("{} at {:.4g} GB/s", path_type_name(input.ring.type_intra), path.gbps));
}

void set_measured(GpuCalibration& c, size_t kernel, double small_us, double large_us) {
  const CalibratedKernel& of = kCalibratedKernels[kernel];
  // Between two ranks both algorithms send the data once.
  const double wire = wire_bytes_per_byte(of.protocol) / 1e3;
  const double us_per_byte = (large_us - small_us) / double(of.large - of.small);
  if (!(us_per_byte > 0)) return;
  c.gbps[kernel] = float(wire / us_per_byte);
  c.base_us[kernel] = float(small_us - double(of.small) * us_per_byte);
  sanitize(c);
}

GpuPrediction predict_window_kernel(const GpuQuery& q) {
  WindowRow row = window_row(q.algorithm, q.protocol, q.path, q.nranks);
  const double others = q.nranks - 1;
  double bytes = others * double(q.bytes) * wire_bytes_per_byte(q.protocol);
  if (q.algorithm == AlgorithmId::two_shot) bytes *= 2.0 / q.nranks;
  const bool dealt = q.collective == Collective::broadcast &&
                     kernels::cuda::broadcast_is_dealt(q.protocol, q.nranks, q.bytes);
  if (dealt) bytes /= others;
  const double rank_us = dealt ? kDealtRankUs : row.rank_us;
  double latency_us = launch_us(q.path) + row.base_us + std::max(0.0, others - 1) * rank_us;
  if (has_root(q.collective)) latency_us += q.path.pinned ? kPinnedArrivalUs : kArrivalUs;
  const bool stored = q.protocol == Protocol::simple;
  const double handed_us = !stored         ? kHandedOnLinesUs
                           : q.path.pinned ? kPinnedHandedOnUs
                                           : kHandedOnUs;
  if (dealt)
    latency_us += handed_us;
  else if (stored && q.path.pinned && q.nranks > 2)
    row.first_gbps *= kPinnedOfMoreShare;
  double moving_us = moved_us(row, q, bytes);
  if (q.collective == Collective::all_to_all && q.protocol != Protocol::simple)
    moving_us += double(q.bytes) / (kOwnBlockGbps * 1e3);
  return {latency_us + moving_us,
          moving_us > latency_us ? format("bandwidth: {:.4g} GB/s {}", row.gbps,
                                          q.path.pinned ? "through host memory" : "between GPUs")
                                 : format("latency: launch and flags of {} ranks", q.nranks)};
}

GpuPrediction predict_direct(const GpuQuery& q) {
  const Collective c = q.collective;
  const bool slices = c == Collective::all_reduce || c == Collective::reduce;
  const bool adds = adds_up(c);
  const double others = q.nranks - 1;
  const auto by = [&](bool loads, double bytes) {
    const DirectRow& row = *std::find_if(
        std::begin(kDirectRows), std::end(kDirectRows),
        [&](const DirectRow& each) { return each.adds == adds && each.loads == loads; });
    // As much of the table as staged stores reach of theirs.
    const WindowRow staged = window_row(AlgorithmId::one_shot, Protocol::simple, q.path, q.nranks);
    const WindowRow& known = table_row(AlgorithmId::one_shot, Protocol::simple, false);
    const bool measured =
        measured_base(q.path.measured, AlgorithmId::one_shot, Protocol::simple) != nullptr;
    const double gbps = measured ? row.gbps * staged.gbps / known.gbps : on_path(row.gbps, q.path);
    const double latency_us = launch_us(q.path) + row.base_us +
                              std::max(0.0, others - 1) * row.rank_us + staged.base_us -
                              known.base_us;
    const double moving_us = bytes / (gbps * 1e3);
    return GpuPrediction{latency_us + moving_us,
                         moving_us > latency_us
                             ? format("bandwidth: {:.4g} GB/s between GPUs", gbps)
                             : format("latency: launch and flags of {} ranks", q.nranks)};
  };
  const double bytes = others * double(q.bytes) * (slices ? 2.0 / q.nranks : 1);
  GpuPrediction usual = by(adds && c != Collective::all_reduce, bytes);
  if (c != Collective::broadcast || q.nranks < 3) return usual;
  // Handed on by those who get it, everything leaves the root once.
  GpuPrediction relayed = by(true, double(q.bytes));
  return relayed.us < usual.us ? relayed : usual;
}

std::string fifos_unavailable(const ModelInput& input, const GpuQuery& q) {
  if (!serves(kernels::algorithm(q.algorithm), q.protocol) ||
      find_latency(modelled(q.algorithm), q.protocol) == nullptr)
    return format("{} does not support {}", name_of(q.algorithm), name_of(q.protocol));
  // One rank sends to nobody, so every algorithm will do.
  if (input.ranks < 2 && q.protocol != Protocol::ll128) return {};
  return unavailable(input, modelled(q.algorithm), q.protocol, modelled(q.algorithm, q.collective));
}

GpuPrediction predict_fifos(const ModelInput& input, const GpuQuery& q) {
  COLL_CHECK(fifos_unavailable(input, q).empty());
  if (input.staged && q.protocol == Protocol::ll &&
      moved_bytes(q.collective, q.nranks, q.bytes) > kStagedLlBytes) {
    GpuQuery simple = q;
    simple.protocol = Protocol::simple;
    if (fifos_unavailable(input, simple).empty()) {
      GpuPrediction made = predict_fifos(input, simple);
      made.us += kStagedLlUs;
      return made;
    }
  }
  const AlgorithmId algorithm = modelled(q.algorithm);
  const LatencyRow& row = *find_latency(algorithm, q.protocol);
  if (input.ranks < 2) return {row.base_us, "latency: one rank has no peers"};
  const Estimate made = estimate(input, algorithm, q.protocol, modelled(q.algorithm, q.collective),
                                 moved_bytes(q.collective, q.nranks, q.bytes));
  double moving = bytes_us(input, made), latency = made.latency_us, base = row.base_us;
  if (input.through_host && input.nodes == 1)
    for (const HostRow& host : kHostRows)
      if (host.protocol == q.protocol && host.messages == (q.algorithm == AlgorithmId::pairwise)) {
        const auto over = kernels::algorithm(q.algorithm).over;
        const bool to_peers = over == Over::rounds || over == Over::partners;
        const double share = to_peers ? kHostFirstShareOfPeer : kHostFirstShare;
        base = host.base_us;
        latency = base + (latency - row.base_us) / row.hop_us[int(HopKind::pci)] * host.hop_us;
        const double bytes = double(moved_bytes(q.collective, q.nranks, q.bytes));
        moving *= 1 + std::min(1.0, kHostFirstBytes / std::max(1.0, bytes)) * (1 / share - 1);
        if (over == Over::rounds && q.nranks > 2) moving /= kHostShareOfPeers;
      }
  if (q.algorithm == AlgorithmId::tree) moving *= 1.5;
  if (const kernels::AlgorithmRow& text = kernels::algorithm(q.algorithm);
      text.over == Over::partners) {
    const double messages = detail::messages_in_turn(text, q.collective, q.nranks);
    const double each = latency - base;
    latency = base + messages * each;
    // Chunks of a rooted tree follow one another, and an inner rank sends or takes in everything
    // twice; each message of doubling waits for the one before.
    if (detail::joins_blocks(q.algorithm))
      moving *= detail::kReadTwice * std::min(input.channels, input.full_channels);  // by one
    else if (q.algorithm == AlgorithmId::rooted_tree)
      moving *= q.nranks > 3 ? 2 : 1;
    else
      moving *= most_sent(text, q.collective, q.nranks);
    const bool hidden = input.nodes > 1 && q.bytes <= kHiddenByNetwork;
    if (has_op(q.collective) && !hidden) moving *= detail::kReadTwice;
    if (latency > moving)
      return {latency + moving,
              format("latency: {:.0f} messages in turn of {:.4g} us", messages, each)};
  }
  return {latency + moving, made.limited_by};
}

}  // namespace collctl::runtime
