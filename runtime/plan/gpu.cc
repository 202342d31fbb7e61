// The planner's part for GPU ranks (candidates.h).
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cost_table.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/network_reduction.h"
#include "runtime/plan/planner.h"

namespace collctl::runtime::detail {
namespace {

using kernels::AlgorithmId;
using kernels::AlgorithmRow;
using kernels::Collective;
using kernels::Protocol;

// Slots of a ring's chunk: a rank still adds up one half while the next has the other.
constexpr uint32_t kRingSlots = 4;
constexpr uint64_t kLeastGpuChunk = 32 << 10;  // of a pipeline: below it hand-overs cost more
// A channel that moves less only adds a block to start.
constexpr uint64_t kPairBytesPerChannel = 64 << 10, kHostPairBytes = 4 << 10;
// Through the host's memory, of a message: so large it has the bandwidth with fewer, and fewer
// slots stay in the processor's cache (2 x H200, 2 MiB: 97 us by 16, 107 by 32); more hide what the
// largest wait (32 MiB: 1092 us by 8, 985 by 32).
constexpr uint64_t kHostFewFrom = (1 << 20) + 1, kHostFewTo = 8 << 20;
constexpr int kHostFewChannels = 16;
// Between nodes through host memory one thread serves a rank's sockets until messages are so large
// that helpers take them over, a lane each (2 x H200, sockets, us: a message of 64 KiB by one
// channel 68, of 128 KiB by two 92, of 256 KiB by four 158; of 512 KiB by four 195, by eight 287).
constexpr uint64_t kStagedServed = 64 << 10, kStagedHelped = 128 << 10;
constexpr uint64_t kMostStagedServed = 4;

GpuQuery query_of(const Operation& op, const CommShape& shape, AlgorithmId algorithm,
                  Protocol protocol) {
  return {op.collective, algorithm,    protocol,
          shape.nranks,  bytes_of(op), path_of_windows(*shape.model, shape.pinned_window)};
}

// Empty, or why these paths cannot have the protocol.
std::string protocol_off(const CommShape& shape, Protocol protocol) {
  if (protocol != Protocol::ll128 || shape.ll128_passed) return {};
  return shape.no_ll128.empty() ? "ll128 was not tested on these paths" : shape.no_ll128;
}

bool window_kernel_serves(const Operation& op, const CommShape& shape, AlgorithmId algorithm,
                          Protocol protocol) {
  return shape.window_serves != nullptr &&
         shape.window_serves(executed(op.collective), algorithm, protocol, op.type, op.op,
                             shape.nranks, bytes_of(op));
}

// Empty, or why not.
std::string window_refusal(const Operation& op, const CommShape& shape, const AlgorithmRow& row,
                           Protocol protocol) {
  if (!shape.gpu_window && !(shape.pinned_window && protocol != Protocol::ll128))
    return format("{} needs memory that all ranks map, and there is none: {}", row.name,
                  shape.no_window);
  if (window_kernel_serves(op, shape, row.id, protocol)) return {};
  return format("{} has no kernel for {} of {} bytes of {} with {} on {} GPUs", row.name,
                name_of(op.collective), bytes_of(op), name_of(op.type), name_of(protocol),
                shape.nranks);
}

std::string refusal(const Operation& op, const CommShape& shape, const AlgorithmRow& row,
                    Protocol protocol) {
  if (!serves(row, executed(op.collective)))
    return format("{} does not support {}", row.name, name_of(op.collective));
  if (std::string off = protocol_off(shape, protocol); !off.empty()) return off;
  if (row.window) return window_refusal(op, shape, row, protocol);
  if (row.network) {
    if (std::string why = network_refusal(op, shape); !why.empty()) return why;
    if (!serves(row, protocol)) return format("{} supports the protocol simple only", row.name);
  }
  if (shape.slot_bytes[int(protocol)] == 0) return format("{} has no slots", name_of(protocol));
  if (shape.slot_count < row.min_slots)
    return format("{} needs {} slots, STEPS provides {}", row.name, row.min_slots,
                  shape.slot_count);
  if (std::string why = scratch_refusal(row, op, shape.nranks); !why.empty()) return why;
  return fifos_unavailable(*shape.model, query_of(op, shape, row.id, protocol));
}

// The bytes that a rank sends at a time, by all channels.
uint64_t message_bytes(const Operation& op, const CommShape& shape, const AlgorithmRow& row) {
  const bool shares = row.id == AlgorithmId::ring && op.collective == Collective::all_reduce;
  return shares ? bytes_of(op) / uint64_t(shape.nranks) : bytes_of(op);
}

void set_width(const Operation& op, const CommShape& shape, const Choices& choices,
               PlanCandidate& c) {
  const bool pairs = c.row->over == kernels::Over::rounds;
  const int have = pairs ? shape.pair_channels : int(shape.channels.size());
  const uint64_t bytes = moved_bytes(op.collective, shape.nranks, bytes_of(op));
  int most = choices.channels > 0 ? std::min(choices.channels, have) : have;
  const bool staged = shape.model->staged && !c.row->network;
  if (choices.channels == 0 && staged) {
    most = staged_channels(message_bytes(op, shape, *c.row), have);
  } else if (choices.channels == 0 && pairs) {
    const uint64_t each = pairs_through_host(shape) ? kHostPairBytes : kPairBytesPerChannel;
    most = int(std::clamp<uint64_t>(bytes / each, 1, uint64_t(have)));
    most = std::min(most, most_pair_channels(bytes_of(op), have, shape));
  }
  const Width width = useful_width(*shape.model, c.row->id, c.protocol, most,
                                   pairs || staged || choices.channels > 0, bytes);
  c.channels = c.row->network ? network_channels(shape, width.channels) : width.channels;
  // Its chunks run across blocks where a channel has whole ones.
  if (joins_blocks(c.row->id) && choices.channels == 0) c.channels = 1;
  c.threads = mover_threads(width.threads, c.protocol);
}

uint64_t chunk_bytes(const Operation& op, const CommShape& shape, const PlanCandidate& c) {
  const uint64_t slot = slot_data_bytes(shape, c.protocol);
  if (c.row->over == kernels::Over::rounds)
    return link_chunk_bytes(shape, c.protocol, bytes_of(op));
  if (const int depth = pipeline_depth(*c.row, op.collective, shape); depth > 0)
    return pipeline_chunk(bytes_of(op) / uint64_t(c.channels), depth, kLeastGpuChunk, slot);
  if (c.row->over == kernels::Over::partners) return slot;
  if (c.protocol != Protocol::simple) return slot;
  return slot * std::min(kRingSlots, kernels::most_slices(*c.row, shape.slot_count));
}

}  // namespace

bool pairs_through_host(const CommShape& shape) {
  return shape.gpu && shape.model->through_host && shape.model->nodes == 1;
}

int most_pair_channels(uint64_t message_bytes, int have, const CommShape& shape) {
  const bool few =
      pairs_through_host(shape) && message_bytes >= kHostFewFrom && message_bytes <= kHostFewTo;
  return few ? std::min(have, kHostFewChannels) : have;
}

int staged_channels(uint64_t message_bytes, int have) {
  const uint64_t served = std::min(message_bytes / kStagedServed, kMostStagedServed);
  const uint64_t wanted = std::max({uint64_t(1), served, message_bytes / kStagedHelped});
  return int(std::min(wanted, uint64_t(have)));
}

int mover_threads(int threads, Protocol protocol) {
  return std::max(protocol == Protocol::simple ? threads - kWarp : threads, 3 * kWarp);
}

std::vector<PlanCandidate> gpu_candidates(const Operation& op, const CommShape& shape,
                                          const Choices& choices) {
  COLL_CHECK(shape.model != nullptr);
  std::vector<PlanCandidate> found;
  for (const AlgorithmRow& row : kernels::algorithms()) {
    if (!choices.allows(row.id)) continue;
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      const Protocol protocol = Protocol(p);
      if (!choices.allows(protocol) || !refusal(op, shape, row, protocol).empty()) continue;
      PlanCandidate c;
      c.row = &row;
      c.protocol = protocol;
      c.by_window_kernel = row.window;
      const GpuQuery query = query_of(op, shape, row.id, protocol);
      c.time = row.window ? predict_window_kernel(query) : predict_fifos(*shape.model, query);
      if (!row.window) {
        set_width(op, shape, choices, c);
        c.chunk_bytes = chunk_bytes(op, shape, c);
      }
      found.push_back(std::move(c));
    }
  }
  return found;
}

void gpu_refusals(const Operation& op, const CommShape& shape, const Choices& choices,
                  const std::function<void(const std::string&)>& add) {
  std::vector<std::string> said;
  for (const AlgorithmRow& row : kernels::algorithms())
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (!choices.allows(row.id) || !choices.allows(Protocol(p))) continue;
      if (row.network && choices.algo.empty()) continue;  // nobody thought of it
      std::string why = refusal(op, shape, row, Protocol(p));
      if (why.empty() || std::find(said.begin(), said.end(), why) != said.end()) continue;
      add(why);
      said.push_back(std::move(why));
    }
}

}  // namespace collctl::runtime::detail
