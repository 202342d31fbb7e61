// Report of a check: a table of hosts and suites with culprits and remedies, JSON, or one line for
// monitoring.
#include <algorithm>

#include <map>
#include <set>

#include "base/format.h"
#include "base/shell.h"
#include "cmd/check/check.h"
#include "cmd/judge/finding.h"
#include "cmd/judge/json.h"
#include "cmd/report/report.h"
#include "cmd/text/hosts.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"
#include "cmd/topo/parts.h"
#include "cmd/topo/svg_plane.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {

static void fields(Record& io, SoakInterval& interval) {
  io.field("from", interval.from);
  io.field("rounds", interval.rounds, 0);
  io.field("failed", interval.failed, 0);
  io.field("lowest", interval.lowest);
}

static void fields(Record& io, SoakResult& soak) {
  io.field("asked_s", soak.asked_s, 0);
  io.field("seconds", soak.seconds, 0);
  io.field("began", soak.began);
  io.field("rounds", soak.rounds, 0);
  io.field("failed", soak.failed, 0);
  io.field("intervals", soak.intervals);
}

namespace {

constexpr const char* kEnds[] = {"done", "not-asked", "no-hosts", "no-time", "broke-off", "partly"};
const char* end_word(SuiteEnd end) {
  return kEnds[size_t(end)];
}
const char* level_word(CheckLevel level) {
  return kCheckLevels[size_t(level)];
}

constexpr size_t kMostMachine = size_t(1) << 20;  // bytes of a topology file
constexpr size_t kMostGpuHosts = 1 << 16;         // with GPUs
constexpr size_t kMostCause = 60;                 // characters of a cause in short

bool of_suite(const Finding& finding, const Suite& suite) {
  const std::string name = suite.name;
  return finding.name == name || finding.name.rfind(name + "/", 0) == 0;
}

// The worst value of each check, interval by interval.
Table soak_table(const SoakResult& soak) {
  Table table{titled({"<from", "rounds", "failed", "<worst of"})};
  for (const SoakInterval& interval : soak.intervals) {
    std::string worst;
    for (const Finding& one : interval.lowest)
      worst += format("{}{} {} {}", worst.empty() ? "" : ", ", one.name, one.measured, one.unit);
    table.add({interval.from, std::to_string(interval.rounds), std::to_string(interval.failed),
               worst.empty() ? "-" : worst});
  }
  return table;
}

// Slurm reads lists in a name: only what is plainly one node is put into a line.
bool is_node_name(const std::string& host) {
  return !host.empty() && host[0] != '-' &&
         host.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string::npos;
}

// The matrices of one host, that with the slowest pair; without -v only what a GPU writes to the
// others, or where none has another, the host's memory.
void add_gpus(const CheckReport& report, Document& document) {
  const GpuReport* shown = nullptr;
  double least = 0;
  for (const GpuReport& host : report.gpus)
    for (const GpuPair& pair : host.pairs)
      if (const double value = pair.of(PairFigure::write);
          value > 0 && (shown == nullptr || value < least))
        shown = &host, least = value;
  const bool pairs = shown != nullptr;
  if (!pairs && !report.gpus.empty()) shown = &report.gpus.front();
  if (shown == nullptr) return;
  const std::string whose =
      report.gpus.size() == 1 ? shown->host.name
      : pairs
          ? format("{}, which has the slowest pair of {} hosts", shown->host, report.gpus.size())
          : format("{}, one of {} hosts", shown->host, report.gpus.size());
  for (size_t f = 0; f < kPairFigures; ++f) {
    auto grid = figure_grid(*shown, PairFigure(f));
    if (!grid) continue;
    grid->title = format("between the GPUs of {}: {}", whose, grid->title);
    document.parts.push_back(
        {std::move(*grid), PairFigure(f) == PairFigure::write ? Shown::always : Shown::whole});
  }
  const Shown legs = pairs ? Shown::whole : Shown::always;
  if (pairs) document.parts.push_back({gpu_table(*shown), legs});
  document.parts.push_back(
      {Facts{{format("GPUs of {} and the memory of its NUMA nodes:", whose)}}, legs});
  document.parts.push_back({leg_table(*shown), legs});
}

}  // namespace

std::string suite_word(const CheckReport& report, const SuiteResult& result, const Host& host) {
  if (result.end == SuiteEnd::not_asked) return "-";
  bool warn = false, job_left_out = false;
  for (const Finding& finding : report.findings) {
    if (!of_suite(finding, *result.suite)) continue;
    job_left_out |= finding.at.kind == SubjectKind::job &&
                    (finding.name == std::string(result.suite->name) + "/measured" ||
                     (finding.reason == kBusyHost && finding.status == FindingStatus::not_tested));
    if ((finding.at.host != host && finding.at.peer != host)) continue;
    if (finding.status == FindingStatus::fail) return "FAIL";
    if (finding.status == FindingStatus::not_tested && finding.at.kind == SubjectKind::host)
      return "left out";
    if (finding.reason == kNothingThere) return "-";
    warn |= finding.status == FindingStatus::warn;
  }
  if (const auto at = report.out.find(host);
      at != report.out.end() && at->second != result.suite->name) {
    // Left out from the suite after the one that it failed.
    for (const SuiteResult& other : report.suites) {
      if (other.suite->name == at->second) return "left out";
      if (&other == &result) break;
    }
  }
  if (job_left_out) return "partly";
  if (result.end != SuiteEnd::done && result.end != SuiteEnd::partly) return "not run";
  return warn ? "warn" : "ok";
}

std::string short_cause(const Culprit& culprit) {
  std::string cause = evidence_alone(culprit);
  // Those of a part of the host begin with it.
  if (culprit.kind != SubjectKind::host)
    cause = format("{} {}: {}", subject_word(culprit.kind), culprit.name, cause);
  for (char& c : cause)
    if (uint8_t(c) < ' ' || uint8_t(c) >= 0x7f) c = '?';
  if (cause.size() <= kMostCause) return cause;
  cause.resize(kMostCause - 3);
  const size_t word = cause.rfind(' ');
  if (word != std::string::npos && word > kMostCause / 2) cause.resize(word);
  return cause + "...";
}

std::string drain_lines(const CheckReport& report) {
  std::string text;
  std::set<Host> done;
  for (const Culprit& culprit : report.culprits) {
    const Host& host = culprit.host;
    if (!is_node_name(host.name) || !done.insert(host).second) continue;
    const std::string reason = "collctl check: " + short_cause(culprit);
    text += format("scontrol update nodename={} state=drain reason={}\n", host,
                   base::shell_quoted(reason));
  }
  return text;
}

std::string resume_lines(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts)
    if (is_node_name(host.name)) text += format("scontrol update nodename={} state=resume\n", host);
  return text;
}

std::string check_json(const CheckReport& report, const Verdict& verdict) {
  JsonWriter json;
  begin_document(json, "collctl.check/1").field("level", level_word(report.level));
  if (report.round > 0) json.field("round", report.round).field("began", report.began);
  json.objects("hosts", report.hosts, [&](const Host& host) {
    json.field("host", host);
    const auto at = report.out.find(host);
    write_text_or_null(json, "failed", at == report.out.end() ? "" : at->second);
  });
  json.objects("suites", report.suites, [&](const SuiteResult& result) {
    json.field("name", result.suite->name).field("end", end_word(result.end));
    json.field("seconds", result.seconds);
    if (result.end != SuiteEnd::not_asked)
      json.field("planned", result.planned).field("measured", result.measured);
    write_text_or_null(json, "why", result.why);
    if (result.times > 1) json.field("times", result.times).field("again", result.again);
  });
  json.field("seconds", report.seconds);
  Record io(json);
  if (report.soak) io.field("soak", described(*report.soak));
  if (!report.paths.ends.empty()) io.field("paths", described(report.paths));
  if (!report.gpus.empty()) io.field("gpus", described(report.gpus));
  if (!report.burnt.empty()) write_burnt(json, report.burnt);
  if (report.nccl) io.field("nccl", described(*report.nccl));
  if (!report.machine.empty()) json.field("machine", report.machine);
  write_checks(json, report.findings, report.culprits);
  return judged_json(json, verdict);
}

Result<CheckReport> read_check(const Judgement& judged) {
  COLL_ASSIGN(Record io, Record::read(judged.document));
  CheckReport report;
  io.name("level", report.level, int(std::size(kCheckLevels)), level_word);
  io.objects("hosts", report.hosts, [&](Host& host) {
    io.field("host", host);
    if (io.has("failed", true)) io.field("failed", report.out[host]);
  });
  std::vector<std::string> names;
  io.objects("suites", names, [&](std::string& name) {
    SuiteResult result{.suite = nullptr};
    io.field("name", name);
    io.name("end", result.end, int(std::size(kEnds)), end_word);
    io.field("seconds", result.seconds);
    if (io.has("planned", true)) io.field("planned", result.planned);
    if (io.has("measured", true)) io.field("measured", result.measured);
    if (io.has("why", true)) io.field("why", result.why);
    if (io.has("times", true)) io.field("times", result.times, 1);
    if (io.has("again", true)) io.field("again", result.again);
    for (const Suite& suite : suites())
      if (suite.name == name) result.suite = &suite;
    if (result.suite != nullptr) report.suites.push_back(std::move(result));
  });
  io.field("seconds", report.seconds);
  if (io.has("round", true)) io.field("round", report.round, 1);
  if (io.has("began", true)) io.field("began", report.began);
  if (io.has("soak", true)) io.field("soak", report.soak.emplace());
  if (io.has("paths", true)) io.field("paths", report.paths);
  if (io.has("gpus", true)) io.field("gpus", report.gpus, kMostGpuHosts);
  if (io.has("burn", true)) read_burnt(io, report.burnt);
  if (io.has("nccl", true)) io.field("nccl", report.nccl.emplace());
  if (io.has("machine", true)) io.field("machine", report.machine, kMostMachine);
  COLL_TRY(io.status());
  report.findings = judged.checks;
  report.culprits = judged.culprits;
  return report;
}

Result<std::string> more_pictures(const CheckReport& report) {
  const std::string gpus = gpus_svg(report.gpus), curves = burn_svg(report.burnt);
  if (report.machine.empty()) return gpus + curves;
  COLL_ASSIGN(topology::Document file, topology::read_xml(report.machine, "machine"));
  COLL_ASSIGN(const TopoView view, view_of(std::move(file.system), "machine", {}));
  return gpus + topo_svg(view, nullptr) + curves;
}

Document check_document(const CheckReport& report, std::string json) {
  Document document = document_with(std::move(json), "checks");
  document.title = format("collctl check: {}", counted(report.hosts.size(), "host"));
  document.heading = format("collctl check, {}: {}, {:.1f} s", level_word(report.level),
                            counted(report.hosts.size(), "host"), report.seconds);
  document.svg = paths_svg("Paths between NICs", report.paths);
  HostTable table;
  // Suites that were not asked for stand below.
  const auto shown = [](const SuiteResult& result) { return result.end != SuiteEnd::not_asked; };
  for (const SuiteResult& result : report.suites)
    if (shown(result)) table.checks.emplace_back(result.suite->name);
  for (const Host& host : report.hosts) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(host.name);
    document.hosts.push_back(host.name);
    for (const SuiteResult& result : report.suites)
      if (shown(result)) row.push_back(suite_word(report, result, host));
  }
  document.parts.push_back({std::move(table)});
  document.parts.push_back({evidence_of(report)});
  add_gpus(report, document);
  if (report.nccl) add_nccl(*report.nccl, document);
  Facts again, not_run;
  NamesBy<std::string> left_out;  // suites by why
  for (const SuiteResult& result : report.suites) {
    if (result.times > 1)
      again.lines.push_back(format("{} was measured {} times, as {}", result.suite->name,
                                   result.times, result.again));
    if (result.end == SuiteEnd::not_asked) left_out[result.why].push_back(result.suite->name);
  }
  for (const auto& [why, names] : left_out.groups())
    not_run.lines.push_back(format("not run: {} ({})", joined(names), why));
  if (const auto& soak = report.soak) {
    again.lines.push_back(format(
        "soak: {} in {} of {}, {} failed, from {}", counted(size_t(soak->rounds), "round"),
        duration_text(soak->seconds), duration_text(soak->asked_s), soak->failed, soak->began));
  }
  document.parts.push_back({std::move(again)});
  if (report.soak) document.parts.push_back({soak_table(*report.soak)});
  if (const std::string lines = drain_lines(report); !lines.empty())
    document.parts.push_back(
        {Drawn{[text = "to drain them under Slurm:\n" + lines](size_t) { return text; }},
         Shown::always, true});
  document.parts.push_back({std::move(not_run), Shown::always, true});
  return document;
}

std::string suites_text(int hosts, const CheckOptions& options) {
  const CheckLevel level = options.level;
  std::string text =
      format("{}, {}:\n", kCheckLevels[size_t(level)], counted(size_t(hosts), "host"));
  double all = 0;
  for (const Suite& suite : suites()) {
    const bool runs = why_not_run(suite, hosts, options).empty();
    const bool named = options.only.empty() || options.only.contains(suite.name);
    if (!runs && (!named || options.skip.contains(suite.name))) continue;
    const double cost = suite.cost_s(hosts, options);
    all += runs ? cost : 0;
    text += format("  {:<10} {:>7}  {}\n  {:<10} {:>7}  needs {}{}\n", suite.name,
                   runs ? format("{:.0f} s", cost) : "-", suite.summary, "", "", suite.needs,
                   suite.least_hosts > 1 ? format(", {} hosts", suite.least_hosts) : "");
  }
  return text + format("about {:.0f} s\n", all);
}

std::string nagios_line(const CheckReport& report, const Verdict& verdict) {
  constexpr const char* kWords[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
  std::string text = format("COLLCTL {}: ", kWords[size_t(nagios_code(verdict.exit_code()))]);
  if (!report.culprits.empty()) {
    std::map<SubjectKind, std::vector<std::string>> names;
    for (const Culprit& culprit : report.culprits) names[culprit.kind].push_back(culprit.name);
    std::string all;
    for (const auto& [kind, some] : names)
      all += format("{}{}{} {}", all.empty() ? "" : ", ", subject_word(kind),
                    some.size() > 1 ? "s" : "", folded_hosts(some));
    text += "at fault: " + all;
    if (report.culprits.size() == 1 && report.culprits[0].kind == SubjectKind::host)
      text += ": " + short_cause(report.culprits[0]);
  } else if (!verdict.reasons().empty()) {
    text += verdict.reasons().front().message;
  } else {
    text += format("{} of {} fit", counted(report.hosts.size() - report.out.size(), "host"),
                   report.hosts.size());
  }
  // A bar begins what a plugin's reader takes for numbers.
  std::replace(text.begin(), text.end(), '|', '/');
  return text + format(" | seconds={:.1f} hosts={} bad={}\n", report.seconds, report.hosts.size(),
                       report.out.size());
}

int nagios_code(int exit_code) {
  switch (exit_code) {
    case 0:
      return 0;
    case int(ErrorCode::incomplete):
      return 1;
    case int(ErrorCode::usage):
    case int(ErrorCode::unavailable):
    case int(ErrorCode::launch):
    case int(ErrorCode::defect):
      return 3;
    default:
      return 2;
  }
}

}  // namespace collctl::cmd
