#include "cmd/report/compare.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/judge/json.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

// A finding that fails, once, with the number of runs that have it.
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
      if (!fails(finding) || std::ranges::find(seen, name) != seen.end()) continue;
      seen.push_back(name);
      const auto known = std::ranges::find_if(
          all, [&](const Failure& one) { return name_of_finding(one.finding) == name; });
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

Document merge_runs(const std::vector<ComparedRun>& runs) {
  bool choices = false;
  for (const ComparedRun& run : runs) choices |= run.bench && has_choices(*run.bench);
  std::map<FigureKey, std::vector<Figure>> all;
  for (const ComparedRun& run : runs)
    for (const auto& [key, value] : figures_of(run, choices)) {
      auto& list = all[key];
      if (list.empty() || list.front().unit == value.unit) list.push_back(value);
    }
  Facts list;
  for (const ComparedRun& run : runs) list.lines.push_back(run_line("", run));
  std::vector<Finding> findings;
  for (Failure& one : failures_of(runs)) findings.push_back(std::move(one.finding));
  for (const ComparedRun& run : runs) {
    // A failure of the verdict that none of its checks tells.
    const bool told = std::ranges::any_of(run.judged.checks, fails);
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
  begin_document(json, "collctl.runs/1").key("runs").begin_array();
  for (const ComparedRun& run : runs) write_run(json, run);
  json.end_array().key("timings").begin_array();
  Table table{titled({"<what", "size", "runs", "least", "median", "most", "most/least", "<unit"}),
              {"runs", "most/least"}};
  for (auto& [key, values] : all) {
    std::ranges::sort(values, {}, &Figure::number);
    const double least = values.front().number, most = values.back().number;
    const double median =
        (values[(values.size() - 1) / 2].number + values[values.size() / 2].number) / 2;
    table.add({key.first, size_text(key), std::to_string(values.size()), four_digits(least),
               four_digits(median), four_digits(most), least > 0 ? ratio_text(most / least) : "-",
               values.front().unit});
    json.begin_object();
    write_key(json, key, values.front());
    json.field("runs", values.size()).field("least", least).field("median", median);
    json.field("most", most).end_object();
  }
  json.end_array();
  const Verdict verdict(findings, std::nullopt);
  write_checks(json, findings, {});
  write_verdict(json, verdict);
  Document made{.title = format("collctl report: {} runs", runs.size()),
                .heading = counted(runs.size(), "run"),
                .parts = {{std::move(list)}, {std::move(table)}},
                .json = json.end_object().take() + "\n",
                .rows = "timings"};
  made.judged = judgement_of(made.json);
  // As the worst of them ended; what a program or a signal ended has a code of its own.
  int worst = 0;
  for (const ComparedRun& run : runs) {
    const int code = run.judged.exit_code;
    if (code != 0 && (worst == 0 || base::severity(run.judged.verdict.code()) > worst)) {
      worst = std::max(1, base::severity(run.judged.verdict.code()));
      made.judged.exit_code = code;
    }
  }
  return made;
}

}  // namespace collctl::cmd
