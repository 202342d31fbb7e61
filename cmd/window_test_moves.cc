// The stages of window-test about what moves: put, get, signal, barrier, their order and their
// times, and collectives on windows.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "cmd/bench_timing.h"
#include "cmd/guarded_buffer.h"
#include "cmd/sizes.h"
#include "cmd/timed.h"
#include "cmd/window_test.h"
#include "kernels/contract/types.h"

namespace collctl::cmd {
namespace {

using kernels::Collective;

constexpr uint64_t kSlack = 64;             // for offsets that are not aligned
constexpr uint64_t kWindowOfAll = 8 << 20;  // the stripes of all writers together
constexpr uint64_t kLarge = 1 << 20;        // of a bandwidth
constexpr int kOrderRounds = 100, kBarrierRounds = 50;
constexpr int kMoveTurns = 3;  // measurements, of which the median counts
// Algorithms that work straight between buffers in windows.
constexpr const char* kOnWindows = "one-shot,two-shot";
constexpr int kMostForAllPairs = 64;  // ranks of which every pair is measured
// Signals of these stages.
constexpr int kData = 0, kTaken = 1, kPing = 2, kOver = 3;

uint64_t stripe_of(int ranks) {
  return std::clamp<uint64_t>(kWindowOfAll / uint64_t(ranks) / 4096 * 4096, 4096, 128 << 10);
}

// Which ranks a rank is measured with.
bool measured(int from, int to, int ranks) {
  if (from == to) return false;
  if (ranks <= kMostForAllPairs) return true;
  const int ahead = (to - from + ranks) % ranks;
  return (ahead & (ahead - 1)) == 0;
}

}  // namespace

// Many sizes at odd offsets to every rank, each with a signal; the owner looks when it has come,
// the writer gets them back.
Status WindowTest::moves(WindowFindings& found) {
  const uint64_t stripe = stripe_of(size());
  COLL_ASSIGN(Memory memory, make(stripe * uint64_t(size())));
  std::vector<uint8_t> buffer(stripe), back(stripe);
  const uint64_t mine = stripe * uint64_t(rank());
  uint64_t round = 0;
  for (const uint64_t asked :
       {uint64_t(1), uint64_t(3), uint64_t(8), uint64_t(63), uint64_t(4033), stripe - kSlack})
    for (const uint64_t offset : {uint64_t(0), uint64_t(1), uint64_t(13)}) {
      ++round;
      const uint64_t bytes = std::min(asked, stripe - kSlack);
      const auto piece = std::span(buffer).first(bytes), returned = std::span(back).first(bytes);
      for (int peer = 0; peer < size(); ++peer) {
        fill_pattern(piece, {peer, rank(), round}, mine + offset);
        COLL_TRY(one_sided_->put_signal({memory.window, peer, mine + offset}, piece.data(), bytes,
                                        kData, deadline()));
      }
      for (int peer = 0; peer < size(); ++peer) {
        COLL_TRY(one_sided_->wait(peer, kData, 1, deadline()));
        const uint64_t at = stripe * uint64_t(peer) + offset;
        COLL_TRY(read(static_cast<const uint8_t*>(memory.address) + at, piece));
        found.compare(piece, {rank(), peer, round}, at, size(),
                      format("a put of {} bytes by rank {}", bytes, peer));
        COLL_TRY(one_sided_->get({memory.window, peer, mine + offset}, returned.data(), bytes,
                                 deadline()));
        found.compare(returned, {peer, rank(), round}, mine + offset, size(),
                      format("a get of {} bytes from rank {}", bytes, peer));
      }
      COLL_TRY(meet());
    }
  return give_back({&memory, 1});
}

// Litmus of every path: data, then a signal, again and again at the same place. Who has the signal
// must see this round's data and nothing of the round before.
Status WindowTest::ordering(WindowFindings& found) {
  const uint64_t stripe = std::min<uint64_t>(stripe_of(size()), 4096);
  COLL_ASSIGN(Memory memory, make(stripe * uint64_t(size())));
  std::vector<uint8_t> buffer(stripe);
  const uint64_t mine = stripe * uint64_t(rank());
  for (int round = 1; round <= kOrderRounds; ++round) {
    const auto key = uint64_t(round);
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      fill_pattern(buffer, {peer, rank(), key}, mine);
      COLL_TRY(one_sided_->put_signal({memory.window, peer, mine}, buffer.data(), stripe, kData,
                                      deadline()));
    }
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() - step + size()) % size();
      COLL_TRY(one_sided_->wait(peer, kData, 1, deadline()));
      const uint64_t at = stripe * uint64_t(peer);
      COLL_TRY(read(static_cast<const uint8_t*>(memory.address) + at, buffer));
      found.compare(buffer, {rank(), peer, key}, at, size(),
                    format("round {}: the signal of rank {} ({}) came before its data", round, peer,
                           one_sided_->path(peer)));
      COLL_TRY(one_sided_->signal(peer, kTaken));
    }
    // Nobody writes again before it was looked at.
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) COLL_TRY(one_sided_->wait(peer, kTaken, 1, deadline()));
  }
  COLL_TRY(meet());
  return give_back({&memory, 1});
}

// Behind a barrier everything that anybody put before it is in place. Two words by turns: who is
// behind barrier k + 1 knows that all have looked at the words of barrier k.
Status WindowTest::barriers(WindowFindings& found) {
  const uint64_t line = 2 * sizeof(uint64_t);
  COLL_ASSIGN(Memory memory, make(line * uint64_t(size())));
  std::vector<uint64_t> words(size_t(size()) * 2);
  for (int round = 1; round <= kBarrierRounds; ++round) {
    const auto number = uint64_t(round);
    const uint64_t bank = number % 2 * sizeof(uint64_t);
    for (int peer = 0; peer < size(); ++peer)
      COLL_TRY(one_sided_->put({memory.window, peer, line * uint64_t(rank()) + bank}, &number,
                               sizeof number, deadline()));
    COLL_TRY(meet());
    COLL_TRY(
        read(memory.address, {reinterpret_cast<uint8_t*>(words.data()), line * words.size() / 2}));
    found.looked();
    for (int writer = 0; writer < size(); ++writer)
      if (const uint64_t seen = words[size_t(writer) * 2 + number % 2]; seen != number)
        found.fail(ErrorCode::bad_data, writer,
                   format("behind barrier {} the number of rank {} is {}", round, writer, seen));
  }
  COLL_TRY(meet());
  return give_back({&memory, 1});
}

// By both ranks of the pair; `from` measures. Latency of a put: half a turn of 8 bytes with a
// signal there and the same back. Peers put to the lower half of the window; the upper one is the
// near end, so that memory of the ranks' kind is at both.
Status WindowTest::measure_pair(int from, int to, const Memory& memory, WindowPair& pair) {
  const bool active = rank() == from;
  const int peer = active ? to : from;
  const int turns = std::max(spec_.iterations, 1);
  const int pieces = std::clamp(turns / 4, 2, 16);
  const uint64_t bytes = memory.window->bytes() / 2;
  uint8_t* const near = static_cast<uint8_t*>(memory.address) + bytes;
  std::vector<double> put_us, get_us, put_GBps, get_GBps;
  const auto us = [](int64_t from_ns) { return double(now_ns() - from_ns) / 1e3; };
  for (int turn = 0; turn <= kMoveTurns; ++turn) {  // the first one warms up
    int64_t began = now_ns();
    for (int i = 0; i < turns; ++i) {
      if (!active) COLL_TRY(one_sided_->wait(peer, kPing, 1, deadline()));
      COLL_TRY(one_sided_->put_signal({memory.window, peer, 0}, near, 8, kPing, deadline()));
      if (active) COLL_TRY(one_sided_->wait(peer, kPing, 1, deadline()));
    }
    if (!active) continue;
    put_us.push_back(us(began) / turns / 2);
    began = now_ns();
    for (int i = 0; i < turns; ++i)
      COLL_TRY(one_sided_->get({memory.window, peer, 0}, near, 8, deadline()));
    get_us.push_back(us(began) / turns);
    began = now_ns();
    for (int i = 0; i < pieces; ++i)
      COLL_TRY(one_sided_->put({memory.window, peer, 0}, near, bytes, deadline()));
    COLL_TRY(one_sided_->flush(peer, deadline()));
    put_GBps.push_back(double(bytes) * pieces / us(began) / 1e3);
    began = now_ns();
    for (int i = 0; i < pieces; ++i)
      COLL_TRY(one_sided_->get({memory.window, peer, 0}, near, bytes, deadline()));
    get_GBps.push_back(double(bytes) * pieces / us(began) / 1e3);
  }
  if (!active) return one_sided_->wait(peer, kOver, 1, deadline());
  for (auto* list : {&put_us, &get_us, &put_GBps, &get_GBps}) list->erase(list->begin());
  pair = {.from = from,
          .to = to,
          .path = one_sided_->path(to),
          .put_us = median(put_us),
          .get_us = median(get_us),
          .put_GBps = median(put_GBps),
          .get_GBps = median(get_GBps)};
  return one_sided_->signal(peer, kOver);
}

// One pair at a time, so that none disturbs another.
Status WindowTest::matrix(WindowFindings& found) {
  if (size() == 1) {
    found.does_not_apply("one rank has nobody to put to");
    return {};
  }
  COLL_ASSIGN(Memory memory, make(2 * kLarge));
  ByteWriter mine;
  for (int from = 0; from < size(); ++from)
    for (int to = 0; to < size(); ++to) {
      if (!measured(from, to, size())) {
        report_.pairs_left_out += from != to ? 1 : 0;
        continue;
      }
      COLL_TRY(meet());
      if (rank() != from && rank() != to) continue;
      WindowPair pair;
      COLL_TRY(measure_pair(from, to, memory, pair));
      if (rank() != from) continue;
      found.looked();
      mine.put(int32_t(to)).put_string(pair.path);
      mine.put(pair.put_us).put(pair.get_us).put(pair.put_GBps).put(pair.get_GBps);
    }
  COLL_TRY(meet());
  COLL_ASSIGN(const auto blobs, communicator_.gather_blobs(mine.bytes(), deadline()));
  for (int from = 0; from < size(); ++from) {
    ByteReader reader(blobs[size_t(from)]);
    while (reader.ok() && !reader.at_end()) {
      WindowPair pair{.from = from};
      pair.to = reader.get<int32_t>();
      pair.path = reader.get_string(64);
      pair.put_us = reader.get<double>();
      pair.get_us = reader.get<double>();
      pair.put_GBps = reader.get<double>();
      pair.get_GBps = reader.get<double>();
      if (reader.ok()) report_.pairs.push_back(std::move(pair));
    }
    if (!reader.ok()) return Error(ErrorCode::defect, "a rank's times have the wrong length");
  }
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

// Whether a plan works between windows themselves, not on copies of what is in them.
bool straight(const runtime::Plan& plan) {
  return !plan.ops.empty() && plan.ops[0].straight;
}

std::string why_of(const runtime::Plan& plan) {
  return plan.ops.empty() ? "there is nothing to do" : plan.ops[0].why;
}

// Whole numbers: sums are the same in any order.
void fill_numbers(std::vector<float>& numbers, int rank) {
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float((i * 7 + size_t(rank) * 13) % 64);
}

}  // namespace

// What one side of a comparison took: the slowest rank's time, in microseconds.
Result<double> WindowTest::time_of(const runtime::Operation& op, runtime::Stream& stream) {
  COLL_ASSIGN(const auto timed,
              own_timed(communicator_, stream, {&op, 1}, {.timeout_s = timeout_s_}));
  Meeting meeting(communicator_, stream, timeout_s_);
  COLL_ASSIGN(const Samples samples, measure(*timed, meeting, {spec_.iterations, 3, false}));
  ByteWriter writer;
  samples.put(writer);
  COLL_ASSIGN(const auto blobs, communicator_.gather_blobs(writer.bytes(), deadline()));
  std::vector<Samples> all;
  for (const Bytes& blob : blobs) {
    ByteReader reader(blob);
    all.push_back(Samples::get(reader, 0));
    if (!reader.ok()) return Error(ErrorCode::defect, "a rank's times have the wrong length");
  }
  const uint64_t bytes = op.count * sizeof(float);
  return merge_samples(all, {op.collective, bytes, spec_.iterations, 1}).time_us;
}

// The same data through ordinary memory and through windows: the same result, and who is faster.
Status WindowTest::collectives(WindowFindings& found) {
  if (size() == 1) {
    found.does_not_apply("one rank has nobody to work with");
    return {};
  }
  COLL_ASSIGN(Memory memory, make(2 * kLarge));
  std::shared_ptr<DeviceBlocks> blocks;
  if (communicator_.device() != nullptr) {
    COLL_ASSIGN(blocks, DeviceBlocks::make(communicator_.device()));
  }
  GuardedBuffer input(blocks), output(blocks);
  COLL_TRY(input.reserve(kLarge));
  COLL_TRY(output.reserve(kLarge));
  auto* const window = static_cast<uint8_t*>(memory.address);
  std::vector<float> numbers(kLarge / sizeof(float));
  fill_numbers(numbers, rank());
  std::vector<float> results[2] = {numbers, numbers};
  const auto bytes_of = [](std::vector<float>& v) {
    return std::span(reinterpret_cast<uint8_t*>(v.data()), v.size() * sizeof(float));
  };
  std::string refused;
  runtime::Stream stream(communicator_);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::all_to_all, Collective::broadcast})
    for (const uint64_t bytes : {uint64_t(1) << 10, uint64_t(64) << 10, kLarge}) {
      double times[2] = {};
      for (const bool on_window : {false, true}) {
        uint8_t* const in = on_window ? window : input.data();
        uint8_t* const out = on_window ? window + kLarge : output.data();
        std::vector<float>& result = results[on_window ? 1 : 0];
        std::fill(result.begin(), result.end(), -1.0f);
        COLL_TRY(write(in, bytes_of(numbers)));
        COLL_TRY(write(out, bytes_of(result)));
        const auto op = operation_of(collective, bytes, size(), in, out);
        COLL_TRY(communicator_.set_choices(on_window ? kOnWindows : "", "", 0));
        const auto plan = communicator_.plan_for({&op, 1});
        if (!plan || (on_window && !straight(*plan))) {
          if (refused.empty())
            refused = plan ? "nothing works straight between windows here: " + why_of(*plan)
                           : plan.error().message;
          break;
        }
        COLL_ASSIGN(times[on_window ? 1 : 0], time_of(op, stream));
        COLL_TRY(read(out, bytes_of(result)));
      }
      if (times[1] <= 0) continue;
      found.looked();
      const char* const name = kernels::name_of(collective);
      report_.ratios.push_back(
          {.op = name, .bytes = bytes, .ordinary_us = times[0], .window_us = times[1]});
      if (results[0] != results[1])
        found.fail(ErrorCode::bad_data, -1,
                   format("{} of {}: the result on windows is not that on ordinary memory", name,
                          human_bytes(bytes)));
    }
  COLL_TRY(communicator_.set_choices("", "", 0));
  if (report_.ratios.empty()) found.does_not_apply(refused);
  COLL_TRY(meet());
  return give_back({&memory, 1});
}

}  // namespace collctl::cmd
