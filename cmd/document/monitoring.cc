// Findings as JUnit XML, for CI, and as a textfile for Prometheus' node_exporter.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/markup.h"
#include "cmd/document/document.h"
#include "cmd/document/judgement.h"

namespace collctl::cmd {
namespace {

// Text and attributes of XML. Control characters are no XML at all.
std::string xml(const std::string& text) {
  return base::escaped_markup(text, [](char c) -> std::string {
    if (c == '\n') return "&#10;";
    return std::string(1, (uint8_t(c) < ' ' && c != '\t') || c == 0x7f ? '?' : c);
  });
}

// "node/allreduce" is the check allreduce of the suite node; a check without a suite is its own.
std::string suite_of(const Finding& finding) {
  return finding.name.substr(0, finding.name.find('/'));
}

std::string case_name(const Finding& finding) {
  const size_t slash = finding.name.find('/');
  std::string name = slash == std::string::npos ? finding.name : finding.name.substr(slash + 1);
  const Subject& at = finding.at;
  for (const std::string* part : {&at.host.name, &at.device})
    if (!part->empty()) name += " " + *part;
  if (at.rank >= 0) name += format(" rank {}", at.rank);
  if (at.peer.named()) name += " -> " + at.peer.name + (at.peer_device.empty() ? "" : " ");
  return name + at.peer_device;
}

struct Counts {
  size_t tests = 0, failures = 0, skipped = 0;
  void add(FindingStatus status) {
    ++tests;
    failures += status == FindingStatus::fail;
    skipped += status == FindingStatus::not_tested;
  }
  std::string attributes() const {
    return format("tests=\"{}\" failures=\"{}\" skipped=\"{}\"", tests, failures, skipped);
  }
};

std::string case_xml(const Finding& finding) {
  std::string text = format("    <testcase classname=\"{}\" name=\"{}\"", xml(suite_of(finding)),
                            xml(case_name(finding)));
  const std::string remedy = finding.remedy.empty() ? "" : "remedy: " + finding.remedy;
  switch (finding.status) {
    case FindingStatus::fail:
      return text +
             format(
                 ">\n      <failure message=\"{}\" type=\"{}\">{}</failure>\n"
                 "    </testcase>\n",
                 xml(finding.message),
                 xml(finding.reason.empty() ? base::code_name(finding.code) : finding.reason),
                 xml(remedy));
    case FindingStatus::not_tested:
      return text + format("><skipped message=\"{}\"/></testcase>\n", xml(finding.message));
    case FindingStatus::warn:
      return text + format("><system-out>warning: {} {}</system-out></testcase>\n",
                           xml(finding.message), xml(remedy));
    default:
      return text + "/>\n";
  }
}

// Findings of a run, then its verdict's if it has no checks, broke off, or failed without a failed
// check.
std::vector<Finding> cases_of(const Judgement& judged) {
  std::vector<Finding> cases = judged.checks;
  const auto fails = [](const Finding& f) { return f.status == FindingStatus::fail; };
  const bool told = std::ranges::any_of(cases, fails) && !judged.verdict.error();
  if (!cases.empty() && (judged.verdict.ok() || judged.verdict.incomplete() || told)) return cases;
  Finding all{.name = "verdict"};
  if (const auto& error = judged.verdict.error()) {
    all.fail(error->code, error->chain(), error->hint);
    all.at.host = error->where();
    cases.push_back(all);
  }
  for (const Reason& reason : judged.verdict.reasons()) {
    Finding& one = cases.emplace_back(Finding{.name = "verdict"});
    one.at.host = base::saved_host(reason.host);
    one.reason = reason.code;
    one.fail(code_of_reason(reason.code), reason.message);
  }
  if (cases.empty()) cases.push_back(all);
  return cases;
}

std::string label(const char* name, const std::string& value) {
  std::string safe;
  for (const char c : value)
    safe += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return format("{}=\"{}\"", name, safe);
}

// A metric by its labels: no series may stand there twice.
struct Metric {
  const char* name;
  const char* help;
  std::map<std::string, double> values = {};
  std::string text() const {
    if (values.empty()) return "";
    std::string lines = format("# HELP {0} {1}\n# TYPE {0} gauge\n", name, help);
    for (const auto& [labels, value] : values)
      lines += format("{}{{{}}} {:.15g}\n", name, labels, value);
    return lines;
  }
};

}  // namespace

std::string junit_of(const Document& document) {
  Counts all;
  std::vector<std::string> suites;
  std::map<std::string, Counts> counts;
  std::map<std::string, std::string> texts;
  for (const Finding& finding : cases_of(document.judged)) {
    const std::string suite = suite_of(finding);
    if (!texts.contains(suite)) suites.push_back(suite);
    all.add(finding.status);
    counts[suite].add(finding.status);
    texts[suite] += case_xml(finding);
  }
  std::string text =
      format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {}>\n",
             xml(document.title), all.attributes());
  for (const std::string& suite : suites)
    text += format("  <testsuite name=\"{}\" {} errors=\"0\">\n{}  </testsuite>\n", xml(suite),
                   counts[suite].attributes(), texts[suite]);
  return text + "</testsuites>\n";
}

std::string prometheus_of(const Document& document) {
  const Judgement& judged = document.judged;
  std::string report = judged.schema.substr(0, judged.schema.find('/'));
  report = label("report", report.substr(report.find('.') + 1));
  Metric ok{"collctl_ok", "Whether the last run passed."};
  Metric code{"collctl_exit_code", "Exit code of the last run: 0 passed, 8 not all was tested."};
  Metric host_ok{"collctl_host_ok", "Whether nothing failed on this host, links apart."};
  Metric checks{"collctl_checks", "Checks by host, name and status."};
  Metric measured{"collctl_measured", "What a check measured."};
  Metric culprits{"collctl_culprit", "Who is at fault, and how sure that is (0 to 1)."};
  ok.values[report] = judged.verdict.ok() && judged.exit_code == 0;
  code.values[report] = judged.exit_code;
  const auto host_label = [&](const std::string& host) {
    return report + "," + label("host", host);
  };
  for (const std::string& name : document.hosts) host_ok.values[host_label(name)] = 1;
  for (const Finding& finding : judged.checks) {
    const std::string host = host_label(finding.at.host.name);
    const std::string check = host + "," + label("check", finding.name);
    ++checks.values[check + "," + label("status", status_word(finding.status))];
    if (finding.at.host.named() && finding.at.kind != SubjectKind::link) {
      const double now = finding.status == FindingStatus::fail ? 0 : 1;
      const auto known = host_ok.values.emplace(host, now).first;
      known->second = std::min(known->second, now);
    }
    // A metric for each path would be too many.
    if (finding.measured.empty() || finding.unit.empty() || finding.at.peer.named()) continue;
    measured.values[check + "," + label("device", finding.at.device) + "," +
                    label("unit", finding.unit)] = finding.figure();
  }
  for (const Culprit& culprit : judged.culprits) {
    culprits.values[report + "," + label("kind", subject_word(culprit.kind)) + "," +
                    label("name", culprit.name)] = culprit.confidence;
    if (culprit.kind == SubjectKind::host) host_ok.values[host_label(culprit.host.name)] = 0;
  }
  std::string text;
  for (const Metric* metric : {&ok, &code, &host_ok, &checks, &measured, &culprits})
    text += metric->text();
  return text;
}

}  // namespace collctl::cmd
