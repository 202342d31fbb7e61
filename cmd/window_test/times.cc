// The stages of window-test that measure: put and get between every two ranks, and collectives on
// windows beside the same on ordinary memory.
#include <algorithm>
#include <memory>

#include "base/format.h"
#include "cmd/measure/timed.h"
#include "cmd/measure/timing.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/guarded_buffer.h"
#include "cmd/window_test/window_test.h"
#include "kernels/contract/types.h"

namespace collctl::cmd {
namespace {

using kernels::Collective;

struct RankPairs {  // that one rank has timed
  static constexpr const char* kRecord = "times of a rank";
  std::vector<WindowPair> pairs;
};
void fields(Record& io, RankPairs& mine) {
  io.field("pairs", mine.pairs);
}

constexpr uint64_t kLarge = 1 << 20;                     // of a bandwidth
constexpr int kMoveTurns = 3;                            // measurements, of which the median counts
constexpr uint64_t kFirstMoves = 20, kMostBatch = 256;   // of 8 bytes
constexpr uint64_t kFewestPieces = 2, kMostPieces = 16;  // large ones
// A pair's share of the deadline of the ranks that wait for it, for each of the four measures of a
// turn.
constexpr double kShare = 1.0 / 64, kLongestTimeout = 300;
constexpr uint64_t kCountAt = 64;  // in the window: how many puts are announced
// Algorithms that work directly between buffers in windows.
constexpr const char* kOnWindows = "one-shot,two-shot";
constexpr int kMostForAllPairs = 64;  // ranks of which every pair is measured
// Comparisons of a collective, of which the median counts; no further one begins after so long.
constexpr int kSideTurns = 3;
constexpr double kSidesUs = 100e3;
// A block of operations lasts so long at least, with so many of them at most.
constexpr double kLeastBlockUs = 200;
constexpr int kMostOperations = 1000;
// Signals of these stages.
constexpr int kPing = 2, kOver = 3;

// How far apart in number the ranks of a pair are, in the order in which pairs are measured: first
// the powers of two, which are all that is measured of a large job.
std::vector<int> distances(int ranks) {
  std::vector<int> powers, others;
  for (int d = 1; d < ranks; ++d) ((d & (d - 1)) == 0 ? powers : others).push_back(d);
  if (ranks <= kMostForAllPairs) powers.insert(powers.end(), others.begin(), others.end());
  return powers;
}

}  // namespace

// By both ranks of the pair; `from` measures. Latency of a put: half a turn of 8 bytes with a
// signal there and the same back. Peers put to the lower half of the window; the upper one is the
// near end, so that memory of the ranks' kind is at both. However many moves are asked for, a pair
// has its share of the deadline and no more: the other ranks wait meanwhile.
Status WindowTest::measure_pair(int from, int to, const Memory& memory, WindowPair& pair) {
  const bool active = rank() == from;
  const int peer = active ? to : from;
  const auto asked = uint64_t(std::max(spec_.iterations, 1));
  const uint64_t asked_pieces = std::clamp(asked / 4, kFewestPieces, kMostPieces);
  const auto share_ns = int64_t(std::min(timeout_s_, kLongestTimeout) * 1e9 * kShare);
  const uint64_t bytes = memory.window->bytes() / 2;
  uint8_t* const near = static_cast<uint8_t*>(memory.address) + bytes;
  // Nanoseconds of one move of many; the clock is looked at every so many.
  const auto time_moves = [&](uint64_t most, uint64_t every, auto&& move) -> Result<double> {
    const int64_t began = now_ns();
    uint64_t count = 0;
    do {
      COLL_TRY(move());
      ++count;
    } while (count < most && (count % every != 0 || now_ns() - began < share_ns));
    if (every == 1) COLL_TRY(one_sided_->flush(peer, deadline()));
    return double(now_ns() - began) / double(count);
  };
  std::vector<double> put_us, get_us, put_GBps, get_GBps;
  for (int turn = 0; turn <= kMoveTurns; ++turn) {  // the first one warms up
    const uint64_t moves = turn == 0 ? std::min(asked, kFirstMoves) : asked;
    const uint64_t pieces = turn == 0 ? kFewestPieces : asked_pieces;
    COLL_ASSIGN(const double ping_ns, time_pings(peer, active, memory, moves, share_ns));
    if (!active) continue;
    COLL_ASSIGN(const double get_ns, time_moves(moves, 16, [&] {
                  return one_sided_->get({memory.window, peer, 0}, near, 8, deadline());
                }));
    COLL_ASSIGN(const double large_put_ns, time_moves(pieces, 1, [&] {
                  return one_sided_->put({memory.window, peer, 0}, near, bytes, deadline());
                }));
    COLL_ASSIGN(const double large_get_ns, time_moves(pieces, 1, [&] {
                  return one_sided_->get({memory.window, peer, 0}, near, bytes, deadline());
                }));
    if (turn == 0) continue;
    put_us.push_back(ping_ns / 2e3);
    get_us.push_back(get_ns / 1e3);
    put_GBps.push_back(double(bytes) / large_put_ns);
    get_GBps.push_back(double(bytes) / large_get_ns);
  }
  if (!active) return one_sided_->wait(peer, kOver, 1, deadline());
  pair = {.from = from,
          .to = to,
          .path = one_sided_->path(to),
          .put_us = median(put_us),
          .get_us = median(get_us),
          .put_GBps = median(put_GBps),
          .get_GBps = median(get_GBps)};
  return one_sided_->signal(peer, kOver);
}

// Nanoseconds there and back, as the active rank has it: in batches, each of which it announces, so
// that it can end early. A batch of none is the last one.
Result<double> WindowTest::time_pings(int peer, bool active, const Memory& memory, uint64_t most,
                                      int64_t share_ns) {
  uint8_t* const near = static_cast<uint8_t*>(memory.address) + memory.window->bytes() / 2;
  uint64_t done = 0, batch = std::min(most, kFirstMoves);
  int64_t spent_ns = 0;
  while (true) {
    if (active) {
      COLL_TRY(one_sided_->put_signal({memory.window, peer, kCountAt}, &batch, sizeof batch, kPing,
                                      deadline()));
      COLL_TRY(one_sided_->wait(peer, kPing, 1, deadline()));
    } else {
      COLL_TRY(one_sided_->wait(peer, kPing, 1, deadline()));
      COLL_TRY(read(static_cast<uint8_t*>(memory.address) + kCountAt,
                    {reinterpret_cast<uint8_t*>(&batch), sizeof batch}));
      COLL_TRY(one_sided_->signal(peer, kPing));
    }
    if (batch > kMostBatch)
      return Error(ErrorCode::bad_data, format("rank {} says that it puts {} times", peer, batch))
          .blame(peer);
    if (batch == 0) return double(spent_ns) / double(std::max<uint64_t>(done, 1));
    const int64_t began = now_ns();
    for (uint64_t i = 0; i < batch; ++i) {
      if (!active) COLL_TRY(one_sided_->wait(peer, kPing, 1, deadline()));
      COLL_TRY(one_sided_->put_signal({memory.window, peer, 0}, near, 8, kPing, deadline()));
      if (active) COLL_TRY(one_sided_->wait(peer, kPing, 1, deadline()));
    }
    if (!active) continue;
    spent_ns += now_ns() - began;
    done += batch;
    const bool over = done >= most || spent_ns >= share_ns;
    batch = over ? 0 : std::min({most - done, 2 * batch, kMostBatch});
  }
}

// One pair at a time, so that none disturbs another.
Status WindowTest::matrix(WindowFindings& found) {
  if (size() == 1) {
    found.does_not_apply("one rank has nobody to put to");
    return {};
  }
  COLL_ASSIGN(Memory memory, make(2 * kLarge));
  RankPairs mine;
  const auto all = uint64_t(size()) * uint64_t(size() - 1);
  const std::vector<int> apart = distances(size());
  const uint64_t wanted = apart.size() * uint64_t(size());
  const auto looks_every = uint64_t(std::max(1, size() / 8));  // at the budget
  uint64_t begun = 0;
  bool over = false;
  for (const int distance : apart)
    for (int from = 0; from < size() && !over; ++from) {
      if (begun % looks_every == 0) {
        COLL_ASSIGN(over, over_budget());
      }
      if (over) break;
      ++begun;
      const int to = (from + distance) % size();
      COLL_TRY(barrier());
      if (rank() != from && rank() != to) continue;
      WindowPair pair{.from = from, .to = to};
      COLL_TRY(measure_pair(from, to, memory, pair));
      if (rank() != from) continue;
      found.looked();
      mine.pairs.push_back(std::move(pair));
    }
  report_.pairs_left_out = all - begun;
  if (begun < wanted)
    found.not_tested(format("{} of {} pairs of ranks were not timed within {}", wanted - begun,
                            wanted, budget_words()));
  COLL_TRY(barrier());
  COLL_ASSIGN(const auto blobs, communicator_.gather_blobs(encoded(mine), deadline()));
  for (int from = 0; from < size(); ++from) {
    auto theirs = decoded<RankPairs>(blobs[size_t(from)]);
    if (!theirs) return Error(ErrorCode::defect, "a rank's times have the wrong length");
    for (WindowPair& pair : theirs->pairs) {
      pair.from = from;
      report_.pairs.push_back(std::move(pair));
    }
  }
  std::ranges::sort(report_.pairs, [](const auto& a, const auto& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return give_back({&memory, 1});
}

namespace {

// The bytes at each end of a collective of `bytes`: what sizes of collectives mean.
runtime::Operation operation_of(Collective collective, uint64_t bytes, int ranks, void* input,
                                void* output) {
  const uint64_t elements = bytes / sizeof(float);
  const bool whole = collective == Collective::all_reduce || collective == Collective::broadcast;
  runtime::Operation op;
  op.collective = collective;
  op.input = input;
  op.output = output;
  op.count = whole ? elements : elements / uint64_t(ranks);
  return op;
}

// Whole numbers: sums are the same in any order.
void fill_numbers(std::vector<float>& numbers, int rank) {
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float((i * 7 + size_t(rank) * 13) % 64);
}

}  // namespace

// Time of one side of a comparison: the slowest rank's, in microseconds.
Result<double> WindowTest::time_of(const runtime::Operation& op, runtime::Stream& stream,
                                   int iterations) {
  const Submission submission{op};
  COLL_ASSIGN(const auto timed,
              own_timed(communicator_, stream, {&submission, 1}, {.timeout_s = timeout_s_}));
  StreamBarrier stream_barrier(communicator_, stream, timeout_s_);
  COLL_ASSIGN(const Samples samples, measure(*timed, stream_barrier, {iterations, 3, false}));
  ByteWriter writer;
  samples.put(writer);
  COLL_ASSIGN(const auto blobs, communicator_.gather_blobs(writer.bytes(), deadline()));
  std::vector<Samples> all;
  for (const Bytes& blob : blobs) {
    ByteReader reader(blob);
    all.push_back(Samples::get(reader, 0));
    if (!reader.ok()) return Error(ErrorCode::defect, "a rank's times have the wrong length");
  }
  std::ranges::sort(report_.pairs, [](const auto& a, const auto& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  const uint64_t bytes = op.count * sizeof(float);
  return merge_samples(all, {op.collective, bytes, iterations, 1}).time_us;
}

// One collective through ordinary memory and through windows, by turns, because what disturbs a
// machine comes and goes: the same result, and who is faster.
Status WindowTest::compare_sides(Collective collective, uint64_t bytes, const SideBuffers& sides,
                                 runtime::Stream& stream, WindowFindings& found) {
  std::vector<double> times[2];
  int iterations[2] = {spec_.iterations, spec_.iterations};
  double spent_us = 0;
  const auto bytes_of = [](std::vector<float>& v) {
    return std::span(reinterpret_cast<uint8_t*>(v.data()), v.size() * sizeof(float));
  };
  std::vector<float> numbers(kLarge / sizeof(float));
  fill_numbers(numbers, rank());
  std::vector<float> results[2] = {numbers, numbers};
  // All ranks know the same times, so all of them end with the same turn.
  for (int turn = 0; turn < kSideTurns && (turn == 0 || spent_us < kSidesUs); ++turn)
    for (const size_t side : {kOrdinary, kWindow}) {
      std::ranges::fill(results[side], -1.0f);
      COLL_TRY(write(sides.input[side], bytes_of(numbers)));
      COLL_TRY(write(sides.output[side], bytes_of(results[side])));
      const auto op =
          operation_of(collective, bytes, size(), sides.input[side], sides.output[side]);
      COLL_TRY(communicator_.set_choices(side == kWindow ? kOnWindows : "", "", 0));
      const auto plan = communicator_.plan_for({&op, 1});
      if (!plan && side == kOrdinary) return plan.error();
      if (!plan) return Error(ErrorCode::unavailable, plan.error().message);
      if (side == kWindow && (plan->ops.empty() || !plan->ops[0].direct))
        return Error(ErrorCode::unavailable,
                     plan->ops.empty() ? "there is nothing to do" : plan->ops[0].why);
      COLL_ASSIGN(const double us, time_of(op, stream, iterations[side]));
      COLL_TRY(read(sides.output[side], bytes_of(results[side])));
      times[side].push_back(us);
      spent_us += us * iterations[side];
      iterations[side] = std::clamp(int(kLeastBlockUs / std::max(us, 1e-2)), spec_.iterations,
                                    std::max(spec_.iterations, kMostOperations));
    }
  found.looked();
  const char* const name = kernels::name_of(collective);
  report_.ratios.push_back({.op = name,
                            .bytes = bytes,
                            .ordinary_us = median(times[kOrdinary]),
                            .window_us = median(times[kWindow])});
  if (results[kOrdinary] != results[kWindow])
    found.fail(ErrorCode::bad_data, -1,
               format("{} of {}: the result on windows is not that on ordinary memory", name,
                      human_bytes(bytes)));
  return {};
}

Status WindowTest::collectives(WindowFindings& found) {
  if (size() == 1) {
    found.does_not_apply("one rank has nobody to work with");
    return {};
  }
  if (const std::string why = communicator_.no_direct_path(); !why.empty()) {
    found.not_tested(why);
    return {};
  }
  COLL_ASSIGN(Memory memory, make(2 * kLarge));
  std::shared_ptr<DeviceBlocks> blocks;
  if (communicator_.device() != nullptr) {
    COLL_ASSIGN(blocks, DeviceBlocks::make(communicator_.device(), kLarge));
  }
  GuardedBuffer input(blocks), output(blocks);
  COLL_TRY(input.reserve(kLarge));
  COLL_TRY(output.reserve(kLarge));
  auto* const window = static_cast<uint8_t*>(memory.address);
  const SideBuffers sides{.input = {input.data(), window},
                          .output = {output.data(), window + kLarge}};
  std::string refused;
  runtime::Stream stream(communicator_);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::all_to_all, Collective::broadcast})
    for (const uint64_t bytes : {uint64_t(1) << 10, uint64_t(64) << 10, kLarge}) {
      Status compared = compare_sides(collective, bytes, sides, stream, found);
      if (compared) continue;
      if (compared.error().code != ErrorCode::unavailable) return compared;
      if (refused.empty()) refused = compared.error().message;
    }
  COLL_TRY(communicator_.set_choices("", "", 0));
  if (report_.ratios.empty())
    found.not_tested("no collective works directly between windows here: " + refused);
  COLL_TRY(barrier());
  return give_back({&memory, 1});
}

}  // namespace collctl::cmd
