#include "cmd/judge/bench.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "cmd/judge/timings.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {
namespace {

void judge_data(const BenchReport& report, std::vector<Finding>& findings) {
  for (const auto& fault : report.faults) {
    findings.push_back(finding_of("data", kWrongData, fault.message));
    findings.back().at = {.kind = SubjectKind::rank, .rank = fault.rank};
  }
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      // The faults say more; a count alone is for rows that have none.
      if (timing.wrong <= 0 || !report.faults.empty()) return;
      Finding& finding = findings.emplace_back(finding_of(
          "data", kWrongData,
          format("{} {}: {} wrong elements", row_name(report, row), where, timing.wrong)));
      finding.n = uint64_t(timing.wrong);
      finding.of = std::max(row.count, finding.n);
    });
}

// Limits of the command line.
struct LimitKind {
  const char* name;
  const ReasonRow& reason;
  const char *what, *unit;
  bool minimum;
  double (*seen)(const BenchRow& row, const Timing& timing);  // below 0: not known
};
constexpr LimitKind kMinBusbw{
    "min-busbw",
    kBelowMinBusbw,
    "bus bandwidth",
    "GB/s",
    true,
    [](const BenchRow&, const Timing& timing) { return timing.busbw_GBps; }};
constexpr LimitKind kMaxLatency{
    "max-latency", kAboveMaxLatency,
    "time",        "us",
    false,         [](const BenchRow&, const Timing& timing) { return timing.time_us; }};
constexpr LimitKind kMinEfficiency{"min-efficiency",
                                   kBelowMinEfficiency,
                                   "",
                                   "",
                                   true,
                                   [](const BenchRow& row, const Timing& timing) {
                                     return row.standard() ? row.standard()->efficiency(timing)
                                                           : -1;
                                   }};

std::string limit_words(const BenchRow& row, const LimitKind& kind, double seen, double limit) {
  if (kind.unit[0] != 0)
    return format("{} {} {}, {} {}", kind.what, four_digits(seen), kind.unit,
                  kind.minimum ? "below the minimum of" : "above the maximum of",
                  four_digits(limit));
  const RowExpected& expected = *row.standard();
  return format("{:.0f} % of the expected {} us ({} by {}), below the minimum of {:.0f} %",
                100 * seen, four_digits(expected.time_us),
                expected.source == "model" ? "model, limited" : "bound of the paths, limited",
                expected.limited_by, 100 * limit);
}

// One limit: all timings at its size.
void judge_limit(const BenchReport& report, const Limit& limit, uint64_t default_bytes,
                 const LimitKind& kind, std::vector<Finding>& findings) {
  const uint64_t asked = limit.at_bytes.value_or(default_bytes);
  const size_t before = findings.size();
  for (const BenchRow& row : report.rows) {
    if (row.ranks > 0) continue;  // of fewer ranks than the limit is for
    const int ranks = std::max(1, ranks_of(report, row));
    const auto point =
        size_point(report.spec.collective, asked, ranks, kernels::element_size(row.type));
    if (point.bytes != row.bytes) continue;
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      const double seen = kind.seen(row, timing);
      if (seen < 0) return;
      const bool good = kind.minimum ? seen >= limit.value : seen <= limit.value;
      Finding& finding = findings.emplace_back();
      finding.name = kind.name;
      if (!good)
        finding = finding_of(kind.name, kind.reason,
                             format("{} {}: {}", row_name(report, row), where,
                                    limit_words(row, kind, seen, limit.value)));
      finding.measured = format("{:.6g}", seen);
      finding.expected = format("{:.6g}", limit.value);
      finding.unit = kind.unit;
      finding.basis = format("--{}", kind.name);
    });
  }
  if (findings.size() == before)
    findings.push_back(
        finding_of(kind.name, kNotMeasured,
                   format("--{}: no timing at {} to compare{}", kind.name, human_bytes(asked),
                          kind.unit[0] != 0 ? "" : why_not_expected(report))));
}

// Load on a host meanwhile, or its CPU quota, may be why it was slow.
void say_who_was_busy(const BenchReport& report, std::vector<Finding>& findings) {
  if (!report.closing || report.closing->busy.empty()) return;
  const auto& all = report.closing->busy;
  const auto excuse =
      std::ranges::find_if(all, [](const BusyHost& host) { return !host.own_limit; });
  const BusyHost& busy = excuse == all.end() ? all.front() : *excuse;
  for (Finding& finding : findings)
    if (says_too_slow(finding))
      finding.message += busy.own_limit
                             ? format("; host {} was held back meanwhile ({})", busy.host, busy.why)
                             : format("; host {} was busy meanwhile ({}), so this says little",
                                      busy.host, busy.why);
}

// The other library's variants that were to be measured and were not. For NCCL's best any will do.
void judge_versus(const BenchReport& report, std::vector<Finding>& findings) {
  if (!report.closing || report.spec.versus.empty()) return;
  const auto missing = [&](std::string message) {
    findings.push_back(finding_of("vs", kNotMeasured, std::move(message)));
  };
  if (!report.spec.versus_best)
    for (const LeftOut& out : report.closing->left_out)
      missing(
          format("{} ({}) was not measured: {}", report.closing->other, out.variant, out.reason));
  else if (compared(report).timings == 0)
    missing(format("nothing of {} was measured", report.closing->other));
}

// Roots that were lost: no survivor can take their place.
std::string roots_lost(const BenchReport& report, const LostRanks& lost) {
  if (!has_root(report.spec.collective)) return "";
  const std::vector<int>& roots = report.spec.roots;
  std::vector<int> gone;
  for (const int rank : lost.ranks)
    if (roots == std::vector<int>{-1} || std::ranges::find(roots, rank) != roots.end())
      gone.push_back(rank);
  return gone.empty() ? "" : format("; nothing more was measured of root {}", rank_ranges(gone));
}

void judge_losses(const BenchReport& report, std::vector<Finding>& findings) {
  for (const LossLine& loss : report.losses) {
    std::string message = loss.lost.why;
    if (report.header)
      message += format("; after {} row{} {} of {} ranks went on", loss.at_row,
                        loss.at_row == 1 ? "" : "s", loss.ranks_left, report.header->ranks);
    message += roots_lost(report, loss.lost);
    if (!loss.lost.remedy.empty()) message += "; " + loss.lost.remedy;
    Finding& finding = findings.emplace_back(finding_of("rank", kRankLost, std::move(message)));
    finding.at = {.kind = SubjectKind::rank, .host = loss.lost.host, .rank = loss.lost.ranks[0]};
    finding.remedy = loss.lost.remedy;
  }
}

}  // namespace

std::string row_name(const BenchReport& report, const BenchRow& row) {
  std::string name = format("{} {}", name_of(report.spec.collective), human_bytes(row.bytes));
  name += format(" {}", kernels::name_of(row.type));
  if (row.has_op) name += format(" {}", kernels::name_of(row.op));
  if (row.root >= 0) name += format(" root {}", row.root);
  if (!row.algorithm.empty()) name += format(" {}/{}", row.algorithm, row.protocol);
  if (row.ranks > 0) name += format(" of {} ranks", row.ranks);
  if (row.group >= 0) {
    const bool known = report.header && size_t(row.group) < report.header->groups.size();
    name += known ? " of " + group_name(row.group, report.header->groups[size_t(row.group)].ranks)
                  : format(" of group {}", row.group);
  }
  return name;
}

Finding finding_of(const char* name, const ReasonRow& reason, std::string message) {
  Finding finding{.name = name};
  if (reason.code == ErrorCode::incomplete)
    finding.leave_out(std::move(message));
  else
    finding.fail(reason.code, std::move(message));
  finding.reason = reason.word;
  return finding;
}

std::string why_not_expected(const BenchReport& report) {
  for (const BenchRow& row : report.rows)
    if (row.expected && row.standard() == nullptr)
      return format(
          ": nothing is expected, as {} is not known; limits of busbw or time need no model",
          row.expected->unknown);
  return {};
}

bool says_too_slow(const Finding& finding) {
  if (finding.status != FindingStatus::fail) return false;
  for (const ReasonRow* row : {&kBelowMinBusbw, &kAboveMaxLatency, &kBelowMinEfficiency,
                               &kBeyondThreshold, &kSlowerThanBaseline})
    if (finding.reason == row->word) return true;
  return false;
}

std::vector<Finding> left_out_findings(const std::vector<HostEnd>& hosts) {
  std::vector<Finding> findings;
  for (const HostEnd& host : hosts) {
    if (!host.error || !host.ranks.empty()) continue;  // its ranks' losses are told elsewhere
    findings.push_back(
        finding_of("host", kHostLeftOut,
                   format("{} took no part: {}", host.host,
                          base::without_head(host.error->chain(), host.host.name + ": "))));
    findings.back().at = {.kind = SubjectKind::host, .host = host.host};
  }
  return findings;
}

std::vector<Finding> findings_of(const BenchReport& report, const Limits& limits) {
  std::vector<Finding> findings;
  judge_data(report, findings);
  const auto series = size_series(report.spec);
  const bool sizes = series.ok() && !series->empty();
  const uint64_t least = sizes ? series->front() : 0;
  uint64_t most = sizes ? series->back() : 0;
  if (report.spec.plateau)
    for (const BenchRow& row : report.rows) most = std::max(most, row.bytes);
  if (limits.min_busbw) judge_limit(report, *limits.min_busbw, most, kMinBusbw, findings);
  if (limits.max_latency) judge_limit(report, *limits.max_latency, least, kMaxLatency, findings);
  if (limits.min_efficiency)
    judge_limit(report, *limits.min_efficiency, most, kMinEfficiency, findings);
  if (limits.thresholds) judge_thresholds(report, *limits.thresholds, findings);
  if (limits.baseline) judge_baseline(report, *limits.baseline, findings);
  say_who_was_busy(report, findings);
  judge_losses(report, findings);
  if (report.rows.empty() && findings.empty() && !report.spec.soak)
    findings.push_back(finding_of("rows", kNotMeasured, "nothing was measured"));
  judge_versus(report, findings);
  for (Finding& finding : left_out_findings(report.hosts)) findings.push_back(std::move(finding));
  return findings;
}

Verdict judge(const BenchReport& report, const Limits& limits, std::optional<Error> error) {
  return {findings_of(report, limits), std::move(error)};
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

int ranks_of(const BenchReport& report, const BenchRow& row) {
  if (row.group >= 0) return row.group_ranks;
  if (row.ranks > 0) return row.ranks;
  return report.header ? report.header->ranks : 0;
}

SlowestGroups slowest_groups(const BenchReport& report) {
  SlowestGroups found;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const BenchRow& row = report.rows[i];
    if (!row.slowest_group) continue;
    ++found.measured;
    auto at = std::ranges::find_if(found.groups,
                                   [&](const auto& group) { return group.group == row.group; });
    if (at == found.groups.end()) at = found.groups.insert(at, {row.group, 0});
    ++at->times;
    if (row.bytes < found.largest_bytes) continue;
    found.largest_bytes = row.bytes;
    found.at_largest = row.group;
    // Its own and those beside it, which go from group 0 on.
    size_t first = i, end = i + 1;
    while (first > 0 && report.rows[first - 1].group < report.rows[first].group) --first;
    while (end < report.rows.size() && report.rows[end].group > report.rows[end - 1].group) ++end;
    double fastest_us = row.first_timing().time_us;
    for (; first < end; ++first)
      fastest_us = std::min(fastest_us, report.rows[first].first_timing().time_us);
    found.ratio = fastest_us > 0 ? row.first_timing().time_us / fastest_us : 0;
  }
  std::ranges::stable_sort(found.groups,
                           [](const auto& a, const auto& b) { return a.times > b.times; });
  return found;
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
