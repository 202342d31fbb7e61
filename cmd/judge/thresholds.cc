#include "cmd/judge/thresholds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/split.h"
#include "cmd/judge/timings.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {
namespace {

constexpr const char* kStatisticNames[] = {"busbw", "algbw", "time", "p50", "p99", "efficiency"};
static_assert(std::size(kStatisticNames) == kStatistics);
constexpr size_t kMostLine = 1000;
constexpr int kMostThresholdRanks = 1 << 20;

// One line's columns, and where each begins.
struct Columns {
  const std::string& file;
  size_t number;
  std::string_view line;
  size_t at = 0, began = 0;

  std::string_view next() {
    at = std::min(line.find_first_not_of(" \t", at), line.size());
    began = at;
    at = std::min(line.find_first_of(" \t", at), line.size());
    return line.substr(began, at - began);
  }
  std::string_view rest() {
    began = std::min(line.find_first_not_of(" \t", at), line.size());
    return line.substr(began);
  }
  Error expected(const std::string& what) const {
    const std::string_view word = line.substr(began, std::min(at, line.size()) - began);
    return {ErrorCode::usage,
            format("{}:{}:{}: expected {}{}", file, number, began + 1, what,
                   word.empty() ? "" : format(", not '{}'", base::printable(word.substr(0, 40)))),
            "a line is: COLLECTIVE SIZE STATISTIC RANKS|* min|max VALUE SOURCE"};
  }
};

std::optional<double> positive_number(std::string_view word) {
  const std::string text(word);
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != 0 || !std::isfinite(value) || value < 0 || value > 1e12) return std::nullopt;
  return value;
}

Result<Threshold> parse_threshold(Columns columns) {
  Threshold row;
  row.line = columns.number;
  std::string_view word = columns.next();
  const auto op = find_bench_op(word);
  if (!op) return columns.expected("a collective");
  row.collective = *op;
  word = columns.next();
  const auto bytes = base::parse_bytes(std::string(word));
  if (!bytes) return columns.expected("a size (8, 4M, 1G)");
  row.bytes = *bytes;
  word = columns.next();
  const auto* const name = std::ranges::find(kStatisticNames, word);
  if (name == std::end(kStatisticNames))
    return columns.expected("busbw, algbw, time, p50, p99 or efficiency");
  row.statistic = Statistic(name - std::begin(kStatisticNames));
  word = columns.next();
  if (word != "*") {
    const auto ranks = positive_number(word);
    if (!ranks || *ranks < 1 || *ranks > kMostThresholdRanks || *ranks != std::floor(*ranks))
      return columns.expected("a number of ranks, or *");
    row.ranks = int(*ranks);
  }
  word = columns.next();
  if (word != "min" && word != "max") return columns.expected("min or max");
  row.minimum = word == "min";
  const auto value = positive_number(columns.next());
  if (!value) return columns.expected("a value");
  row.value = *value;
  row.source = columns.rest();
  if (row.source.empty()) {
    columns.at = columns.line.size();
    return columns.expected("who says so: the source, in words");
  }
  return row;
}

std::optional<double> statistic_of(const BenchRow& row, const Timing& timing, Statistic statistic) {
  const auto known = [](double value) { return value > 0 ? std::optional(value) : std::nullopt; };
  switch (statistic) {
    case Statistic::busbw:
      return timing.busbw_GBps;
    case Statistic::algbw:
      return timing.algbw_GBps;
    case Statistic::time:
      return timing.time_us;
    case Statistic::p50:
      return known(timing.p50_us);
    case Statistic::p99:
      return known(timing.p99_us);
    default:
      return row.standard() ? known(row.standard()->efficiency(timing)) : std::nullopt;
  }
}

const char* unit_of(Statistic statistic) {
  if (statistic == Statistic::efficiency) return "";
  return statistic <= Statistic::algbw ? "GB/s" : "us";
}

// False: it was not measured.
bool judge_threshold(const BenchReport& report, const std::string& file, const Threshold& limit,
                     std::vector<Finding>& findings) {
  bool measured = false;
  for (const BenchRow& row : report.rows) {
    const auto point =
        size_point(report.spec.collective, limit.bytes, report.header ? report.header->ranks : 1,
                   kernels::element_size(row.type));
    if (point.bytes != row.bytes) continue;
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      const auto seen = statistic_of(row, timing, limit.statistic);
      if (!seen) return;
      measured = true;
      const char* const unit = unit_of(limit.statistic);
      const char* const gap = *unit == 0 ? "" : " ";
      Finding& finding = findings.emplace_back();
      finding.name = "thresholds";
      if (limit.minimum ? *seen < limit.value : *seen > limit.value)
        finding = finding_of("thresholds", kBeyondThreshold,
                             format("{} {}: {} {}{}{}, {} {} ({}, {}:{})", row_name(report, row),
                                    where, name_of(limit.statistic), four_digits(*seen), gap, unit,
                                    limit.minimum ? "below the minimum of" : "above the maximum of",
                                    four_digits(limit.value), limit.source, file, limit.line));
      finding.measured = format("{:.6g}", *seen);
      finding.expected = format("{:.6g}", limit.value);
      finding.unit = unit;
      finding.basis = format("{} ({}:{})", limit.source, file, limit.line);
    });
  }
  return measured;
}

}  // namespace

const char* name_of(Statistic statistic) {
  return kStatisticNames[size_t(statistic)];
}

Result<Thresholds> parse_thresholds(const std::string& file, const std::string& text) {
  Thresholds found{.file = base::printable(file)};
  size_t number = 0;
  for (std::string_view line : base::lines_of(text)) {
    ++number;
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    const auto control = std::ranges::find_if(
        line, [](char c) { return (uint8_t(c) < 0x20 && c != '\t') || c == 0x7f; });
    if (control != line.end())
      return Error(ErrorCode::usage, format("{}:{}:{}: a control character; expected text",
                                            found.file, number, control - line.begin() + 1));
    if (line.size() > kMostLine)
      return Error(ErrorCode::usage, format("{}:{}:{}: the line is longer than {} characters",
                                            found.file, number, kMostLine + 1, kMostLine));
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (found.rows.size() == kMostThresholds)
      return Error(ErrorCode::usage,
                   format("{}:{}: more than {} thresholds", found.file, number, kMostThresholds));
    COLL_ASSIGN(Threshold row, parse_threshold({found.file, number, line}));
    row.source = base::printable(row.source);
    found.rows.push_back(std::move(row));
  }
  if (found.rows.empty())
    return Error(ErrorCode::usage, found.file + ": holds no threshold",
                 "a line is: COLLECTIVE SIZE STATISTIC RANKS|* min|max VALUE SOURCE");
  return found;
}

void judge_thresholds(const BenchReport& report, const Thresholds& thresholds,
                      std::vector<Finding>& findings) {
  const int ranks = report.header ? report.header->ranks : 0;
  bool any = false;
  for (const Threshold& row : thresholds.rows) {
    if (row.collective != report.spec.collective || (row.ranks != 0 && row.ranks != ranks))
      continue;
    any = true;
    if (judge_threshold(report, thresholds.file, row, findings)) continue;
    findings.push_back(
        finding_of("thresholds", kNotMeasured,
                   format("{}:{}: {} of {} at {} was not measured{}", thresholds.file, row.line,
                          name_of(row.statistic), name_of(row.collective), human_bytes(row.bytes),
                          row.statistic == Statistic::efficiency ? why_not_expected(report) : "")));
  }
  if (!any)
    findings.push_back(finding_of("thresholds", kNotMeasured,
                                  format("{} has no threshold of {} on {} ranks", thresholds.file,
                                         name_of(report.spec.collective), ranks)));
}

}  // namespace collctl::cmd
