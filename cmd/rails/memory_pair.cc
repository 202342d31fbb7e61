#include "cmd/rails/memory_pair.h"

#include <algorithm>
#include <thread>

#include "base/format.h"
#include "base/log.h"
#include "cmd/rails/pair_talk.h"
#include "cmd/rails/rails.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kMemoryPurpose = 0x6d656d79;  // of the two ends' edges
constexpr size_t kMostMemoryBlob = 4096, kMostSaid = 2048;
constexpr double kGoodbyeSeconds = 1;
constexpr uint64_t kPaceMessages = 2 * RailPath::kWindow, kMostMessages = 1 << 20;
constexpr int kRoundTrips = 32;
constexpr uint32_t kSmall = 8;
constexpr double kMostPointSeconds = 10;  // of a size: slower paths have no figure of it

// An end's view of a direction in one step.
struct Said {
  RailEnd end = RailEnd::ok;
  double GBps = 0, us = 0;
  std::string text;
  MemoryUse use;
};
void fields(base::Record& io, Said& said) {
  io.name("end", said.end, kRailEndCount, cmd::rail_word);
  io.field("GBps", said.GBps, 0, 1e9);
  io.field("us", said.us, 0, 1e12);
  io.field("text", said.text, kMostSaid);
  io.name("way", said.use.way, kMemoryWays, memory_way_word);
  io.field("how", said.use.how, kMostSaid);
}

void fail(Said& said, const Error& error) {
  if (said.end != RailEnd::ok) return;
  said.end = rail_end_of(error, RailEnd::silent);
  said.text = error.chain().substr(0, kMostSaid);
}

uint64_t messages_for(double GBps, uint32_t bytes, double seconds) {
  const double count = GBps * 1e9 * seconds / double(bytes);
  return uint64_t(std::clamp(count, double(kPaceMessages), double(kMostMessages)));
}

class MemoryTest {
 public:
  MemoryTest(const RailSide& side, MemoryAreas& areas, const MemorySizes& sizes,
             std::vector<MemoryTrial>& trials)
      : side_(side), talk_(side), areas_(areas), sizes_(sizes), trials_(trials) {}
  Status run();

 private:
  // This end of one measurement; `said` is of the current step, of what it sends and receives.
  struct Half {
    MemoryTrial* trial = nullptr;
    int gpu = kHostMemory;
    std::unique_ptr<RailPath> paths[2];  // that it sends over, that it receives over
    Bytes mine[2], theirs[2];
    std::unique_ptr<MemoryEnd> ends[2];
    Said said[2];
  };
  static constexpr int kOut = 0, kIn = 1;
  // How a size goes: so many messages out and in, and how long the slower of the two takes.
  struct PointPlan {
    uint32_t bytes = 0;
    uint64_t counts[2] = {};
    double seconds = 0;
  };
  MemoryFlow& flow(Half& half, int which) const {
    return (which == kOut) == side_.first ? half.trial->there : half.trial->back;
  }
  void add(MemoryTrial& trial, uint32_t number);
  Status exchange_blobs();
  void reach();
  Status agree_all();
  Status measure(Half& half);
  Status prepare(Half& half);
  Status pace(Half& half);
  Status one_way(Half& half);
  Status both_ways(Half& half);
  Status curve(Half& half);
  PointPlan plan_point(Half& half, uint64_t size, double seconds) const;
  Status add_point(Half& half, uint64_t size, const PointPlan& plan);
  Status finish_step(Half& half, uint32_t bytes, double more_s);
  Status settle(Half& half, double more_s);
  void read_said(ByteReader& r, Half& half);
  void do_in_turn(Half& half, const uint64_t counts[2], uint32_t bytes, double more_s = 0);
  void do_both(Half& half, uint64_t count, uint32_t bytes, double more_s = 0);
  void do_one(Half& half, int which, uint64_t count, uint32_t bytes, double more_s);
  void ping_pong(Half& half);
  void compare(Half& half, uint32_t bytes);
  void poison(Half& half);
  uint64_t count_of(Half& half, int which, uint32_t bytes) const {
    return messages_for(flow(half, which).GBps, bytes, side_.seconds);
  }

  const RailSide& side_;
  PairTalk talk_;
  MemoryAreas& areas_;
  const MemorySizes& sizes_;
  std::vector<MemoryTrial>& trials_;
  std::vector<Half> halves_;
  MemoryFlow seen_[2];  // what the last step has found: there, back
};

void MemoryTest::add(MemoryTrial& trial, uint32_t number) {
  Half& half = halves_.emplace_back();
  half.trial = &trial;
  half.gpu = side_.first ? trial.from_gpu : trial.to_gpu;
  const auto mine = size_t(side_.first ? trial.from_nic : trial.to_nic);
  const auto theirs = size_t(side_.first ? trial.to_nic : trial.from_nic);
  PathPlan plan{.purpose = kMemoryPurpose,
                .number = number,
                .memory = {.data = nullptr, .message_bytes = areas_.message_bytes()},
                .device = areas_.device(half.gpu)};
  if (half.gpu != kHostMemory)
    plan.gdr.flush = side_.mine->gpus.list[size_t(half.gpu)].nics[mine].flush;
  for (const int which : {kOut, kIn})
    half.paths[which] = make_path(side_, which == kOut, mine, theirs, plan);
}

Status MemoryTest::exchange_blobs() {
  const Deadline deadline = Deadline::after_seconds(side_.timeout_s);
  ByteWriter w;
  for (Half& half : halves_)
    for (const int which : {kOut, kIn}) {
      half.mine[which] = half.paths[which]->describe(deadline);
      w.put_bytes(half.mine[which]);
    }
  COLL_ASSIGN(const Bytes theirs, talk_.swap(w.bytes()));
  ByteReader r(theirs);
  for (Half& half : halves_)
    for (const int which : {kIn, kOut}) {  // what the peer sends over comes first
      const ByteView blob = r.get_bytes(kMostMemoryBlob);
      half.theirs[which].assign(blob.begin(), blob.end());
    }
  if (!r.ok() || !r.at_end()) return talk_.unreadable();
  return {};
}

void MemoryTest::reach() {
  const Deadline deadline = Deadline::after_seconds(side_.timeout_s);
  const int rank = side_.mine->rank;
  std::vector<std::jthread> threads;
  for (Half& half : halves_)
    for (const int which : {kOut, kIn}) {
      if (half.mine[which].empty() || half.theirs[which].empty()) continue;
      threads.emplace_back([&half, which, deadline, rank] {
        base::log_set_thread_device(rank);
        half.paths[which]->reach(half.theirs[which], deadline);
      });
    }
  for (std::jthread& thread : threads) thread.join();  // each ends by the deadline
}

void MemoryTest::read_said(ByteReader& r, Half& half) {
  Said theirs[2];
  for (const int which : {kIn, kOut}) {  // the peer's sending first: what is received here
    base::Record io(r.get_bytes(4 * kMostSaid));
    fields(io, theirs[which]);
    if (!io.status() || !io.rest().empty()) r.fail();
  }
  if (!r.ok()) return;
  for (const int which : {kOut, kIn}) {
    const Said& out = which == kOut ? half.said[which] : theirs[which];
    const Said& in = which == kOut ? theirs[which] : half.said[which];
    MemoryFlow& now = seen_[which];
    now = {};
    now.end = RailEnd::ok;
    now.GBps = in.GBps;
    now.out = out.use;
    now.in = in.use;
    if (out.end == RailEnd::ok && in.end == RailEnd::ok) continue;
    // One that only waited knows less.
    const bool in_knows =
        out.end == RailEnd::ok ||
        (out.end == RailEnd::silent && in.end != RailEnd::ok && in.end != RailEnd::silent);
    const bool this_one = in_knows == (which == kIn);
    now.end = in_knows ? in.end : out.end;
    now.text = format("{}: {}", (this_one ? side_.mine : side_.theirs)->host,
                      in_knows ? in.text : out.text);
    now.text.resize(std::min(now.text.size(), kMostSaid));
    MemoryFlow& kept = flow(half, which);
    kept.end = now.end;
    kept.text = now.text;
    kept.GBps = kept.both_GBps = 0;
  }
  // The first end has taken the time.
  if (const double us = side_.first ? half.said[kOut].us : theirs[kIn].us; us > 0)
    half.trial->latency_us = us;
  half.said[kOut] = half.said[kIn] = {};
}

// The end of a step: both know what it brought.
Status MemoryTest::settle(Half& half, double more_s) {
  ByteWriter w;
  for (const int which : {kOut, kIn}) w.put_bytes(base::encoded(half.said[which]));
  COLL_ASSIGN(const Bytes theirs, talk_.swap(w.bytes(), more_s));
  ByteReader r(theirs);
  read_said(r, half);
  if (!r.ok() || !r.at_end()) return talk_.unreadable();
  return {};
}

Status MemoryTest::agree_all() {
  ByteWriter w;
  for (Half& half : halves_)
    for (const int which : {kOut, kIn}) {
      const RailResult result = half.paths[which]->result();
      half.said[which] = {.end = result.end, .text = result.text.substr(0, kMostSaid), .use = {}};
      w.put_bytes(base::encoded(half.said[which]));
      flow(half, which).end = RailEnd::ok;
    }
  COLL_ASSIGN(const Bytes theirs, talk_.swap(w.bytes()));
  ByteReader r(theirs);
  for (Half& half : halves_) read_said(r, half);
  if (!r.ok() || !r.at_end()) return talk_.unreadable();
  std::erase_if(halves_, [](const Half& half) { return !half.trial->ok(); });
  return {};
}

void MemoryTest::do_one(Half& half, int which, uint64_t count, uint32_t bytes, double more_s) {
  const Deadline deadline = Deadline::after_seconds(side_.seconds + side_.timeout_s + more_s);
  if (const Status ran = half.ends[which]->run(count, bytes, deadline); !ran)
    return fail(half.said[which], ran.error());
  half.said[which].GBps = half.ends[which]->GBps();
}

// First what the first host sends.
void MemoryTest::do_in_turn(Half& half, const uint64_t counts[2], uint32_t bytes, double more_s) {
  for (const int which : {side_.first ? kOut : kIn, side_.first ? kIn : kOut}) {
    do_one(half, which, counts[which], bytes, more_s);
    if (half.said[which].end != RailEnd::ok) return;
  }
}

// As many messages both ways, so that neither ends long before the other where both are as fast.
void MemoryTest::do_both(Half& half, uint64_t count, uint32_t bytes, double more_s) {
  const std::jthread in([&] {
    base::log_set_thread_device(side_.mine->rank);
    do_one(half, kIn, count, bytes, more_s);
  });
  do_one(half, kOut, count, bytes, more_s);
}

void MemoryTest::compare(Half& half, uint32_t bytes) {
  if (half.said[kIn].end != RailEnd::ok) return;
  if (const Status same = half.ends[kIn]->compare(bytes); !same) fail(half.said[kIn], same.error());
}

void MemoryTest::poison(Half& half) {
  if (const Status done = half.ends[kIn]->fill(); !done) fail(half.said[kIn], done.error());
}

Status MemoryTest::prepare(Half& half) {
  const Deadline deadline = Deadline::after_seconds(side_.timeout_s);
  const auto place = size_t(side_.first ? half.trial->from_nic : half.trial->to_nic);
  for (const int which : {kOut, kIn}) {
    auto area = areas_.of(half.gpu, which == kOut);
    if (!area) {
      fail(half.said[which], area.error());
      continue;
    }
    std::string forbidden;
    if (half.gpu != kHostMemory) {
      const GpuToNic& nic = side_.mine->gpus.list[size_t(half.gpu)].nics[place];
      forbidden = which == kOut ? nic.no_read : nic.no_write;
    }
    // The data that goes there and that comes back differ.
    const auto seed = uint8_t((which == kOut) == side_.first ? 1 : 2);
    half.ends[which] = std::make_unique<MemoryEnd>(*half.paths[which]->connection(), **area,
                                                   which == kOut, forbidden, seed);
    Status ready = half.ends[which]->prepare(deadline);
    if (ready) ready = half.ends[which]->fill();
    if (!ready) fail(half.said[which], ready.error());
    half.said[which].use = half.ends[which]->use();
    half.said[which].use.how.resize(std::min(half.said[which].use.how.size(), kMostSaid));
  }
  COLL_TRY(settle(half, side_.timeout_s));
  for (const int which : {kOut, kIn}) {
    flow(half, which).out = seen_[which].out;
    flow(half, which).in = seen_[which].in;
  }
  return {};
}

void MemoryTest::ping_pong(Half& half) {
  const int64_t began = now_ns();
  for (int i = 0; i < kRoundTrips; ++i)
    for (const int which : {side_.first ? kOut : kIn, side_.first ? kIn : kOut}) {
      do_one(half, which, 1, kSmall, 0);
      if (half.said[which].end != RailEnd::ok) return;
    }
  if (side_.first) half.said[kOut].us = double(now_ns() - began) / 1e3 / kRoundTrips / 2;
}

Status MemoryTest::pace(Half& half) {
  const uint64_t counts[2] = {kPaceMessages, kPaceMessages};
  do_in_turn(half, counts, areas_.message_bytes());
  const double GBps[2] = {half.said[kOut].GBps, half.said[kIn].GBps};
  poison(half);
  if (half.said[kOut].end == RailEnd::ok && half.said[kIn].end == RailEnd::ok) ping_pong(half);
  compare(half, kSmall);
  for (const int which : {kOut, kIn}) half.said[which].GBps = GBps[which];
  poison(half);
  COLL_TRY(settle(half, 2 * side_.timeout_s + side_.seconds));
  for (const int which : {kOut, kIn}) flow(half, which).GBps = seen_[which].GBps;
  return {};
}

// Data that arrived is looked at, over memory that is poisoned for the next step.
Status MemoryTest::finish_step(Half& half, uint32_t bytes, double more_s) {
  compare(half, bytes);
  poison(half);
  return settle(half, side_.timeout_s + more_s);
}

Status MemoryTest::one_way(Half& half) {
  const uint32_t bytes = areas_.message_bytes();
  const uint64_t counts[2] = {count_of(half, kOut, bytes), count_of(half, kIn, bytes)};
  do_in_turn(half, counts, bytes);
  COLL_TRY(finish_step(half, bytes, side_.seconds));
  for (const int which : {kOut, kIn}) flow(half, which).GBps = seen_[which].GBps;
  return {};
}

Status MemoryTest::both_ways(Half& half) {
  const uint32_t bytes = areas_.message_bytes();
  do_both(half, std::min(count_of(half, kOut, bytes), count_of(half, kIn, bytes)), bytes);
  COLL_TRY(finish_step(half, bytes, side_.seconds));
  for (const int which : {kOut, kIn}) flow(half, which).both_GBps = seen_[which].GBps;
  return {};
}

// For so long, at least as many messages as for the pace, and the size as a whole.
MemoryTest::PointPlan MemoryTest::plan_point(Half& half, uint64_t size, double seconds) const {
  PointPlan plan{.bytes = uint32_t(std::min<uint64_t>(size, areas_.message_bytes()))};
  const uint64_t each = (size + plan.bytes - 1) / plan.bytes;
  for (const int which : {kOut, kIn}) {
    // Small messages take as long as the way of 8 bytes, some at once.
    const double us = std::max(half.trial->latency_us / RailPath::kWindow,
                               double(plan.bytes) / flow(half, which).GBps / 1e3);
    const auto wanted =
        uint64_t(std::clamp(seconds * 1e6 / us, double(kPaceMessages), double(kMostMessages)));
    plan.counts[which] = (wanted + each - 1) / each * each;
    plan.seconds = std::max(plan.seconds, double(plan.counts[which]) * us / 1e6);
  }
  return plan;
}

Status MemoryTest::add_point(Half& half, uint64_t size, const PointPlan& plan) {
  do_in_turn(half, plan.counts, plan.bytes, 2 * plan.seconds);
  COLL_TRY(finish_step(half, plan.bytes, 4 * plan.seconds));
  if (!half.trial->ok()) return {};
  const int there = side_.first ? kOut : kIn;
  MemoryPoint point{
      .bytes = size, .there_GBps = seen_[there].GBps, .back_GBps = seen_[1 - there].GBps};
  do_both(half, std::min(plan.counts[kOut], plan.counts[kIn]), plan.bytes, 2 * plan.seconds);
  COLL_TRY(finish_step(half, plan.bytes, 4 * plan.seconds));
  if (!half.trial->ok()) return {};
  point.both_GBps = seen_[there].GBps + seen_[1 - there].GBps;
  half.trial->curve.push_back(point);
  return {};
}

Status MemoryTest::curve(Half& half) {
  for (const uint64_t size : sizes_.steps) {
    const PointPlan plan = plan_point(half, size, side_.seconds);
    if (plan.seconds > kMostPointSeconds) return {};
    COLL_TRY(add_point(half, size, plan));
    if (!half.trial->ok()) return {};
  }
  const uint64_t large =
      large_size(sizes_.largest, kPaceMessages * areas_.message_bytes(),
                 std::min(flow(half, kOut).GBps, flow(half, kIn).GBps),
                 std::min(sizes_.large_s / double(halves_.size()), kMostPointSeconds));
  return large == 0 ? Status() : add_point(half, large, plan_point(half, large, 0));
}

Status MemoryTest::measure(Half& half) {
  for (const auto step : {&MemoryTest::prepare, &MemoryTest::pace, &MemoryTest::one_way,
                          &MemoryTest::both_ways, &MemoryTest::curve}) {
    COLL_TRY((this->*step)(half));
    if (!half.trial->ok()) break;
  }
  for (auto& end : half.ends) end.reset();
  // Data that a slow path has under way would take the next one's wire.
  if (!half.trial->ok())
    for (auto& path : half.paths) path.reset();
  return {};
}

Status MemoryTest::run() {
  uint32_t number = 0;
  halves_.reserve(trials_.size());
  for (MemoryTrial& trial : trials_) add(trial, number++);
  COLL_TRY(exchange_blobs());
  reach();
  COLL_TRY(agree_all());
  for (Half& half : halves_) COLL_TRY(measure(half));
  const Deadline deadline = Deadline::after_seconds(kGoodbyeSeconds);
  for (Half& half : halves_)
    for (auto& path : half.paths)
      if (path) static_cast<void>(path->leave(deadline));
  COLL_TRY(talk_.swap({}));
  return {};
}

}  // namespace

Result<MemoryArea*> MemoryAreas::of(int gpu, bool sends) {
  auto& area = made_[{gpu, sends}];
  if (area == nullptr) {
    COLL_ASSIGN(area, MemoryArea::make(device(gpu), message_bytes_));
  }
  return area.get();
}

Status try_memories(const RailSide& side, MemoryAreas& areas, const MemorySizes& sizes,
                    std::vector<MemoryTrial>& trials) {
  return MemoryTest(side, areas, sizes, trials).run();
}

}  // namespace collctl::runtime
