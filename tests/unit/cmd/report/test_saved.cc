// Documents read back and compared, and what else is made of them: lines, pages, JUnit, Prometheus.
#include <pugixml.hpp>

#include "base/format.h"
#include "cmd/judge/json.h"
#include "cmd/report/paths.h"
#include "cmd/saved.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_saved_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

const std::string kHostile = R"("><script>x</script>&'{bad="1"})";

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// A document with checks: what each host measured, and whether it failed.
struct CheckedHost {
  std::string name;
  double GBps = 10;
  bool fails = false;
};
std::string checked(const std::vector<CheckedHost>& hosts) {
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
  for (const CheckedHost& host : hosts) {
    Finding& finding = findings.emplace_back(Finding{.name = "node/allreduce"});
    finding.at = {.kind = SubjectKind::host, .host = base::saved_host(host.name)};
    finding.measured = format("{:.6g}", host.GBps);
    finding.unit = "GB/s";
    if (!host.fails) continue;
    finding.fail(ErrorCode::failed, host.name + " is slow", "look at it");
    culprits.push_back({SubjectKind::host, host.name, 1, "3 of 3", false});
  }
  JsonWriter json;
  json.begin_object().field("schema", "collctl.check/1").field("level", "quick");
  json.key("hosts").begin_array();
  for (const CheckedHost& host : hosts) json.begin_object().field("host", host.name).end_object();
  json.end_array().key("suites").begin_array();
  json.begin_object().field("name", "node").field("end", "done").field("seconds", 1).end_object();
  json.begin_object().field("name", "later").field("end", "done").field("seconds", 1).end_object();
  json.end_array().field("seconds", 2);
  write_checks(json, findings, culprits);
  return judged_json(json, Verdict(findings, std::nullopt));
}

Saved read(const std::string& text) {
  auto saved = read_saved(text);
  INFO((saved ? "" : saved.error().chain()));
  REQUIRE(saved);
  return std::move(*saved);
}

std::string text_of(const Document& document) {
  return document_text(document, {.width = 200});
}

Document of_json(const std::string& json, const std::string& rows) {
  return {.title = "t",
          .heading = {},
          .parts = {},
          .judged = judgement_of(json),
          .hosts = {},
          .summary = {},
          .json = json,
          .rows = rows,
          .svg = {}};
}

ComparedRun run_of(const std::string& name, const std::string& text) {
  Saved saved = read(text);
  return {name, saved.document.title, saved.document.judged, std::move(saved.bench)};
}

std::string bench(double factor) {
  const BenchReport report = report_of({row(8, 5 / factor, 0.01 * factor), row(16, 5, 0.02)});
  return bench_json(report, Verdict({}, std::nullopt));
}

}  // namespace

TEST_CASE("a saved check is shown again and ends as it did", "[report]") {
  const Saved saved = read(checked({{"node01"}, {"node02", 1, true}}));
  CHECK(saved.document.judged.exit_code == 1);
  CHECK(has(text_of(saved.document), "at fault:\n  host node02: 3 of 3"));
  CHECK(has(text_of(saved.document), "node02  FAIL"));
  // A suite of another version is no reason to refuse the file.
  CHECK_FALSE(has(text_of(saved.document), "later"));
  CHECK(read(checked({{"node01"}})).document.judged.exit_code == 0);
}

TEST_CASE("what cannot be read is an error that names it", "[report]") {
  for (const char* bad :
       {"", "[]", "{}", "{\"schema\":\"collctl.nosuch/1\"}", "{\"schema\":\"collctl.check/1\"}",
        "{\"schema\":\"collctl.rails/1\"}", "{\"schema\":\"collctl.check/1\",\"verdict\":1}",
        "{\"schema\":\"collctl.topo-hosts/1\",\"hosts\":1,\"groups\":[]}",
        "{\"record\":1}\n{\"record\":2}\n", "{\"round\":1}\n{\"a\":1}\n",
        "{\"schema\":\"collctl.doctor/1\"}\nno json\n{}\n"}) {
    INFO(bad);
    const auto saved = read_saved(bad);
    REQUIRE_FALSE(saved);
    CHECK(saved.error().code == ErrorCode::usage);
  }
}

TEST_CASE("the lines of a .jsonl are the document", "[report]") {
  const BenchReport report = report_of({row(8, 5, 0.01), row(16, 5, 0.02)});
  std::string lines = jsonl_header(report);
  for (const BenchRow& each : report.rows) lines += jsonl_row(report, each);
  const Saved whole = read(lines + jsonl_end(Verdict({}, std::nullopt)));
  CHECK(whole.document.judged.exit_code == 0);
  CHECK(text_of(whole.document) ==
        text_of(read(bench_json(report, Verdict({}, std::nullopt))).document));
  // Killed in the middle of a line: the rows before it, and not a pass.
  const Saved killed = read(lines + "{\"record\":\"resu");
  CHECK(killed.document.judged.exit_code == 8);
  const auto cut_short = document_of_lines(lines + "{\"record\":\"resu");
  REQUIRE(cut_short.ok());
  CHECK(json::parse(*cut_short)["verdict"]["ok"] == false);
  REQUIRE(killed.bench);
  CHECK(killed.bench->rows.size() == 2);
  const Saved failed = read(lines + jsonl_end({{}, Error(ErrorCode::lost, "rank 1 is gone")}));
  CHECK(failed.document.judged.exit_code == 5);
  const std::string check = checked({{"node01"}, {"node02", 1, true}});
  const Saved joined = read(document_as(Format::jsonl, of_json(check, "checks")));
  CHECK(joined.document.judged.exit_code == 1);
  CHECK(joined.document.judged.checks.size() == 2);
}

TEST_CASE("several runs as one", "[report]") {
  const Document merged = merge_runs({run_of("a", checked({{"node01"}, {"node02", 1, true}})),
                                      run_of("b", checked({{"node01", 8}, {"node02", 9}})),
                                      run_of("c", checked({{"node01", 12}, {"node02", 2, true}}))});
  CHECK(merged.judged.exit_code == 1);
  CHECK(has(text_of(merged), "in 2 of 3 runs: node02 is slow"));
  const auto all = json::parse(merged.json);
  REQUIRE(all["timings"].size() == 2);
  CHECK(all["timings"][0]["what"] == "node/allreduce node01");
  CHECK(all["timings"][0]["least"] == 8);
  CHECK(all["timings"][0]["median"] == 10);
  CHECK(all["timings"][0]["most"] == 12);
  CHECK(all["checks"][0]["n"] == 2);
  CHECK(merge_runs({run_of("a", bench(1)), run_of("b", bench(2))}).judged.exit_code == 0);
  // A run that broke off has no failed check, and is none that passed.
  const std::string broke = error_json(Error(ErrorCode::lost, "rank 1 is gone"), 5);
  CHECK_FALSE(read_saved(broke));
}

TEST_CASE("one run against another", "[report]") {
  const auto diff = [](const std::string& was, const std::string& is) {
    return diff_runs(run_of("was", was), run_of("is", is), 0.9);
  };
  CHECK(diff(bench(1), bench(1)).judged.exit_code == 0);
  CHECK(diff(bench(1), bench(2)).judged.exit_code == 0);  // faster
  const Document slower = diff(bench(2), bench(1));
  CHECK(slower.judged.exit_code == 1);
  CHECK(has(text_of(slower), "2 of 4 timings are slower"));
  const auto all = json::parse(slower.json);
  CHECK(all["timings"][0]["ratio"] == 0.5);
  CHECK(all["timings"][0]["slower"] == true);
  // Findings that came and went.
  const std::string good = checked({{"node01"}, {"node02"}}),
                    bad = checked({{"node01"}, {"node02", 10, true}});
  const Document came = diff(good, bad);
  CHECK(came.judged.exit_code == 1);
  CHECK(has(text_of(came), "failed:\n  node/allreduce: node02 is slow\n"));
  const Document went = diff(bad, good);
  CHECK(went.judged.exit_code == 0);
  CHECK(has(text_of(went), "no longer failing: node/allreduce node02"));
  // A figure that was measured in the first only is not tested.
  const Document one = diff(good, checked({{"node01"}}));
  CHECK(one.judged.exit_code == 8);
  CHECK(has(text_of(one), " was measured in the first only\n"));
  const Document two = diff(checked({{"node01"}, {"node02"}, {"node03"}}), checked({{"node01"}}));
  CHECK(has(text_of(two), " was measured in the first only, and 1 more\n"));
}

TEST_CASE("JUnit: a case for each check, whatever hosts are called", "[report]") {
  const std::string json = checked({{"node01"}, {kHostile, 1, true}});
  const Document document = of_json(json, "checks");
  pugi::xml_document xml;
  REQUIRE(xml.load_string(junit_of(document).c_str()));
  const pugi::xml_node all = xml.child("testsuites");
  CHECK(all.attribute("tests").as_int() == 2);
  CHECK(all.attribute("failures").as_int() == 1);
  const pugi::xml_node bad = all.child("testsuite").child("testcase").next_sibling();
  CHECK(std::string(bad.attribute("name").value()) == "allreduce " + kHostile);
  CHECK(std::string(bad.child("failure").attribute("message").value()) == kHostile + " is slow");
  // A run that broke off is a failure.
  const Document broke = of_json(error_json(Error(ErrorCode::lost, "rank 1 is gone"), 5), "");
  CHECK(has(junit_of(broke), "<failure message=\"rank 1 is gone\" type=\"lost\">"));
}

TEST_CASE("Prometheus: labels are quoted, no series stands there twice", "[report]") {
  const std::string json = checked({{"node01"}, {"node01"}, {kHostile, 1, true}});
  const std::string text = prometheus_of(of_json(json, "checks"));
  std::istringstream in(text);
  std::set<std::string> series;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    CHECK(series.insert(line.substr(0, line.rfind(' '))).second);
  }
  CHECK(has(text, "collctl_ok{report=\"check\"} 0\n"));
  CHECK(has(text, "collctl_host_ok{report=\"check\",host=\"node01\"} 1\n"));
  CHECK(
      has(text, R"(collctl_host_ok{report="check",host="\"><script>x</script>&'{bad=\"1\"}"} 0)"));
  CHECK(has(text, "status=\"pass\"} 2\n"));
}

TEST_CASE("a page: nothing that a host says is markup in it", "[report]") {
  const Saved saved = read(checked({{"node01"}, {kHostile, 1, true}}));
  const std::string page = document_as(Format::html, saved.document);
  CHECK_FALSE(has(page, "<script"));
  CHECK(has(page, "&lt;script&gt;x&lt;/script&gt;&amp;&#39;{bad=&quot;1&quot;}"));
  CHECK(has(page, "<h2>At fault</h2>"));
  // The host that fails stands first among the hosts.
  const size_t hosts = page.find("<h2>Hosts</h2>");
  CHECK(page.find("<td class=\"bad\">FAIL</td>", hosts) < page.find("<td>node01</td>", hosts));
}

TEST_CASE("what was expected is a dashed line", "[report]") {
  const std::string measured = bench(1);
  CHECK_FALSE(has(read(measured).document.svg, "path class=\"expected\""));
  auto all = json::parse(measured);
  for (auto& result : all["results"])
    result["expected"] = {
        {"time_us", 10}, {"busbw_GBps", 0.5}, {"limited_by", "memory"}, {"source", "model"}};
  const std::string svg = read(all.dump()).document.svg;
  CHECK(has(svg, "path class=\"expected\""));
  CHECK(has(svg, "expected bus bandwidth"));
  for (auto& result : all["results"]) result["expected"]["source"] = "assumed";
  CHECK_FALSE(has(read(all.dump()).document.svg, "path class=\"expected\""));
}

TEST_CASE("paths as a heat map: of too many ends the worst", "[report]") {
  PathMatrix paths;
  const size_t many = kMostEnds + 40;
  for (size_t i = 0; i < many; ++i)
    paths.ends.push_back({base::saved_host(format("node{:03}", i)), "eth0"});
  paths.GBps.assign(many, std::vector<double>(many, 10));
  for (size_t i = 0; i < many; ++i) paths.GBps[i][i] = kNotTried;
  paths.GBps[150][7] = 0;
  for (size_t i = 0; i < many; ++i)
    if (i != 190) paths.GBps[190][i] = paths.GBps[i][190] = 1;
  const std::string svg = paths_svg("t", paths);
  CHECK(has(svg, format("the worst {} of {} ends", kMostEnds, many)));
  CHECK(has(svg, "node150 eth0 to node007 eth0: nothing passes"));
  CHECK(has(svg, "class=\"heat7\""));
  // Its name is there, though most are left out.
  CHECK(has(svg, ">node190 eth0<"));
  CHECK(paths_svg("t", {}) == "");
  // Later measurements do not replace the first.
  const PathEnd a{{HostId{0}, "a"}, "e"}, b{{HostId{1}, "b"}, "e"}, c{{HostId{2}, "c"}, "e"};
  PathMatrix first{{a, b}, {{-1, 2}, {-1, -1}}};
  add_paths(first, {{b, a, c}, {{-1, 3, 4}, {9, -1, 5}, {6, 7, -1}}});
  CHECK(first.ends.size() == 3);
  CHECK(first.GBps[0][1] == 2);
  CHECK(first.GBps[1][0] == 3);
  CHECK(first.GBps[2][0] == 7);
}

}  // namespace report_saved_tests
