#include "cmd/measure/timer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"

namespace collctl::cmd {
namespace {

// Another library's turns and ours alternate, so that what the machine does meanwhile meets both.
constexpr int kTurns = 5;
// Blocks of CPU ranks that move less than this have as many turns: somebody else's millisecond on a
// core is long beside them.
constexpr uint64_t kShortBlockBytes = uint64_t{64} << 20;
constexpr int64_t kLongShortBlockNs = 100'000'000;
// An operation takes longer while it is new: it maps pages, opens connections, loads kernels, wakes
// cores. So long it warms up, counted by what its first operations took.
constexpr int64_t kWarmNs = 2'000'000;
constexpr int64_t kMostWarming = 2000;
constexpr int64_t kSettleNs = 5'000'000;
constexpr int64_t kMostSettling = 100'000;

}  // namespace

void RowTimes::put(ByteWriter& writer) const {
  for (const auto& turns : samples)
    for (const Samples& turn : turns) turn.put(writer);
}

int64_t RowTimes::block_ns() const {
  const Samples& last = samples.at(0).back();
  return std::accumulate(last.each_ns.begin(), last.each_ns.end(), last.block_ns);
}

AllTimes::AllTimes(const RowTimes& mine) {
  for (const auto& turns : mine.samples) samples_.emplace_back(turns.size());
}

void AllTimes::add(ByteReader& reader, size_t iterations) {
  for (auto& turns : samples_)
    for (auto& ranks : turns) ranks.push_back(Samples::get(reader, iterations));
}

std::vector<Timing> AllTimes::medians(const MergeOptions& options) const {
  std::vector<Timing> medians;
  for (const auto& turns : samples_) {
    std::vector<Timing> timings;
    for (const auto& ranks : turns) timings.push_back(merge_samples(ranks, options));
    medians.push_back(median_timing(std::move(timings)));
  }
  return medians;
}

RowTimer::RowTimer(const BenchSpec& spec, Everyone& everyone, runtime::Stream& stream,
                   const Observers& observers, Versus* versus)
    : spec_(spec),
      everyone_(everyone),
      stream_(stream),
      observers_(observers),
      versus_(versus),
      barrier_(everyone.barrier(stream)) {}

Result<RowTimes> RowTimer::time(const RowToMeasure& row, const PlacedRow& placed) {
  COLL_ASSIGN(const std::unique_ptr<Timed> own,
              own_timed(everyone_.own(), stream_, submissions_for(placed),
                        {everyone_.timeout_s(), batch()}));
  std::vector<VersusRun> others;
  if (versus_ != nullptr) {
    COLL_ASSIGN(others, versus_->runs(placed, batch()));
  }
  RowTimes times;
  for (const VersusRun& other : others) times.variants.push_back(other.variant);
  times.samples.resize(1 + others.size());
  MeasureOptions options{replays(), spec_.warmup, spec_.sync_each};
  std::vector<int> warmups(times.samples.size(), spec_.warmup);  // by series
  int turns = this->turns(row);
  const int each_turn = options.iterations + options.warmup;
  COLL_TRY(everyone_.probe(*own, each_turn * (spec_.sync_each ? 2 : 1)));
  COLL_ASSIGN(times.warmed, warm_up(*own));
  for (int turn = 0; turn < turns; ++turn) {
    options.warmup = warmups[0];
    COLL_ASSIGN(Samples ours, block(*own, options, turn, placed.in_place()));
    times.samples[0].push_back(std::move(ours));
    for (size_t i = 1; i <= others.size(); ++i) {
      options.warmup = warmups[i];
      COLL_ASSIGN(Samples theirs, measure(*others[i - 1].timed, *barrier_, options));
      times.samples[i].push_back(std::move(theirs));
    }
    // A block that takes long (a network that loses packets, other processes) is not repeated.
    if (turn == 0 && turns > 1 && versus_ == nullptr) {
      COLL_ASSIGN(const int64_t slowest, everyone_.largest(times.samples[0].back().block_ns));
      if (slowest > kLongShortBlockNs) turns = 1;
    }
    for (int& warmup : warmups) warmup = std::min(warmup, 1);
    if (versus_ != nullptr && !everyone_.own().device()) COLL_TRY(settle(times, warmups));
    for (const auto& observer : observers_) observer->turn_over();
  }
  return times;
}

// Our own operations of a turn.
Result<Samples> RowTimer::block(Timed& own, const MeasureOptions& options, int turn,
                                bool in_place) {
  Observer::Block block{&own, options.warmup, turn * options.iterations, in_place};
  for (const auto& observer : observers_) COLL_TRY(observer->before(block));
  COLL_ASSIGN(Samples samples, measure(*block.timed, *barrier_, options));
  for (const auto& observer : observers_) COLL_TRY(observer->after());
  return samples;
}

// The same number of operations on all ranks. None where the user wants to see the first ones.
Result<uint64_t> RowTimer::warm_up(Timed& timed) {
  if (spec_.warmup == 0) return 0;
  const auto some = [&](int64_t count) -> Status {
    for (int64_t i = 0; i < count; ++i) COLL_TRY(timed.enqueue());
    return timed.wait();
  };
  const int64_t from = now_ns();
  COLL_TRY(some(spec_.warmup));
  COLL_ASSIGN(const int64_t slowest, everyone_.largest(now_ns() - from));
  const int64_t each = std::max<int64_t>(1, slowest / spec_.warmup);
  const int64_t more = std::clamp<int64_t>(kWarmNs / each - spec_.warmup, 0, kMostWarming);
  COLL_TRY(some(more));
  return uint64_t(spec_.warmup + more);
}

// The other side works on a thread of its own: after each change of sides ranks may find themselves
// on one core for a few milliseconds, until the system has moved them. So long they warm up.
Status RowTimer::settle(const RowTimes& times, std::vector<int>& warmups) {
  for (size_t i = 0; i < warmups.size(); ++i) {
    COLL_ASSIGN(const int64_t slowest, everyone_.largest(times.samples[i].back().block_ns));
    const int64_t each = std::max<int64_t>(1, slowest / replays());
    warmups[i] = int(std::clamp<int64_t>(kSettleNs / each, 1, kMostSettling));
  }
  return {};
}

// The same on all ranks.
int RowTimer::turns(const RowToMeasure& row) const {
  if (versus_ != nullptr) return kTurns;
  if (everyone_.own().device() || spec_.sync_each) return 1;
  const uint64_t times = uint64_t(spec_.iterations) * uint64_t(spec_.grouped);
  return everyone_.most_moved(row) <= kShortBlockBytes / times ? kTurns : 1;
}

// How often a block runs what is timed: an operation, or a graph of some.
int RowTimer::replays() const {
  if (spec_.cuda_graph == 0 || spec_.sync_each) return spec_.iterations;
  return (spec_.iterations + spec_.cuda_graph - 1) / spec_.cuda_graph;
}

Timing RowTimer::merged(const RowKey& key, const RowTimes& mine, const AllTimes& all) const {
  const std::vector<Timing> medians =
      all.medians({key.collective, key.size.bytes, replays(), batch().operations(), spec_.time_of});
  Timing own = medians.at(0);
  for (size_t i = 1; i < medians.size(); ++i)
    own.versus.push_back({versus_->name(), mine.variants[i - 1], medians[i].time_us});
  std::ranges::stable_sort(own.versus,
                           [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  return own;
}

}  // namespace collctl::cmd
