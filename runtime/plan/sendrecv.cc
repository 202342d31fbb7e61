// Pairwise schedules: who exchanges with whom in which round. Part of the planner (planner.h).
//
// Round d: every rank r sends to r + d and receives from r - d (mod n), so both ends of a message
// share a round. No deadlock: take a rank at the earliest (round, step, chunk) of all; the
// receiver of its chunk has taken every earlier chunk, so all slots of that connection are free,
// and the sender of the chunk it waits for is not earlier than itself, so it has sent or is free to
// send. This needs a chunk to fit into the slots of a connection.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/planner.h"

namespace collctl::runtime {
namespace {

using kernels::PairStep;
using kernels::Protocol;

// How messages travel: the protocol by the size, over how many channels.
struct MessageWidth {
  uint64_t ll_bytes;        // up to here flags in short lines are fastest
  uint64_t ll128_bytes;     // up to here those in long lines, where they are to be had
  uint64_t ll_alone_bytes;  // up to here those in short lines where they are not
  uint64_t channel_bytes[kernels::kProtocolCount];  // another channel for each so many more
};
constexpr MessageWidth kCpuMessages{8 << 10, 0, 8 << 10, {512 << 10, 512 << 10, 512 << 10}};
// Within a host, where nobody puts lines together and takes them apart (two cores, us, LL / Simple:
// 0.63 / 0.70 at 512 bytes, 0.87 / 0.86 at 1 KiB, 1.4 / 1.06 at 2 KiB, 2.5 / 1.54 at 4 KiB).
constexpr MessageWidth kHostMessages{1 << 10, 0, 1 << 10, {512 << 10, 512 << 10, 512 << 10}};
constexpr MessageWidth kGpuMessages{32 << 10, 1 << 20, 512 << 10, {32 << 10, 2 << 10, 16 << 10}};
// Through the host's memory, where many small blocks wait for PCIe side by side (2 x H200, us, LL /
// Simple, each with the channels that are best: 8.1 / 10.2 at 1 KiB, 10.1 / 11.6 at 16 KiB, 12.1 /
// 12.1 at 32 KiB, 18 / 13 at 64 KiB, 36 / 24 at 256 KiB, 90 / 63 at 1 MiB).
constexpr MessageWidth kThroughHost{16 << 10, 0, 16 << 10, {2 << 10, 256, 16 << 10}};

// Between nodes through host memory, where a proxy puts LL's lines together and takes them apart (2
// x H200, sockets, us, LL / Simple by one channel: 19 / 22 at 1 KiB, 32 / 24 at 4 KiB, 50 / 36 at
// 16 KiB, 86 / 68 at 64 KiB; 258 / 150 at 256 KiB, by eight 474 / 102).
// Channels by staged_channels().
constexpr MessageWidth kStaged{2 << 10, 0, 2 << 10, {}};
// From here on through the window in host memory (2 x H200, us, by fifos and there: 256 KiB 23, 25;
// 512 KiB 36, 35; 1 MiB 59, 56; 4 MiB 172, 148; 16 MiB 546, 474; 256 MiB 7220, 6890).
constexpr uint64_t kPinnedMessages = 512 << 10;

// How a message is sent. Every rank keeps this order of paths, and none waits for another. window:
// in memory that all ranks map; copy: to oneself, on a GPU. fine: in chunks of its own
// (link_chunk_bytes).
enum class By { fifos, fine_fifos, window, copy };
struct Way {
  Protocol protocol;
  By by;
};
constexpr Way kWays[] = {{Protocol::ll, By::fifos},          {Protocol::ll128, By::fifos},
                         {Protocol::simple, By::fine_fifos}, {Protocol::simple, By::fifos},
                         {Protocol::ll128, By::window},      {Protocol::simple, By::window},
                         {Protocol::simple, By::copy}};

// A power of two. A lent message costs a system call and its sender's wait until it was read.
constexpr uint8_t kLendsFrom = 13;

// The chunk of a slot over NVLink: data in flight in all channels must stay in the receiver's cache
// until it is taken.
constexpr uint64_t kNvlinkChunk = 128 << 10;
// Through the host's memory, where the receiver reads one while the sender writes the next (2 x
// H200, 1 MiB by 32 channels, chunks of 32 and 16 KiB: 62 and 58 us; 4 MiB by 16: 175 and 203).
constexpr uint64_t kHostChunk = 32 << 10, kFineHostChunk = 16 << 10, kFineBytes = 1 << 20;
bool is_fine(uint64_t bytes, Protocol protocol, const CommShape& shape) {
  return protocol == Protocol::simple && detail::pairs_through_host(shape) && bytes <= kFineBytes;
}

const MessageWidth& message_width(const CommShape& shape) {
  if (shape.gpu && shape.model->staged) return kStaged;
  if (shape.gpu) return detail::pairs_through_host(shape) ? kThroughHost : kGpuMessages;
  return shape.all_on_one_host && !shape.path.used ? kHostMessages : kCpuMessages;
}

int message_channels(uint64_t bytes, Protocol protocol, const CommShape& shape,
                     const Choices& choices) {
  const bool rings = !shape.gpu || protocol == Protocol::ll128;  // see have_ll128
  const int have = rings ? int(shape.channels.size()) : shape.pair_channels;
  if (choices.channels > 0) return std::min(choices.channels, have);
  if (shape.gpu && shape.model->staged) return detail::staged_channels(bytes, have);
  const int most = shape.gpu ? detail::most_pair_channels(bytes, have, shape)
                             : std::min(have, shape.default_channels);
  const uint64_t each = message_width(shape).channel_bytes[int(protocol)];
  return int(std::clamp<uint64_t>(bytes / each, 1, uint64_t(most)));
}

Prediction message_time(uint64_t bytes, const Way& way, const CommShape& shape) {
  constexpr auto kPairwise = kernels::AlgorithmId::pairwise;
  const Protocol protocol = way.protocol;
  if (way.by == By::window)
    return predict_window_kernel({Collective::send_recv, kernels::AlgorithmId::one_shot, protocol,
                                  2, bytes, path_of_windows(*shape.model, shape.pinned_window)});
  const auto gpu_time = [&](Protocol p, uint64_t n) {
    return predict_fifos(*shape.model, {Collective::send_recv, kPairwise, p, shape.nranks, n});
  };
  // NCCL has no LL128 for messages: it starts like LL and moves 120 of 128 bytes of Simple's.
  if (shape.gpu && protocol == Protocol::ll128) {
    Prediction time = gpu_time(Protocol::simple, bytes);
    time.us =
        gpu_time(Protocol::ll, 0).us + (time.us - gpu_time(Protocol::simple, 0).us) * 128 / 120;
    return time;
  }
  if (shape.gpu) return gpu_time(protocol, bytes);
  return predict({.collective = Collective::send_recv,
                  .algorithm = kPairwise,
                  .protocol = protocol,
                  .bytes = bytes,
                  .chunk_bytes = uint64_t(64) << 10},
                 shape);
}

int message_threads(uint64_t bytes, Protocol protocol, const CommShape& shape) {
  if (!shape.gpu) return 0;
  const Width width =
      useful_width(*shape.model, kernels::AlgorithmId::pairwise, protocol, 1, true, bytes);
  return detail::mover_threads(width.threads, protocol);
}

const uint8_t* at(const void* base, uint64_t elements, uint64_t size) {
  return base == nullptr ? nullptr : static_cast<const uint8_t*>(base) + elements * size;
}
uint8_t* at(void* base, uint64_t elements, uint64_t size) {
  return base == nullptr ? nullptr : static_cast<uint8_t*>(base) + elements * size;
}

// The parts of messages that one channel carries in one round.
struct Round {
  std::vector<std::pair<const uint8_t*, uint64_t>> sends;
  std::vector<std::pair<uint8_t*, uint64_t>> recvs;
};
struct Schedule {
  std::map<int, Round> rounds;  // by distance
  uint64_t largest = 0;         // part of a message
  uint64_t whole = 0;           // message
};

// LL128's slots are large, so only neighbours in rings have them.
bool have_ll128(int from, int to, const CommShape& shape) {
  if (!shape.gpu || !shape.ll128_passed || shape.slot_bytes[int(Protocol::ll128)] == 0)
    return false;
  return std::all_of(shape.channels.begin(), shape.channels.end(), [&](const ChannelShape& c) {
    const auto at = std::find(c.ring.begin(), c.ring.end(), from);
    return at != c.ring.end() && *(at + 1 == c.ring.end() ? c.ring.begin() : at + 1) == to;
  });
}

// Between GPUs that map each other's memory messages go through it: all blocks of a device move
// one, where a fifo has one block at each end, and no links are made. A user who sets a number of
// channels gets fifos.
bool window_has(Protocol protocol, uint64_t bytes, const CommShape& shape, const Choices& choices) {
  const bool have = shape.gpu_window || (shape.pinned_window && protocol == Protocol::simple);
  return have && shape.window_serves != nullptr && choices.channels == 0 &&
         choices.allows(protocol) && (protocol != Protocol::ll128 || shape.ll128_passed) &&
         shape.window_serves(Collective::send_recv, kernels::AlgorithmId::pairwise, protocol,
                             DataType::uint8, kernels::RedOp::sum, shape.nranks, bytes);
}

Result<Protocol> protocol_of(const Operation& message, uint64_t bytes, const CommShape& shape,
                             const Choices& choices) {
  const auto usable = [&](Protocol p) {
    return choices.allows(p) && shape.slot_bytes[int(p)] != 0 &&
           serves(kernels::algorithm(kernels::AlgorithmId::pairwise), p);
  };
  const bool sends = message.input != nullptr;
  const bool ll128 =
      usable(Protocol::ll128) &&
      have_ll128(sends ? shape.rank : message.peer, sends ? message.peer : shape.rank, shape);
  const MessageWidth& width = message_width(shape);
  // Over networks nobody has measured what messages gain by it: there it is taken by name only.
  const bool measured = ll128 && shape.model->nodes == 1;
  if (usable(Protocol::ll) && bytes <= (measured ? width.ll_bytes : width.ll_alone_bytes))
    return Protocol::ll;
  if (measured && bytes <= width.ll128_bytes) return Protocol::ll128;
  for (const Protocol p : {Protocol::simple, Protocol::ll128, Protocol::ll})
    if (p == Protocol::ll128 ? ll128 : usable(p)) return p;
  return Error(ErrorCode::usage,
               format("sendrecv cannot run with protocol '{}': {}", choices.proto,
                      shape.gpu ? "GPU ranks have simple, ll and, where paths allow, ll128"
                                : "CPU ranks have simple and ll"));
}

// Place in kWays.
Result<size_t> way_of(const Operation& message, uint64_t bytes, const CommShape& shape,
                      const Choices& choices) {
  const auto place = [](Way way) {
    const auto same = [&](const Way& w) { return w.protocol == way.protocol && w.by == way.by; };
    return size_t(std::find_if(std::begin(kWays), std::end(kWays), same) - std::begin(kWays));
  };
  if (shape.gpu && message.peer == shape.rank) return place({Protocol::simple, By::copy});
  if (window_has(Protocol::ll128, bytes, shape, choices))
    return place({Protocol::ll128, By::window});
  COLL_ASSIGN(const Protocol protocol, protocol_of(message, bytes, shape, choices));
  const bool large =
      bytes >= (shape.pinned_window ? kPinnedMessages : message_width(shape).ll_alone_bytes + 1);
  if (large && protocol == Protocol::simple && window_has(protocol, bytes, shape, choices))
    return place({protocol, By::window});
  return place({protocol, is_fine(bytes, protocol, shape) ? By::fine_fifos : By::fifos});
}

std::string why_way(const Way& way, const CommShape& shape) {
  const MessageWidth& width = message_width(shape);
  if (way.by == By::copy) return "messages to itself";
  if (way.by == By::window)
    return format("{} messages, in memory that all ranks map",
                  way.protocol == Protocol::ll128 ? "small" : "large");
  if (way.protocol == Protocol::ll) return format("messages up to {} bytes", width.ll_alone_bytes);
  if (way.protocol == Protocol::ll128) return format("messages up to {} bytes", width.ll128_bytes);
  return format("messages above or without ll at {} bytes", width.ll_alone_bytes);
}

std::vector<PairStep> steps_of(const Schedule& schedule, const CommShape& shape) {
  std::vector<PairStep> steps;
  const int n = shape.nranks;
  for (const auto& [distance, round] : schedule.rounds) {
    const int to = (shape.rank + distance) % n, from = (shape.rank + n - distance) % n;
    for (size_t k = 0; k < std::max(round.sends.size(), round.recvs.size()); ++k) {
      PairStep step{.send = nullptr,
                    .recv = nullptr,
                    .send_count = 0,
                    .recv_count = 0,
                    .send_peer = -1,
                    .recv_peer = -1};
      if (k < round.sends.size()) {
        step.send = round.sends[k].first;
        step.send_count = round.sends[k].second;
        step.send_peer = to;
      }
      if (k < round.recvs.size()) {
        step.recv = round.recvs[k].first;
        step.recv_count = round.recvs[k].second;
        step.recv_peer = from;
      }
      steps.push_back(step);
    }
  }
  return steps;
}

// A message to oneself has both halves in one submission, of one size, or it would wait for ever.
Status check_self(const Schedule& schedule, int rank) {
  const auto self = schedule.rounds.find(0);
  if (self == schedule.rounds.end()) return {};
  const Round& round = self->second;
  if (round.sends.size() != round.recvs.size())
    return Error(ErrorCode::usage,
                 format("rank {}: {} sends to itself but {} receives from itself in one group",
                        rank, round.sends.size(), round.recvs.size()));
  for (size_t k = 0; k < round.sends.size(); ++k)
    if (round.sends[k].second != round.recvs[k].second)
      return Error(ErrorCode::usage,
                   format("rank {}: a send to itself of {} bytes matches a receive of {}", rank,
                          round.sends[k].second, round.recvs[k].second));
  return {};
}

kernels::Work message_work(const CommShape& shape, const Way& way, int channel,
                           const Schedule& schedule) {
  const Protocol protocol = way.protocol;
  kernels::Work w{};
  w.count = w.part_count = schedule.largest;
  const uint64_t slots = shape.ranks_per_core > 1 ? std::max(1u, shape.slot_count / 2) : 1;
  const uint64_t fine = way.by == By::fine_fifos ? kFineBytes : schedule.whole;
  w.chunk_count = detail::link_chunk_bytes(shape, protocol, fine) * slots / 16 * 16;
  w.ring = {.prev = -1, .next = -1, .index = 0, .reserved = 0, .order = nullptr};
  w.tree = {.up = -1, .down = {-1, -1, -1}};
  w.rank = shape.rank;
  w.nranks = shape.nranks;
  w.collective = Collective::send_recv;
  w.algorithm = kernels::AlgorithmId::pairwise;
  w.protocol = protocol;
  w.mark = detail::lends_from(shape);
  w.type = DataType::uint8;
  w.channel = uint16_t(channel);
  return w;
}

}  // namespace

uint8_t detail::lends_from(const CommShape& shape) {
  return shape.gpu || !shape.lends ? 0 : kLendsFrom;
}

uint64_t detail::link_chunk_bytes(const CommShape& shape, Protocol protocol,
                                  uint64_t message_bytes) {
  const uint64_t slot = slot_data_bytes(shape, protocol);
  if (protocol == Protocol::simple && pairs_through_host(shape))
    return std::min(slot, is_fine(message_bytes, protocol, shape) ? kFineHostChunk : kHostChunk);
  const bool nvlink = shape.gpu && shape.model->nodes == 1 &&
                      shape.model->ring.type_intra == topology::PathType::nvl;
  return protocol == Protocol::simple && nvlink ? std::min(slot, kNvlinkChunk) : slot;
}

std::vector<PairStep> detail::exchange_rounds(const Operation& op, const CommShape& shape,
                                              uint64_t part_offset, uint64_t part_count) {
  const uint64_t size = kernels::element_size(op.type);
  const int n = shape.nranks, me = shape.rank;
  const bool send_blocks = op.collective != Collective::gather;  // one block per peer
  const bool recv_blocks = op.collective != Collective::scatter;
  std::vector<PairStep> steps;
  for (int d = 0; d < n; ++d) {
    const int to = (me + d) % n, from = (me + n - d) % n;
    const bool sends = op.collective == Collective::all_to_all ||
                       (op.collective == Collective::gather ? to == op.root : me == op.root);
    const bool recvs = op.collective == Collective::all_to_all ||
                       (op.collective == Collective::gather ? me == op.root : from == op.root);
    if (!sends && !recvs) continue;
    PairStep step{.send = nullptr,
                  .recv = nullptr,
                  .send_count = 0,
                  .recv_count = 0,
                  .send_peer = -1,
                  .recv_peer = -1};
    if (sends) {
      step.send = at(op.input, (send_blocks ? uint64_t(to) * op.count : 0) + part_offset, size);
      step.send_count = part_count;
      step.send_peer = to;
    }
    if (recvs) {
      step.recv = at(op.output, (recv_blocks ? uint64_t(from) * op.count : 0) + part_offset, size);
      step.recv_count = part_count;
      step.recv_peer = from;
    }
    steps.push_back(step);
  }
  return steps;
}

Status detail::plan_messages(std::span<const Operation> messages, const CommShape& shape,
                             const Choices& choices, Plan& plan) {
  if (!choices.allows(kernels::AlgorithmId::pairwise))
    return Error(
        ErrorCode::usage,
        format("sendrecv cannot run with algorithm '{}': it needs pairwise", choices.algo));
  std::map<std::pair<size_t, int>, Schedule> schedules;  // by (place in kWays, channel)
  for (const Operation& m : messages) {
    const uint64_t bytes = m.count * kernels::element_size(m.type);
    COLL_ASSIGN(const size_t way, way_of(m, bytes, shape, choices));
    const By by = kWays[way].by;
    const bool whole = m.peer == shape.rank || (by != By::fifos && by != By::fine_fifos);
    const int channels = whole ? 1 : message_channels(bytes, kWays[way].protocol, shape, choices);
    const int n = shape.nranks;
    const int distance =
        m.input != nullptr ? (m.peer - shape.rank + n) % n : (shape.rank - m.peer + n) % n;
    const auto parts = cut_parts(bytes, channels);
    for (size_t c = 0; c < parts.size(); ++c) {
      Schedule& s = schedules[{way, int(c)}];
      s.largest = std::max(s.largest, parts[c].count);
      s.whole = std::max(s.whole, bytes);
      Round& round = s.rounds[distance];
      if (m.input != nullptr)
        round.sends.emplace_back(at(m.input, parts[c].offset, 1), parts[c].count);
      else
        round.recvs.emplace_back(at(m.output, parts[c].offset, 1), parts[c].count);
    }
  }
  size_t last = std::size(kWays);
  for (const auto& [key, schedule] : schedules) {
    COLL_TRY(check_self(schedule, shape.rank));
    const Way& way = kWays[key.first];
    const bool by_window = way.by == By::window;
    // Each channel between CPU ranks takes its own time; a GPU's channels share the path.
    const uint64_t timed = shape.gpu ? schedule.whole : schedule.largest;
    const Prediction time = message_time(timed, way, shape);
    if (key.first != last)
      plan.ops.push_back({.algorithm = kernels::AlgorithmId::pairwise,
                          .protocol = way.protocol,
                          .collective = Collective::send_recv,
                          .channels = 0,
                          .works = {},
                          .by_window_kernel = by_window,
                          .by_copies = way.by == By::copy,
                          .threads = message_threads(schedule.largest, way.protocol, shape),
                          .expected_us = time.us,
                          .expected = detail::expected_of(time, by_window, shape),
                          .why = why_way(way, shape)});
    last = key.first;
    plan.pairs.push_back(std::make_shared<const std::vector<PairStep>>(steps_of(schedule, shape)));
    const std::vector<PairStep>& steps = *plan.pairs.back();
    kernels::Work w = message_work(shape, way, key.second, schedule);
    w.pairs = steps.data();
    w.pair_count = uint32_t(steps.size());
    plan.ops.back().works.push_back(w);
    plan.ops.back().channels = int(plan.ops.back().works.size());
  }
  return {};
}

}  // namespace collctl::runtime
