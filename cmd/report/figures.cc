#include "cmd/report/compare.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

std::string name_of_row(const BenchReport& report, const BenchRow& row, bool choices) {
  std::string name = format("{} {}", name_of(report.spec.collective), name_of(row.type));
  if (row.has_op) name += format(" {}", name_of(row.op));
  if (row.root >= 0) name += format(" root {}", row.root);
  if (choices) name += format(" {}/{}", row.algorithm, row.protocol);
  return name;
}

// Others than the ranks had a host; its own cgroup's quota is the host's fault.
bool spoilt_by_others(const BenchReport& report) {
  return report.closing && std::ranges::any_of(report.closing->busy, [](const BusyHost& host) {
           return !host.own_limit;
         });
}

void add_timing(Figures& figures, const FigureKey& key, const Timing& timing, bool spoilt) {
  if (!timing.measured || (timing.busbw_GBps <= 0 && timing.time_us <= 0)) return;
  Figure& figure = figures[key];
  const bool speed = timing.busbw_GBps > 0;
  figure.number = speed ? timing.busbw_GBps : timing.time_us;
  figure.unit = speed ? "GB/s" : "us";
  figure.kind = key.first;
  figure.spoilt = spoilt;
}

std::string where(const Subject& at) {
  std::string text = at.host.name;
  if (!at.device.empty()) text += (text.empty() ? "" : " ") + at.device;
  if (at.rank >= 0) text += format("{}rank {}", text.empty() ? "" : " ", at.rank);
  if (!at.peer.named()) return text;
  return text + " -> " + at.peer.name + (at.peer_device.empty() ? "" : " " + at.peer_device);
}

}  // namespace

bool has_choices(const BenchReport& report) {
  std::map<FigureKey, int> count;
  for (const BenchRow& row : report.rows)
    if (++count[{name_of_row(report, row, false), row.bytes}] > 1) return true;
  return false;
}

Figures figures_of(const ComparedRun& run, bool choices) {
  Figures figures;
  if (run.bench) {
    const bool spoilt = spoilt_by_others(*run.bench);
    for (const BenchRow& row : run.bench->rows) {
      const std::string name = name_of_row(*run.bench, row, choices);
      add_timing(figures, {name + ", out of place", row.bytes}, row.out_of_place, spoilt);
      add_timing(figures, {name + ", in place", row.bytes}, row.in_place, spoilt);
    }
  }
  for (const Finding& finding : run.judged.checks) {
    if ((finding.unit != "GB/s" && finding.unit != "us") || finding.measured.empty()) continue;
    Figure& figure = figures[{name_of_finding(finding), 0}];
    figure.number = finding.figure();
    figure.unit = finding.unit;
    figure.kind = finding.name;
    figure.spoilt = finding.reason == kBusyHost;
    // doctor's connections, each made once; "doctor/reach" in a check.
    figure.once = finding.unit == "us" && finding.name.ends_with("reach");
  }
  return figures;
}

Figures path_figures(const PathMatrix& paths) {
  Figures figures;
  for (size_t i = 0; i < paths.ends.size(); ++i)
    for (size_t j = 0; j < paths.ends.size(); ++j) {
      if (paths.GBps[i][j] == kNotTried) continue;
      const Host &from = paths.ends[i].host, &to = paths.ends[j].host;
      figures[{format("path {} -> {}", paths.ends[i].text(), paths.ends[j].text()), 0}] = {
          .number = paths.GBps[i][j],
          .unit = "GB/s",
          .kind = "paths",
          .from = from,
          .to = to,
          .spoilt = paths.is_busy(from) || paths.is_busy(to)};
    }
  return figures;
}

std::string size_text(const FigureKey& key) {
  return key.second == 0 ? "-" : human_bytes(key.second);
}

std::string name_of_finding(const Finding& finding) {
  const std::string at = where(finding.at);
  return finding.name + (at.empty() ? "" : " " + at);
}

bool fails(const Finding& finding) {
  return finding.status == FindingStatus::fail;
}

std::string run_line(const char* what, const ComparedRun& run) {
  const Verdict& verdict = run.judged.verdict;
  const std::string end = verdict.ok() && run.judged.exit_code == 0
                              ? "passed"
                              : format("code {}", run.judged.exit_code);
  return format("{}{}: {}, {}", what, run.name, run.title, end);
}

void write_run(JsonWriter& json, const ComparedRun& run) {
  json.begin_object().field("file", run.name).field("title", run.title);
  json.field("schema", run.judged.schema).field("exit_code", run.judged.exit_code).end_object();
}

void write_key(JsonWriter& json, const FigureKey& key, const Figure& figure) {
  json.field("what", key.first).field("bytes", key.second).field("unit", figure.unit);
}

std::string ratio_text(double ratio) {
  return format("{:.3f}", ratio);
}

}  // namespace collctl::cmd
