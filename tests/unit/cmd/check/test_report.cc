// A check's report of what its suites found: tables, JSON, the line for monitoring.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/text/sizes.h"
#include "tests/catch.h"
#include "topology/xml/xml.h"

namespace check_report_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

CheckReport three_hosts() {
  CheckReport report;
  for (const char* name : {"node01", "node02", "node03"})
    report.hosts.push_back(base::saved_host(name));
  for (const Suite& suite : suites()) report.suites.push_back({&suite, SuiteEnd::done, 1, ""});
  return report;
}

Finding of_host(const char* name, const char* host) {
  Finding finding{.name = name};
  finding.at.kind = SubjectKind::host;
  finding.at.host = base::saved_host(host);
  return finding;
}

std::string text_of(const CheckReport& report, const Verdict& verdict, size_t width) {
  return document_text(check_document(report, check_json(report, verdict)), {.width = width});
}

}  // namespace

TEST_CASE("the machine that most hosts have is kept, and drawn again from what was kept",
          "[check]") {
  CheckReport report = three_hosts();
  CHECK(more_pictures(report)->empty());
  topology::System system;
  system.cpus.emplace_back();
  report.machine = topology::write_xml(system);
  const Verdict verdict(report.findings, std::nullopt);
  const auto judged = read_judgement(check_json(report, verdict));
  REQUIRE(judged.ok());
  auto kept = read_check(*judged);
  REQUIRE(kept.ok());
  CHECK(kept->machine == report.machine);
  const auto picture = more_pictures(*kept);
  REQUIRE(picture.ok());
  CHECK(picture->find("<svg") != std::string::npos);
  CHECK(condensed(report).machine.empty());
  kept->machine = "<system><cpu";
  CHECK(more_pictures(*kept).error().code == ErrorCode::usage);
}

TEST_CASE("GPUs are shown: the host with the slowest pair, and one without pairs", "[check]") {
  const auto host = [](const char* name, int gpus, double GBps) {
    GpuReport one{.host = base::saved_host(name), .gpus = {}, .pairs = {}, .legs = {}};
    for (int g = 0; g < gpus; ++g) {
      one.gpus.push_back({.device = format("0000:{}0:00.0", g + 1), .model = "H200"});
      one.legs.push_back({.gpu = g, .to_GBps = 54.5, .from_GBps = 53, .both_GBps = 90});
      for (int to = 0; to < gpus; ++to)
        if (to != g) {
          GpuPair& pair = one.pairs.emplace_back();
          pair.from = g;
          pair.to = to;
          pair.figures = {GBps};
        }
    }
    return one;
  };
  CheckReport report = three_hosts();
  const Verdict verdict(report.findings, std::nullopt);
  report.gpus = {host("node01", 1, 0)};
  const std::string lone = text_of(report, verdict, 100);
  CHECK(lone.find("pairs of GPUs: none on node01: one GPU") != std::string::npos);
  CHECK(lone.find("54.50") != std::string::npos);
  report.gpus.push_back(host("node02", 2, 300));
  report.gpus.push_back(host("node03", 2, 150));
  const std::string text = text_of(report, verdict, 100);
  CHECK(text.find("between the GPUs of node03, which has the slowest pair of 3 hosts") !=
        std::string::npos);
  CHECK(text.find("150.0") != std::string::npos);
  CHECK(text.find("300.0") == std::string::npos);
  const auto judged = read_judgement(check_json(report, verdict));
  REQUIRE(judged.ok());
  const auto kept = read_check(*judged);
  REQUIRE(kept.ok());
  CHECK(kept->gpus.size() == 3);
  CHECK(text_of(*kept, verdict, 100) == text);
  CHECK(more_pictures(*kept)->find("Between GPUs") != std::string::npos);
  CHECK(condensed(report).gpus.empty());
}

TEST_CASE("a check with nothing to say passes", "[check]") {
  const CheckReport report = three_hosts();
  const Verdict verdict(report.findings, std::nullopt);
  CHECK(verdict.exit_code() == 0);
  const std::string text = text_of(report, verdict, 80);
  CHECK(text.find("FAIL") == std::string::npos);
  CHECK(text.find("verdict: passed\n") != std::string::npos);
  CHECK(nagios_line(report, verdict).rfind("COLLCTL OK: 3 hosts of 3 fit | ", 0) == 0);
}

TEST_CASE("a host that failed is left out of what follows, and named with its remedy", "[check]") {
  CheckReport report = three_hosts();
  report.findings.push_back(
      of_host("node/allreduce", "node02")
          .fail(ErrorCode::bad_data, "node02: 3 wrong elements", "replace it"));
  report.out[base::saved_host("node02")] = "node";
  report.culprits.push_back(
      {SubjectKind::host, "node02", 1, "1 of 1 runs wrong", false, base::saved_host("node02")});
  const Verdict verdict(report.findings, std::nullopt);
  CHECK(verdict.exit_code() == 7);
  const std::string text = text_of(report, verdict, 200);
  const size_t row = text.find("node02 ");
  REQUIRE(row != std::string::npos);
  const std::string line = text.substr(row, text.find('\n', row) - row);
  CHECK(line.find("FAIL") != std::string::npos);
  CHECK(line.find("left out") != std::string::npos);
  CHECK(text.find("at fault:\n  host node02: 1 of 1 runs wrong") != std::string::npos);
  CHECK(text.find("-> replace it") != std::string::npos);
  CHECK(text.find("verdict: FAILED") != std::string::npos);
  const auto json = nlohmann::json::parse(check_json(report, verdict));
  CHECK(json["schema"] == "collctl.check/1");
  CHECK(json["hosts"][1]["failed"] == "node");
  CHECK(json["hosts"][0]["failed"].is_null());
  CHECK(json["culprits"][0]["name"] == "node02");
  CHECK(json["verdict"]["ok"] == false);
  CHECK(nagios_line(report, verdict)
            .starts_with("COLLCTL CRITICAL: at fault: host node02: 1 of 1 runs wrong | "));
}

TEST_CASE("a suite that was measured more than once says why, and a saved report as well",
          "[check]") {
  CheckReport report = three_hosts();
  for (SuiteResult& result : report.suites)
    if (std::string_view(result.suite->name) == "pairs") {
      result.times = 3;
      result.again = "node02: others took 2 cores";
    }
  const Verdict verdict(report.findings, std::nullopt);
  report.findings.push_back(Finding{.name = "pairs/busy"}.leave_out("slow, which says little"));
  const auto row = [&] { return text_of(report, {report.findings, std::nullopt}, 200); };
  CHECK(row().find("partly") == std::string::npos);
  report.findings.back().reason = kBusyHost;
  CHECK(row().find("partly") != std::string::npos);
  const std::string said = "\npairs was measured 3 times, as node02: others took 2 cores\n";
  CHECK(text_of(report, verdict, 200).find(said) != std::string::npos);
  const auto judged = read_judgement(check_json(report, verdict));
  REQUIRE(judged.ok());
  const auto back = read_check(*judged);
  REQUIRE(back.ok());
  CHECK(text_of(*back, verdict, 200) == text_of(report, verdict, 200));
}

TEST_CASE("what was not tested is code 8, and a warning to monitoring", "[check]") {
  CheckReport report = three_hosts();
  report.findings.push_back(Finding{.name = "cluster"}.leave_out("cluster was not run: no time"));
  report.suites.back().end = SuiteEnd::no_time;
  const Verdict verdict(report.findings, std::nullopt);
  CHECK(verdict.exit_code() == 8);
  CHECK(text_of(report, verdict, 80).find("cluster was not run: no time") != std::string::npos);
  CHECK(text_of(report, verdict, 80).find("verdict: passed\n") == std::string::npos);
  CHECK(nagios_code(8) == 1);
  CHECK(nagios_code(0) == 0);
  for (const int code : {1, 5, 6, 7, 130}) CHECK(nagios_code(code) == 2);
  for (const int code : {2, 3, 4, 70}) CHECK(nagios_code(code) == 3);
}

TEST_CASE("the list of suites: what cannot run with so few hosts costs nothing", "[check]") {
  const std::string one = suites_text(1, {.level = CheckLevel::quick});
  CHECK(one.find("pairs            -") != std::string::npos);
  CHECK(suites_text(16, {.level = CheckLevel::quick}).find("pairs            -") ==
        std::string::npos);
  for (const Suite& suite : suites()) CHECK(one.find(suite.summary) != std::string::npos);
}

TEST_CASE("a line for Slurm: each bad host once, quoted, and never more than one node", "[check]") {
  CheckReport report = three_hosts();
  const auto culprit = [&](SubjectKind kind, const std::string& name) {
    const bool on_a_host = kind != SubjectKind::link;
    report.culprits.push_back(
        {kind, name, 1, "it's bad; rm -rf /", false,
         on_a_host ? base::saved_host(name.substr(0, name.find(' '))) : Host()});
  };
  culprit(SubjectKind::host, "node02");
  culprit(SubjectKind::nic, "node02 eth0");
  culprit(SubjectKind::link, "node01 - node03");
  for (const char* name : {"node[01-99]", "a,b", "$(reboot)", "-x", ""})
    culprit(SubjectKind::host, name);
  CHECK(drain_lines(report) ==
        "scontrol update nodename=node02 state=drain reason='collctl check: it'\\''s bad; rm -rf "
        "/'\n");
}

TEST_CASE("a cause in short has no host's name, ends with a word and is 60 characters long",
          "[check]") {
  const Host host = base::saved_host("node02");
  const auto of = [&](SubjectKind kind, const std::string& evidence) {
    return short_cause({kind, "node02", 1, evidence, false, host});
  };
  CHECK(of(SubjectKind::host, "node02: its memory is slow") == "its memory is slow");
  CHECK(of(SubjectKind::nic, "node02: a\nb") == "nic node02: a?b");
  const std::string cut =
      of(SubjectKind::host, "GPUs cannot be used here: libcuda.so.1: cannot open shared object");
  CHECK(cut == "GPUs cannot be used here: libcuda.so.1: cannot open...");
  CHECK(of(SubjectKind::host, std::string(200, 'x')).size() == 60);
}

TEST_CASE("a check says what its verdict rests on", "[check]") {
  CheckReport report = three_hosts();
  report.findings.clear();
  const auto fact = [&](size_t host, const char* name, const char* value) {
    report.findings.push_back({.name = name,
                               .at = {.kind = SubjectKind::host, .host = report.hosts[host]},
                               .measured = value});
  };
  for (const size_t host : {0, 1, 2}) fact(host, "doctor/cores", host == 1 ? "64" : "128");
  fact(0, "node/memory", "20.5");
  fact(1, "node/memory", "10.5");
  fact(2, "node/memory", "21.5");
  const auto list = evidence_of(report);
  REQUIRE(list.size() == 3);
  CHECK(list[0].what == "node01, node03");
  CHECK(list[0].found == "128 cores");
  CHECK(list[1].found == "64 cores");
  CHECK(list[1].against == "each other");
  CHECK(list[2].found.starts_with("median 20.50"));
  CHECK(list[2].found.ends_with("of 3, worst 10.50 (node02)"));
  report.findings.clear();
  CHECK(evidence_of(report).empty());
}

TEST_CASE("a check's evidence has the state of devices and the worst pair of GPUs", "[check]") {
  CheckReport report = three_hosts();
  for (const char* host : {"node01", "node02"}) {
    Finding& read = report.findings.emplace_back(of_host("doctor/state", host));
    read.n = read.of = 120;
  }
  report.findings.push_back(of_host("doctor/state", "node03").leave_out("node03: was not read"));
  const auto state = [&] {
    const EvidenceList list = evidence_of(report);
    const auto at = std::ranges::find(list, "state of devices", &Evidence::what);
    return at == list.end() ? "" : at->found;
  };
  CHECK(state() == "240 facts of 2 hosts read, none bad");
  report.findings.push_back(of_host("counters/state/governor", "node01"));
  report.findings.back().status = FindingStatus::warn;
  CHECK(state() == "240 facts of 2 hosts read, none bad, 1 to know");
  report.findings.push_back(
      of_host("doctor/state/pcie_width", "node02").fail(ErrorCode::failed, "x4"));
  CHECK(state() == "240 facts of 2 hosts read, 1 bad, 1 to know");
  report.soak.emplace();  // whose findings count rounds
  CHECK(state().empty());
  report.findings = {{.name = "gpus/read",
                      .at = {.kind = SubjectKind::link,
                             .host = report.hosts[0],
                             .device = "0000:10:00.0",
                             .peer = report.hosts[0],
                             .peer_device = "0000:20:00.0"},
                      .measured = "370",
                      .expected = "335",
                      .unit = "GB/s",
                      .basis = "Azure, 2026-05"}};
  const auto list = evidence_of(report);
  REQUIRE(list.size() == 1);
  CHECK(list[0].what == "slowest reads between GPUs");
  CHECK(list[0].found == "370.0 GB/s (node01 0000:10:00.0 -> node01 0000:20:00.0)");
  CHECK(list[0].against == "at least 335 GB/s, Azure, 2026-05");
}

TEST_CASE("a check as JSON and back", "[check]") {
  CheckReport report = three_hosts();
  report.findings.push_back(
      of_host("node/allreduce", "node02").fail(ErrorCode::bad_data, "3 wrong", "replace it"));
  report.out[base::saved_host("node02")] = "node";
  report.paths.ends = {{base::saved_host("node01"), "e"}, {base::saved_host("node02"), "e"}};
  report.paths.GBps = {{-1, 1.5}, {0, -1}};
  report.suites.back() = {&suites().back(), SuiteEnd::no_time, 0, "no time"};
  const Verdict verdict(report.findings, std::nullopt);
  const auto judged = read_judgement(check_json(report, verdict));
  REQUIRE(judged);
  const auto back = read_check(*judged);
  INFO((back ? "" : back.error().chain()));
  REQUIRE(back);
  CHECK(check_json(*back, judged->verdict) == check_json(report, verdict));
  CHECK(text_of(*back, judged->verdict, 100) == text_of(report, verdict, 100));
  Document document = check_document(report, check_json(report, verdict));
  document.more_svg = "<svg>machine</svg>";
  CHECK(document.hosts.size() == 3);
  CHECK(document_as(Format::html, document).find("<svg>machine</svg>") != std::string::npos);
}

TEST_CASE("rounds of a soak as one report", "[check]") {
  SoakTotal total(120);
  const auto round = [&](int number, int seconds, double GBps, bool fails) {
    CheckReport report = three_hosts();
    report.round = number;
    report.began = utc_date(1'800'000'000 + seconds);
    report.seconds = 5;
    for (const char* host : {"node01", "node02"}) {
      Finding finding = of_host("node/allreduce", host);
      finding.measured = format("{:g}", GBps);
      finding.unit = "GB/s";
      if (fails && std::string(host) == "node02") {
        finding.fail(ErrorCode::failed, "node02 is slow");
        report.culprits.push_back(
            {SubjectKind::host, "node02", 1, "slow", false, base::saved_host("node02")});
        report.out[base::saved_host("node02")] = "node";
      }
      report.findings.push_back(finding);
    }
    return report;
  };
  total.add(round(1, 0, 10, false));
  total.add(round(2, 4, 8, true));
  total.add(round(3, 30, 9, false));
  total.add(round(4, 36, 9, true));
  CheckReport broken = round(5, 40, 9, false);
  broken.suites.back().end = SuiteEnd::broke;
  broken.findings.push_back(Finding{.name = suites().back().name}.leave_out("ended by a signal"));
  total.add(broken);
  const CheckReport whole = total.report("ended by SIGINT");
  REQUIRE(whole.soak);
  CHECK(whole.soak->rounds == 5);
  CHECK(whole.soak->failed == 2);
  CHECK(whole.soak->seconds == 45);
  REQUIRE(whole.soak->intervals.size() == 3);  // of ten seconds: 0, 30, 40
  CHECK(whole.soak->intervals[0].rounds == 2);
  CHECK(whole.soak->intervals[0].lowest[0].measured == "8");
  CHECK(whole.soak->intervals[1].lowest[0].measured == "9");
  const Verdict verdict(whole.findings, std::nullopt);
  CHECK(verdict.exit_code() == 1);
  const std::string text = text_of(whole, verdict, 100);
  CHECK(text.find("in 2 of 5 rounds, first at 2027-01-15T08:00:04Z: node02 is slow") !=
        std::string::npos);
  CHECK(text.find("ended by SIGINT after 45 s of 2 min") != std::string::npos);
  // A test that the last round could not finish is not held against anybody.
  CHECK(text.find("ended by a signal") == std::string::npos);
  CHECK(whole.culprits[0].evidence == "in 2 of 5 rounds: slow");
  // Nothing failed until the signal: 8.
  SoakTotal quiet(120);
  quiet.add(round(1, 0, 10, false));
  CHECK(Verdict(quiet.report("ended by SIGTERM").findings, std::nullopt).exit_code() == 8);
  CHECK(Verdict(quiet.report("").findings, std::nullopt).exit_code() == 0);
  const auto judged = read_judgement(check_json(whole, verdict));
  REQUIRE(judged);
  REQUIRE(read_check(*judged));
  CHECK(check_json(*read_check(*judged), judged->verdict) == check_json(whole, verdict));
}

}  // namespace check_report_tests
