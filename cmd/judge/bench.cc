#include "cmd/judge/bench.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {
namespace {

template <class Visit>
void for_each_timing(const BenchRow& row, Visit visit) {
  if (row.out_of_place.measured) visit(row.out_of_place, "out of place");
  if (row.in_place.measured) visit(row.in_place, "in place");
}

std::string row_name(const BenchReport& report, const BenchRow& row) {
  std::string name =
      format("{} {}", kernels::name_of(report.spec.collective), human_bytes(row.bytes));
  name += format(" {}", kernels::name_of(row.type));
  if (row.has_op) name += format(" {}", kernels::name_of(row.op));
  if (row.root >= 0) name += format(" root {}", row.root);
  if (!row.algorithm.empty()) name += format(" {}/{}", row.algorithm, row.protocol);
  return name;
}

void judge_data(const BenchReport& report, Verdict& verdict) {
  constexpr size_t kMostReasons = 20;
  for (const auto& fault : report.faults)
    if (verdict.reasons.size() < kMostReasons)
      verdict.add(ReasonKind::wrong_data, fault.message, "", fault.rank);
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      if (timing.wrong <= 0) return;
      // The faults say more; a count alone is for rows that have none.
      if (report.faults.empty() && verdict.reasons.size() < kMostReasons)
        verdict.add(ReasonKind::wrong_data,
                    format("{} {}: {} wrong elements", row_name(report, row), where, timing.wrong));
    });
}

// One threshold: all timings at its size. `below`: smaller than the limit is bad, else larger is.
void judge_limit(const BenchReport& report, const Limit& limit, uint64_t default_bytes, bool below,
                 Verdict& verdict) {
  const uint64_t asked = limit.at_bytes.value_or(default_bytes);
  const int ranks = report.header ? report.header->ranks : 1;
  int compared = 0;
  for (const BenchRow& row : report.rows) {
    const auto point =
        size_point(report.spec.collective, asked, ranks, kernels::element_size(row.type));
    if (point.bytes != row.bytes) continue;
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      ++compared;
      const double seen = below ? timing.busbw_GBps : timing.time_us;
      if (below ? seen >= limit.value : seen <= limit.value) return;
      verdict.add(below ? ReasonKind::below_min_busbw : ReasonKind::above_max_latency,
                  format("{} {}: {} {} {}, {} {}", row_name(report, row), where,
                         below ? "bus bandwidth" : "time", four_digits(seen), below ? "GB/s" : "us",
                         below ? "below the minimum of" : "above the maximum of",
                         four_digits(limit.value)));
    });
  }
  if (compared != 0) return;
  verdict.add(ReasonKind::not_measured,
              format("{}: no timing at {} to compare", below ? "--min-busbw" : "--max-latency",
                     human_bytes(asked)));
}

// Hosts that were asked for and took no part (--allow-missing).
void judge_hosts(const BenchReport& report, Verdict& verdict) {
  for (const HostEnd& host : report.hosts) {
    if (!host.error) continue;
    verdict.add(ReasonKind::host_left_out,
                format("{} took no part: {}", host.host,
                       base::without_head(host.error->chain(), host.host + ": ")),
                host.host);
  }
}

// What was to be measured beside us and was not. Of NCCL's best any will do.
void judge_versus(const BenchReport& report, Verdict& verdict) {
  if (!report.closing || report.spec.versus.empty()) return;
  const auto missing = [&](std::string message) {
    verdict.add(ReasonKind::not_measured, std::move(message));
  };
  if (!report.spec.versus_best)
    for (const LeftOut& out : report.closing->left_out)
      missing(
          format("{} ({}) was not measured: {}", report.closing->other, out.variant, out.reason));
  else if (compared(report).timings == 0)
    missing(format("nothing of {} was measured", report.closing->other));
}

}  // namespace

Verdict judge(const BenchReport& report, const Limits& limits) {
  Verdict verdict;
  judge_data(report, verdict);
  const auto series = size_series({.min_bytes = report.spec.min_bytes,
                                   .max_bytes = report.spec.max_bytes,
                                   .step_factor = report.spec.step_factor,
                                   .step_bytes = report.spec.step_bytes});
  const bool sizes = series.ok() && !series->empty();
  if (limits.min_busbw)
    judge_limit(report, *limits.min_busbw, sizes ? series->back() : 0, true, verdict);
  if (limits.max_latency)
    judge_limit(report, *limits.max_latency, sizes ? series->front() : 0, false, verdict);
  if (report.rows.empty() && verdict.ok && !report.spec.soak)
    verdict.add(ReasonKind::not_measured, "nothing was measured");
  judge_versus(report, verdict);
  judge_hosts(report, verdict);
  return verdict;
}

int final_code(int job_code, const Verdict& verdict) {
  if (job_code == 0) return verdict.ok ? 0 : int(verdict.code);
  // What is missing after a job broke is no news; wrong data and thresholds are.
  if (verdict.ok || verdict.code == ErrorCode::incomplete || job_code > 128) return job_code;
  return base::severity(verdict.code) > base::severity(ErrorCode(job_code)) ? int(verdict.code)
                                                                            : job_code;
}

Average average_busbw(const BenchReport& report) {
  Average average;
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char*) {
      average.busbw_GBps += timing.busbw_GBps;
      ++average.timings;
      if (timing.busbw_GBps > average.best_GBps) {
        average.best_GBps = timing.busbw_GBps;
        average.best_bytes = row.bytes;
      }
    });
  if (average.timings != 0) average.busbw_GBps /= average.timings;
  return average;
}

Comparison compared(const BenchReport& report) {
  Comparison found;
  double logarithms = 0;
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char*) {
      const double ratio = timing.ratio();
      if (ratio <= 0) return;
      found.name = timing.versus[0].name;
      logarithms += std::log(ratio);
      if (found.timings++ != 0 && ratio >= found.lowest) return;
      found.lowest = ratio;
      found.lowest_bytes = row.bytes;
    });
  if (found.timings != 0) found.ratio = std::exp(logarithms / found.timings);
  return found;
}

}  // namespace collctl::cmd
