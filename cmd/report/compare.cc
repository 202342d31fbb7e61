#include "cmd/report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "cmd/judge/json.h"
#include "cmd/judge/text.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

struct Value {
  double number = 0;
  std::string unit;
  bool less_is_better() const { return unit == "us"; }
};
// By what was measured, then by size; sizes of one kind stay together.
using Key = std::pair<std::string, uint64_t>;
using Values = std::map<Key, Value>;

std::string name_of_row(const BenchReport& report, const BenchRow& row, bool choices) {
  std::string name = format("{} {}", name_of(report.spec.collective), name_of(row.type));
  if (row.has_op) name += format(" {}", name_of(row.op));
  if (row.root >= 0) name += format(" root {}", row.root);
  if (choices) name += format(" {}/{}", row.algorithm, row.protocol);
  return name;
}

// Whether a run has measured one size in several choices of algorithm or protocol.
bool has_choices(const BenchReport& report) {
  std::map<Key, int> count;
  for (const BenchRow& row : report.rows)
    if (++count[{name_of_row(report, row, false), row.bytes}] > 1) return true;
  return false;
}

void add_timing(Values& values, const Key& key, const Timing& timing) {
  if (!timing.measured) return;
  if (timing.busbw_GBps > 0)
    values[key] = {timing.busbw_GBps, "GB/s"};
  else if (timing.time_us > 0)
    values[key] = {timing.time_us, "us"};
}

std::string where(const Subject& at) {
  std::string text = at.host;
  if (!at.device.empty()) text += (text.empty() ? "" : " ") + at.device;
  if (at.rank >= 0) text += format("{}rank {}", text.empty() ? "" : " ", at.rank);
  if (at.peer.empty()) return text;
  return text + " -> " + at.peer + (at.peer_device.empty() ? "" : " " + at.peer_device);
}

std::string name_of_finding(const Finding& finding) {
  const std::string at = where(finding.at);
  return finding.name + (at.empty() ? "" : " " + at);
}

// `choices`: of any of the runs.
Values values_of(const ComparedRun& run, bool choices) {
  Values values;
  if (run.bench)
    for (const BenchRow& row : run.bench->rows) {
      const std::string name = name_of_row(*run.bench, row, choices);
      add_timing(values, {name + ", out of place", row.bytes}, row.out_of_place);
      add_timing(values, {name + ", in place", row.bytes}, row.in_place);
    }
  for (const Finding& finding : run.judged.checks)
    if ((finding.unit == "GB/s" || finding.unit == "us") && !finding.measured.empty())
      values[{name_of_finding(finding), 0}] = {std::strtod(finding.measured.c_str(), nullptr),
                                               finding.unit};
  return values;
}

bool fails(const Finding& finding) {
  return finding.status == FindingStatus::fail;
}

std::string size_of(const Key& key) {
  return key.second == 0 ? "-" : human_bytes(key.second);
}

std::string run_line(const char* what, const ComparedRun& run) {
  const Verdict& verdict = run.judged.verdict;
  const std::string end = verdict.ok() && run.judged.exit_code == 0
                              ? "passed"
                              : format("code {}", run.judged.exit_code);
  return format("# {}{}: {}, {}\n", what, run.name, run.title, end);
}

void write_run(JsonWriter& json, const ComparedRun& run) {
  json.begin_object().field("file", run.name).field("title", run.title);
  json.field("schema", run.judged.schema).field("exit_code", run.judged.exit_code).end_object();
}

void write_key(JsonWriter& json, const Key& key, const Value& value) {
  json.field("what", key.first).field("bytes", key.second).field("unit", value.unit);
}

std::string ratio_text(double ratio) {
  return format("{:.3f}", ratio);
}

// Of a list of findings those that fail, once each, with the runs that have them.
struct Failure {
  Finding finding;
  size_t runs = 0;
};
std::vector<Failure> failures_of(const std::vector<ComparedRun>& runs) {
  std::vector<Failure> all;
  for (const ComparedRun& run : runs) {
    std::vector<std::string> seen;
    for (const Finding& finding : run.judged.checks) {
      const std::string name = name_of_finding(finding);
      if (!fails(finding) || std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      seen.push_back(name);
      const auto known = std::find_if(all.begin(), all.end(), [&](const Failure& one) {
        return name_of_finding(one.finding) == name;
      });
      ++(known == all.end() ? all.insert(all.end(), {finding, 0}) : known)->runs;
    }
  }
  for (Failure& one : all) {
    one.finding.n = one.runs;
    one.finding.of = runs.size();
    one.finding.message =
        format("in {} of {} runs: {}", one.runs, runs.size(), one.finding.message);
  }
  return all;
}

}  // namespace

Compared merge_runs(const std::vector<ComparedRun>& runs, size_t width) {
  bool choices = false;
  for (const ComparedRun& run : runs) choices |= run.bench && has_choices(*run.bench);
  std::map<Key, std::vector<Value>> all;
  for (const ComparedRun& run : runs)
    for (const auto& [key, value] : values_of(run, choices)) {
      auto& list = all[key];
      if (list.empty() || list.front().unit == value.unit) list.push_back(value);
    }
  Compared made;
  std::string text = format("# {} runs\n", runs.size());
  std::vector<Finding> findings;
  for (const ComparedRun& run : runs) text += run_line("", run);
  for (Failure& one : failures_of(runs)) findings.push_back(std::move(one.finding));
  for (const ComparedRun& run : runs) {
    // What a verdict says beyond its checks.
    const bool told = std::any_of(run.judged.checks.begin(), run.judged.checks.end(), fails);
    if (run.judged.exit_code == 0 || told) continue;
    const Verdict& verdict = run.judged.verdict;
    findings.emplace_back(Finding{.name = run.name})
        .fail(verdict.code() == ErrorCode{} ? ErrorCode::failed : verdict.code(),
              format("{}: {}", run.name,
                     verdict.error()             ? verdict.error()->chain()
                     : verdict.reasons().empty() ? format("ended with {}", run.judged.exit_code)
                                                 : verdict.reasons().front().message));
  }
  JsonWriter json;
  json.begin_object().field("schema", "collctl.runs/1").key("runs").begin_array();
  for (const ComparedRun& run : runs) write_run(json, run);
  json.end_array().key("timings").begin_array();
  std::vector<TableColumn> columns{{.title = "what", .left = true},
                                   {.title = "size"},
                                   {.title = "runs"},
                                   {.title = "least"},
                                   {.title = "median"},
                                   {.title = "most"},
                                   {.title = "most/least"},
                                   {.title = "unit", .left = true}};
  for (auto& [key, values] : all) {
    std::sort(values.begin(), values.end(),
              [](const Value& a, const Value& b) { return a.number < b.number; });
    const double least = values.front().number, most = values.back().number;
    const double median =
        (values[(values.size() - 1) / 2].number + values[values.size() / 2].number) / 2;
    const std::string cells[] = {key.first,
                                 size_of(key),
                                 std::to_string(values.size()),
                                 four_digits(least),
                                 four_digits(median),
                                 four_digits(most),
                                 least > 0 ? ratio_text(most / least) : "-",
                                 values.front().unit};
    for (size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
    json.begin_object();
    write_key(json, key, values.front());
    json.field("runs", values.size()).field("least", least).field("median", median);
    json.field("most", most).end_object();
  }
  json.end_array();
  if (!all.empty()) text += "#\n" + table_text(columns, {"runs", "most/least"}, width);
  text += problems_text(findings);
  made.verdict = Verdict(findings, std::nullopt);
  // As the worst of them ended; what a program or a signal ended has a code of its own.
  int worst = 0;
  for (const ComparedRun& run : runs) {
    const int code = run.judged.exit_code;
    if (code != 0 && (worst == 0 || base::severity(run.judged.verdict.code()) > worst)) {
      worst = std::max(1, base::severity(run.judged.verdict.code()));
      made.exit_code = code;
    }
  }
  text += verdict_text(made.verdict);
  write_checks(json, findings, {});
  write_verdict(json, made.verdict);
  made.document = {.title = format("collctl report: {} runs", runs.size()),
                   .json = json.end_object().take() + "\n",
                   .rows = "timings",
                   .text = shown(std::move(text)),
                   .svg = ""};
  return made;
}

Compared diff_runs(const ComparedRun& was, const ComparedRun& is, double below, size_t width) {
  const bool choices =
      (was.bench && has_choices(*was.bench)) || (is.bench && has_choices(*is.bench));
  const Values before = values_of(was, choices), after = values_of(is, choices);
  std::vector<Finding> findings;
  JsonWriter json;
  json.begin_object().field("schema", "collctl.diff/1").key("was");
  write_run(json, was);
  json.key("is");
  write_run(json, is);
  json.field("below", below).key("timings").begin_array();
  std::vector<TableColumn> columns{{.title = "what", .left = true},
                                   {.title = "size"},
                                   {.title = "was"},
                                   {.title = "is"},
                                   {.title = "ratio"},
                                   {.title = "change", .left = true},
                                   {.title = "unit", .left = true}};
  size_t slower = 0, timings = 0, paths = 0;
  double logs = 0;
  std::vector<std::string> missing;
  for (const auto& [key, old] : before) {
    const auto at = after.find(key);
    if (at == after.end() || at->second.unit != old.unit) {
      missing.push_back(key.first + (key.second == 0 ? "" : " " + human_bytes(key.second)));
      continue;
    }
    const double now = at->second.number;
    if (old.number <= 0 || now <= 0) continue;
    const double ratio = old.less_is_better() ? old.number / now : now / old.number;
    const bool is_slower = ratio < below;
    ++timings;
    slower += is_slower;
    logs += std::log(ratio);
    json.begin_object();
    write_key(json, key, old);
    json.field("was", old.number).field("is", now).field("ratio", ratio);
    json.field("slower", is_slower).end_object();
    if (is_slower) {
      Finding& finding = findings.emplace_back(Finding{.name = "slower"});
      finding.reason = "slower";
      finding.measured = format("{:.6g}", now);
      finding.expected =
          format("{:.6g}", old.less_is_better() ? old.number / below : below * old.number);
      finding.unit = old.unit;
      finding.fail(ErrorCode::failed, format("{} {}: {} {}, was {}", key.first, size_of(key),
                                             four_digits(now), old.unit, four_digits(old.number)));
    }
    // Of many paths only those that changed.
    const bool path = key.first.find(" -> ") != std::string::npos;
    if (path && ratio >= below && ratio <= 1 / std::max(below, 0.01)) {
      ++paths;
      continue;
    }
    const std::string cells[] = {key.first,
                                 size_of(key),
                                 four_digits(old.number),
                                 four_digits(now),
                                 ratio_text(ratio),
                                 is_slower                           ? "slower"
                                 : ratio > 1 / std::max(below, 0.01) ? "faster"
                                                                     : "",
                                 old.unit};
    for (size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  json.end_array();
  const auto only_in = [](const ComparedRun& a, const ComparedRun& b) {
    std::vector<Finding> list;
    for (const Finding& finding : a.judged.checks) {
      if (!fails(finding)) continue;
      const bool both =
          std::any_of(b.judged.checks.begin(), b.judged.checks.end(), [&](const Finding& other) {
            return fails(other) && name_of_finding(other) == name_of_finding(finding);
          });
      if (!both) list.push_back(finding);
    }
    return list;
  };
  const std::vector<Finding> came = only_in(is, was), went = only_in(was, is);
  JsonRecord io(json);
  io.field("came", described(came));
  io.field("went", described(went));
  io.field("missing", missing);
  std::string text = run_line("was ", was) + run_line("is  ", is);
  if (!columns[0].cells.empty()) text += "#\n" + table_text(columns, {"change"}, width);
  if (paths > 0)
    text += format("# {} paths within {:g} of what they were are not shown\n", paths, below);
  if (timings > 0)
    text += format(
        "# {} of {} timings are slower than {:g} of what they were; geometric mean of "
        "the ratios {:.3f}\n",
        slower, timings, below, std::exp(logs / double(timings)));
  for (const Finding& finding : went)
    text += format("went FAIL {}: {}\n", name_of_finding(finding), finding.message);
  for (const Finding& finding : came)
    text += format("came FAIL {}: {}\n", name_of_finding(finding), finding.message);
  findings.insert(findings.end(), came.begin(), came.end());
  if (!missing.empty())
    findings.emplace_back(Finding{.name = "missing"})
        .leave_out(format("{} was measured in the first only{}", missing.front(),
                          missing.size() == 1 ? "" : format(", and {} more", missing.size() - 1)));
  if (before.empty() && came.empty() && was.judged.checks.empty() && is.judged.checks.empty())
    findings.emplace_back(Finding{.name = "nothing"})
        .leave_out("neither has timings or checks that could be compared");
  Compared made;
  std::vector<std::string> summary;
  if (slower > 0) summary.push_back(format("{} of {} timings are slower", slower, timings));
  if (!came.empty()) summary.push_back(format("{} failed that did not before", came.size()));
  if (!findings.empty() && findings.back().status == FindingStatus::not_tested)
    summary.push_back(findings.back().message);
  made.verdict = Verdict(findings, std::nullopt, summary);
  made.exit_code = made.verdict.exit_code();
  text += verdict_text(made.verdict);
  write_checks(json, findings, {});
  write_verdict(json, made.verdict);
  made.document = {.title = format("{} against {}", is.name, was.name),
                   .json = json.end_object().take() + "\n",
                   .rows = "timings",
                   .text = shown(std::move(text)),
                   .svg = ""};
  return made;
}

}  // namespace collctl::cmd
