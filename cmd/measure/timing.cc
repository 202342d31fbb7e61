#include "cmd/measure/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/clock.h"
#include "base/env.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {

using runtime::Communicator;
using runtime::Stream;

double op_timeout(const RankSettings& settings) {
  if (settings.op_timeout_s > 0) return settings.op_timeout_s;
  const auto knob = base::knob_seconds(base::KnobId::op_timeout);
  return knob ? *knob : 30;  // the communicator's start has refused an illegal one
}

void Samples::put(ByteWriter& writer) const {
  writer.put(block_ns).put(uint32_t(each_ns.size()));
  for (int64_t ns : each_ns) writer.put(ns);
}

Samples Samples::get(ByteReader& reader, size_t at_most) {
  Samples samples;
  samples.block_ns = reader.get<int64_t>();
  const auto count = reader.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < at_most && reader.ok(); ++i)
    samples.each_ns.push_back(reader.get<int64_t>());
  return samples;
}

StreamBarrier::StreamBarrier(Communicator& communicator, Stream& stream, double timeout_s)
    : communicator_(communicator), stream_(stream), timeout_s_(timeout_s) {
  barrier_.collective = kernels::Collective::barrier;
  barrier_.type = kernels::DataType::int32;
  barrier_.count = 1;
  barrier_.input = &word_[0];
  barrier_.output = &word_[1];
  StreamBarrier::refresh();
}

void StreamBarrier::refresh() {
  collective_ = communicator_.plan_for({&barrier_, 1}).ok();
}

Status StreamBarrier::operator()() {
  if (!collective_) return communicator_.barrier(Deadline::after_seconds(timeout_s_));
  COLL_TRY(launch(communicator_, stream_, {&barrier_, 1}, launch_mode(communicator_)));
  return stream_.synchronize();
}

namespace {

constexpr size_t kLeastOfHalf = 4;
constexpr double kSteady = 1.3;  // and a little for what the clock cannot tell
constexpr double kClockNs = 100;

double percentile(const std::vector<int64_t>& sorted, double fraction) {
  const auto place = size_t(std::ceil(fraction * double(sorted.size())));
  return double(sorted[std::clamp<size_t>(place, 1, sorted.size()) - 1]);
}

bool halves_differ(const std::vector<int64_t>& in_order) {
  const auto middle = in_order.begin() + ptrdiff_t(in_order.size() / 2);
  std::vector<int64_t> first(in_order.begin(), middle), second(middle, in_order.end());
  if (first.size() < kLeastOfHalf) return false;
  std::ranges::sort(first);
  std::ranges::sort(second);
  const auto [low, high] = std::minmax({percentile(first, 0.50), percentile(second, 0.50)});
  return high > kSteady * low + kClockNs;
}

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Result<Samples> measure(Timed& timed, Barrier& barrier, const MeasureOptions& options) {
  Samples samples;
  for (int i = 0; i < options.warmup; ++i) COLL_TRY(timed.enqueue());
  COLL_TRY(timed.wait());
  if (options.sync_each) {
    samples.each_ns.reserve(size_t(options.iterations));
    for (int i = 0; i < options.iterations; ++i) {
      COLL_TRY(barrier());
      const int64_t from = now_ns();
      COLL_TRY(timed.enqueue());
      COLL_TRY(timed.wait());
      samples.each_ns.push_back(timed.took_ns(now_ns() - from));
    }
    samples.block_ns = std::accumulate(samples.each_ns.begin(), samples.each_ns.end(), int64_t(0));
    return samples;
  }
  COLL_TRY(barrier());
  const int64_t from = now_ns();
  for (int i = 0; i < options.iterations; ++i) COLL_TRY(timed.enqueue());
  COLL_TRY(timed.wait());
  samples.block_ns = timed.took_ns(now_ns() - from);
  return samples;
}

// The ranks' times that count, as one.
static int64_t time_of(TimeOf whose, std::span<const int64_t> ranks) {
  switch (whose) {
    case TimeOf::rank0:
      return ranks[0];
    case TimeOf::mean:
      return std::accumulate(ranks.begin(), ranks.end(), int64_t(0)) / int64_t(ranks.size());
    case TimeOf::fastest:
      return *std::ranges::min_element(ranks);
    case TimeOf::slowest:
      break;
  }
  return *std::ranges::max_element(ranks);
}

Timing merge_samples(std::span<const Samples> ranks, const MergeOptions& options) {
  COLL_CHECK(!ranks.empty() && options.iterations > 0);
  Timing timing;
  timing.measured = true;
  std::vector<int64_t> times;
  for (const Samples& rank : ranks) times.push_back(rank.block_ns);
  const auto slowest = std::ranges::max_element(times);
  timing.slowest_rank = int(slowest - times.begin());
  const double operations = options.operations, per_us = 1e3 * options.iterations * operations;
  timing.slowest_us = double(*slowest) / per_us;
  timing.fastest_us = double(*std::ranges::min_element(times)) / per_us;
  timing.mean_us = std::accumulate(times.begin(), times.end(), 0.0) / double(times.size()) / per_us;
  double ns = double(time_of(options.time_of, times)) / options.iterations / operations;
  if (!ranks[0].each_ns.empty()) {
    std::vector<int64_t> each(ranks[0].each_ns.size());
    for (size_t i = 0; i < each.size(); ++i) {
      for (size_t r = 0; r < ranks.size(); ++r) {
        COLL_CHECK(ranks[r].each_ns.size() == each.size());
        times[r] = ranks[r].each_ns[i];
      }
      each[i] = time_of(options.time_of, times);
    }
    ns = double(std::accumulate(each.begin(), each.end(), int64_t(0))) / double(each.size()) /
         operations;
    timing.unsteady = halves_differ(each);
    std::ranges::sort(each);
    const double us = 1e-3 / operations;
    timing.p50_us = percentile(each, 0.50) * us;
    timing.p99_us = percentile(each, 0.99) * us;
    timing.min_us = double(each.front()) * us;
    timing.max_us = double(each.back()) * us;
  }
  timing.time_us = ns / 1e3;
  if (ns > 0) timing.algbw_GBps = double(options.bytes) / ns;  // bytes per ns = 1e9 bytes per s
  timing.busbw_GBps = timing.algbw_GBps * bus_factor(options.collective, int(ranks.size()));
  return timing;
}

Timing median_timing(std::vector<Timing> timings) {
  COLL_CHECK(!timings.empty());
  const auto middle = timings.begin() + ptrdiff_t((timings.size() - 1) / 2);
  std::nth_element(timings.begin(), middle, timings.end(),
                   [](const Timing& a, const Timing& b) { return a.time_us < b.time_us; });
  return *middle;
}

}  // namespace collctl::cmd
