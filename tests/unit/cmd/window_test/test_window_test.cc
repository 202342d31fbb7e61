// window-test's parts: patterns against a plain comparison, findings merged, judged, carried as
// JSON and shown; and the whole test with ranks as threads.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include "cmd/text/heat_map.h"
#include "cmd/window_test/window_test.h"
#include "tests/unit/cmd/json_page.h"
#include "tests/unit/cmd/measure/bench_ranks.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace window_test_window_test_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

struct Outcome {
  std::vector<WindowReport> reports;  // that rank 0 gave
  std::vector<std::string> errors;
};

// `on_gpus`: rank r drives GPU r of the fake driver.
Outcome run_window_test(int size, const std::string& transport, bool on_gpus = false,
                        double budget_s = kWindowTestSeconds) {
  Outcome outcome;
  WindowTestSpec spec;
  spec.iterations = 4;
  spec.transport = transport;
  spec.budget_s = budget_s;
  if (on_gpus) spec.launcher = &runtime::testing::host_launcher();
  std::vector<RecordSink> sinks{size_t(size)};
  std::vector<TaskSpec> tasks;
  for (int rank = 0; rank < size; ++rank) {
    spec.device = on_gpus ? rank : -1;
    tasks.push_back({.task = &kWindowTestTask, .settings = spec, .options = json_of(spec)});
  }
  for (const Error& error : run_task_ranks(tasks, sinks)) outcome.errors.push_back(error.chain());
  for (int rank = 1; rank < size; ++rank) CHECK(sinks[size_t(rank)].records.empty());
  if (sinks[0].records.empty()) return outcome;
  const auto header = read_header(sinks[0].records[0]);
  REQUIRE(header);
  for (size_t i = 1; i < sinks[0].records.size(); ++i) {
    auto report = record_of<WindowReport>(sinks[0].records[i]);
    REQUIRE(report);
    // After every stage what was found so far.
    CHECK(report->checks.size() == outcome.reports.size() + 1);
    outcome.reports.push_back(std::move(*report));
    outcome.reports.back().header = *header;
  }
  return outcome;
}

WindowFindings with_failure(ErrorCode code, int accused, const std::string& text) {
  WindowFindings found;
  found.looked(5);
  found.fail(code, accused, text);
  return found;
}

WindowReport small_report() {
  WindowReport report;
  report.header.version = "1.2.3";
  report.header.ranks = 2;
  report.header.device_reason = "--device cpu";
  report.header.hosts.push_back(
      {.host = {HostId{0}, "a"}, .ranks = {0, 1}, .devices = {}, .pids = {}});
  report.checks.push_back({.name = "aliasing", .measured = "8", .unit = "comparisons"});
  report.pairs.push_back({.from = 0,
                          .to = 1,
                          .path = "window",
                          .put_us = 0.5,
                          .get_us = 0.25,
                          .put_GBps = 8,
                          .get_GBps = 4});
  report.pairs.push_back({.from = 1,
                          .to = 0,
                          .path = "window",
                          .put_us = 1,
                          .get_us = 2,
                          .put_GBps = 16,
                          .get_GBps = 3});
  report.ratios.push_back({.op = "allreduce", .bytes = 1024, .ordinary_us = 6, .window_us = 2});
  return report;
}

}  // namespace

TEST_CASE("patterns differ by owner, writer, round and place", "[window-test]") {
  // 64 bytes are alike by chance once in 2^512: equal ones are one pattern.
  std::set<std::vector<uint8_t>> seen;
  size_t made = 0;
  for (int owner = 0; owner < 4; ++owner)
    for (int writer = 0; writer < 4; ++writer)
      for (uint64_t round = 0; round < 4; ++round)
        for (const uint64_t offset : {0u, 1u, 8u, 4096u, 65535u}) {
          std::vector<uint8_t> bytes(64);
          fill_pattern(bytes, {owner, writer, round}, offset);
          seen.insert(bytes);
          ++made;
        }
  CHECK(seen.size() == made);
}

TEST_CASE("a pattern is the same however it is cut", "[window-test]") {
  const PatternKey key{3, 1, 9};
  std::vector<uint8_t> whole(1000);
  fill_pattern(whole, key, 5);
  for (const size_t cut : {1u, 2u, 7u, 8u, 9u, 500u, 999u}) {
    std::vector<uint8_t> parts(1000);
    fill_pattern(std::span(parts).first(cut), key, 5);
    fill_pattern(std::span(parts).subspan(cut), key, 5 + cut);
    CHECK(parts == whole);
  }
  for (size_t i = 0; i < whole.size(); ++i) REQUIRE(pattern_byte(key, 5 + i) == whole[i]);
}

TEST_CASE("a wrong byte is found, counted and explained", "[window-test]") {
  const PatternKey key{0, 1, 5};
  std::vector<uint8_t> bytes(300);
  fill_pattern(bytes, key, 100);
  CHECK_FALSE(compare_pattern(bytes, key, 100, 3));
  for (const size_t at : {0u, 1u, 8u, 150u, 299u}) {
    auto wrong = bytes;
    wrong[at] ^= 0x10;
    const auto fault = compare_pattern(wrong, key, 100, 3);
    REQUIRE(fault);
    CHECK(fault->offset == 100 + at);
    CHECK(fault->bad_bytes == 1);
    CHECK(fault->expected == bytes[at]);
    CHECK(fault->found == wrong[at]);
  }
  const auto whose = [&](const PatternKey& other) {
    std::vector<uint8_t> foreign(300);
    fill_pattern(foreign, other, 100);
    const auto fault = compare_pattern(foreign, key, 100, 3);
    REQUIRE(fault);
    return text_of(*fault);
  };
  CHECK(whose({0, 1, 4}).find("what rank 1 wrote 1 round before") != std::string::npos);
  CHECK(whose({0, 1, 3}).find("what rank 1 wrote 2 rounds before") != std::string::npos);
  CHECK(whose({0, 2, 5}).find("what rank 2 wrote") != std::string::npos);
  CHECK(whose({2, 1, 5}).find("meant for rank 2") != std::string::npos);
  CHECK(whose({2, 2, 5}).find("in the window of rank 2") != std::string::npos);
  std::vector<uint8_t> nothing(300, 0);
  CHECK(text_of(*compare_pattern(nothing, key, 100, 3)).find("nothing was written") !=
        std::string::npos);
}

TEST_CASE("findings travel whole, and nothing else does", "[window-test]") {
  WindowFindings found = with_failure(ErrorCode::bad_data, 2, "text");
  found.does_not_apply("why");
  const auto back = decoded<WindowFindings>(encoded(found));
  REQUIRE(back);
  CHECK(back->looks() == 5);
  CHECK(back->failed() == 1);
  CHECK(back->failures()[0].code == ErrorCode::bad_data);
  CHECK(back->failures()[0].accused == 2);
  CHECK(back->failures()[0].text == "text");
  CHECK(back->why_not_tested() == "why");
  CHECK_FALSE(back->applies());
  const Bytes all = encoded(found);
  for (size_t cut = 0; cut < all.size(); ++cut)
    CHECK_FALSE(decoded<WindowFindings>(Bytes(all.begin(), all.begin() + int64_t(cut))));
  Bytes longer = all;
  longer.push_back(0);
  CHECK_FALSE(decoded<WindowFindings>(longer));
  found.does_not_apply(std::string(5000, 'x'));  // cut, and not garbage
  CHECK(decoded<WindowFindings>(encoded(found)));
}

TEST_CASE("a check is as bad as its worst rank", "[window-test]") {
  std::vector<Culprit> culprits;
  WindowFindings good;
  good.looked(3);
  std::vector<WindowFindings> ranks{good, good};
  Finding check = merged_check("x", ranks, culprits);
  CHECK(check.status == FindingStatus::pass);
  CHECK(check.measured == "6");
  CHECK(check.code == ErrorCode{});
  ranks[1] = with_failure(ErrorCode::failed, -1, "small");
  check = merged_check("x", ranks, culprits);
  CHECK(check.code == ErrorCode::failed);
  CHECK(check.message == "rank 1: small");
  CHECK(culprits.empty());
  ranks[0] = with_failure(ErrorCode::bad_data, 1, "large");
  check = merged_check("x", ranks, culprits);
  CHECK(check.code == ErrorCode::bad_data);
  REQUIRE(culprits.size() == 1);
  CHECK(culprits[0].name == "rank 1 -> rank 0");
  // An untested finding weighs less than a failed one; one that does not apply weighs nothing.
  WindowFindings not_tested, foreign;
  not_tested.not_tested("no memory");
  foreign.does_not_apply("one rank");
  check = merged_check("x", std::vector{foreign, foreign}, culprits);
  CHECK(check.status == FindingStatus::not_tested);
  CHECK(check.code == ErrorCode{});
  check = merged_check("x", std::vector{foreign, not_tested}, culprits);
  CHECK(check.code == ErrorCode::incomplete);
  CHECK(check.message == "rank 1: no memory");
  check = merged_check("x", std::vector{ranks[0], not_tested}, culprits);
  CHECK(check.code == ErrorCode::bad_data);
}

TEST_CASE("more failures than are told are counted", "[window-test]") {
  WindowFindings found;
  for (int i = 0; i < 10; ++i) found.fail(ErrorCode::failed, -1, "f" + std::to_string(i));
  std::vector<Culprit> culprits;
  const Finding check = merged_check("x", std::vector{found}, culprits);
  CHECK(check.message == "rank 0: f0; rank 0: f1; rank 0: f2; rank 0: f3; and 6 more");
}

TEST_CASE("the verdict: wrong data, then failures, then what was not tested", "[window-test]") {
  WindowReport report = small_report();
  CHECK(judge(report, {}, {}).ok());
  report.checks.push_back({.name = "y", .status = FindingStatus::not_tested});
  CHECK(judge(report, {}, {}).ok());  // it does not apply
  report.checks.back().code = ErrorCode::incomplete;
  CHECK(judge(report, {}, {}).code() == ErrorCode::incomplete);
  report.checks.push_back({.name = "z", .status = FindingStatus::fail, .code = ErrorCode::failed});
  CHECK(judge(report, {}, {}).code() == ErrorCode::failed);
  report.checks.push_back(
      {.name = "w", .status = FindingStatus::fail, .code = ErrorCode::bad_data});
  CHECK(judge(report, {}, {}).code() == ErrorCode::bad_data);
  CHECK(judge(report, {}, {}).reasons().size() == 3);
  HostEnd missing;
  missing.host = {HostId{1}, "node02"};
  missing.error = Error(ErrorCode::launch, "connection refused");
  const Verdict fewer = judge(small_report(), {missing}, {});
  CHECK(fewer.exit_code() == 8);
  REQUIRE(fewer.reasons().size() == 1);
  CHECK(fewer.reasons()[0].code == "host-left-out");
  CHECK(fewer.reasons()[0].host == "node02");
  const Verdict nothing = judge(WindowReport{}, {}, {});
  CHECK_FALSE(nothing.ok());
  CHECK(nothing.code() == ErrorCode::incomplete);
}

TEST_CASE("a report travels as JSON and is shown", "[window-test]") {
  WindowReport report = small_report();
  report.checks.push_back({.name = "y",
                           .status = FindingStatus::fail,
                           .code = ErrorCode::bad_data,
                           .measured = "1",
                           .unit = "comparisons",
                           .message = "rank 1: wrong"});
  report.culprits.push_back({SubjectKind::link, "rank 1 -> rank 0", 1, "y failed"});
  auto back = record_of<WindowReport>(json_of(report));
  REQUIRE(back);
  back->header = report.header;
  const Verdict verdict = judge(*back, {}, {});
  CHECK(verdict.code() == ErrorCode::bad_data);
  const auto json = nlohmann::json::parse(window_json(*back, verdict));
  CHECK(json["schema"] == "collctl.window-test/1");
  CHECK(json["hosts"][0]["host"] == "a");
  CHECK(json["checks"][0]["status"] == "pass");
  CHECK(json["checks"][0]["measured"] == 8);
  CHECK(json["checks"][1]["status"] == "fail");
  CHECK(json["checks"][1]["message"] == "rank 1: wrong");
  CHECK(json["pairs"][1]["put_GBps"] == 16);
  CHECK(json["collectives"][0]["ratio"] == 3);  // 6 us / 2 us
  CHECK(json["culprits"][0]["name"] == "rank 1 -> rank 0");
  CHECK(json["verdict"]["ok"] == false);
  CHECK(json["verdict"]["reasons"][0]["code"] == "wrong-data");
  // All of it as docs/json.md says, and all that it says.
  const PageKeys keys = documented("collctl.window-test/1");
  std::set<std::string> seen;
  CHECK(problems(json.dump(), keys, seen) == "");
  CHECK(seen.size() == keys.size());
  const auto text_of = [&](const WindowReport& of, TextStyle style) {
    return document_text(window_document(of, window_json(of, verdict)), style);
  };
  const auto drawing = [&](const WindowReport& of) {
    return window_document(of, window_json(of, verdict)).svg;
  };
  const std::string text = text_of(*back, {.whole = true});
  for (const char* words :
       {"aliasing", "pass  ", "FAIL", "rank 1: wrong", "allreduce",
        "at fault:\n  link rank 1 -> rank 0: y failed\n", "\nverdict: FAILED (bad-data)\n"})
    CHECK(text.find(words) != std::string::npos);
  INFO(text);
  // A pair that the job has not is in no matrix.
  WindowReport other = *back;
  other.pairs.push_back({.from = 1 << 20, .to = 1 << 20, .path = "window"});
  CHECK(text_of(other, {.whole = true}) == text);
  CHECK(drawing(other) == drawing(*back));
  // A matrix of many ranks stands in blocks.
  other.header.ranks = 40;
  const std::string narrow = text_of(other, {.width = 60, .whole = true});
  CHECK(narrow.find("\n\nfrom\\to") != std::string::npos);
  size_t widest = 0;
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  CHECK((widest > 30 && widest <= 60));
  // Without -v a line for each path instead of the matrix.
  CHECK(text.find("from\\to") != std::string::npos);
  const std::string brief = text_of(*back, {});
  CHECK(brief.find("from\\to") == std::string::npos);
  CHECK(brief.find("put of 8 bytes, us   window  0.500   1.000  1.000      2\n") !=
        std::string::npos);
  CHECK(brief.find("pairs of ranks were timed") == std::string::npos);
  back->pairs_left_out = 4;
  CHECK(text_of(*back, {}).find("\n2 of 6 pairs of ranks were timed\n") != std::string::npos);
  CHECK(drawing(*back).find(">1 a<") != std::string::npos);  // the row of rank 1, of host a
}

TEST_CASE("a job that broke off tells what was found before", "[window-test]") {
  WindowReport report = small_report();
  add_broken_stage(report, "", Error(ErrorCode::lost, "before any stage"));
  add_broken_stage(report, "aliasing", Error(ErrorCode::lost, "after that stage"));
  CHECK(report.checks.size() == 1);
  WindowReport stopped = report;
  const Error error = Error(ErrorCode::deadline, "rank 0 waits for rank 1").blame(1);
  add_broken_stage(report, "times", error);
  CHECK(judge(report, {}, {}).code() == ErrorCode::deadline);
  CHECK(judge(report, {}, {}).reasons()[0].message ==
        "times: the job broke off: rank 0 waits for rank 1");
  const auto json = nlohmann::json::parse(window_json(report, judge(report, {}, error)));
  CHECK(json["schema"] == "collctl.error/1");
  CHECK(json["code"] == 6);
  CHECK(json["rank"] == 1);
  CHECK(json["measured"]["schema"] == "collctl.window-test/1");
  CHECK(json["measured"]["checks"][0]["status"] == "pass");
  CHECK(json["measured"]["checks"][1]["name"] == "times");
  CHECK(json["measured"]["checks"][1]["status"] == "fail");
  CHECK(json["measured"].count("verdict") == 0);
  // An end by a signal finds nothing wrong with it.
  add_broken_stage(stopped, "times", Error(ErrorCode::interrupted, "ended by SIGINT"));
  CHECK(stopped.checks[1].status == FindingStatus::not_tested);
  CHECK(judge(stopped, {}, {}).code() == ErrorCode::incomplete);
}

TEST_CASE("garbage is no report", "[window-test]") {
  for (const char* text :
       {"", "{}", "[]", "{\"checks\":1}",
        R"({"checks":[],"pairs":[{"from":-1}],"pairs_left_out":0,"collectives":[],"culprits":[]})",
        R"({"checks":[{"name":"x","host":null,"peer":null,"device":null,"status":"good",)"
        R"("measured":null,"expected":null,"unit":null,"odd":false,"message":null,"remedy":null,)"
        R"("kind":"job"}],)"
        R"("pairs":[],"pairs_left_out":0,"collectives":[],"culprits":[]})"})
    CHECK_FALSE(record_of<WindowReport>(text));
}

TEST_CASE("heat map: every cell, the bad ones are dark", "[window-test]") {
  HeatMap map{.title = "rate <GB/s>",
              .rows_are = "from",
              .columns_are = "to",
              .rows = {"0", "1", "2"},
              .columns = {"0", "1", "2"},
              .cells = std::vector<HeatCell>(9)};
  const auto put = [&](size_t at, double value, const char* tip, const char* kind) {
    map.cells[at] = {.value = value, .tip = tip, .word = {}, .kind = kind};
  };
  put(1, 1000, "usual", "window");
  put(2, 1000, "usual too", "window");
  put(3, 970, "noise", "window");
  put(5, 10, "bad & slow", "window");
  put(6, 4000, "fast", "window");
  put(7, 5, "network", "NET/Socket");  // slower, as that path is
  const auto shade = [](const std::string& svg, const std::string& tip) {
    pugi::xml_document document;
    REQUIRE(document.load_string(svg.c_str()));
    std::string found;
    int rects = 0;
    for (const pugi::xml_node rect : document.child("svg").children("rect")) {
      ++rects;
      if (tip == rect.child("title").text().get()) found = rect.attribute("class").value();
    }
    CHECK(rects >= 4);
    return found;
  };
  std::string svg = heat_map_svg("title", {map});
  CHECK(shade(svg, "bad & slow") == "heat7");
  for (const char* light : {"usual", "usual too", "noise", "fast", "network"})
    CHECK(shade(svg, light) == "heat0");
  map.less_is_better = true;
  svg = heat_map_svg("title", {map});
  CHECK(shade(svg, "bad & slow") == "heat0");
  CHECK(shade(svg, "usual") == "heat0");
  CHECK(shade(svg, "fast") == "heat7");
  // Nothing measured, and many ranks, are pictures as well.
  map.cells.assign(9, HeatCell{});
  CHECK(shade(heat_map_svg("none", {map}), "no such tip").empty());
  map.rows.assign(100, "9");
  map.columns.assign(100, "9");
  map.cells.assign(10000, HeatCell{.value = 3, .tip = "t", .word = {}});
  CHECK(shade(heat_map_svg("many", {map}), "t") != "");
}

TEST_CASE("the whole test among ranks of one host", "[window-test]") {
  for (const int ranks : {1, 2, 3}) {
    INFO(ranks << " ranks");
    const Outcome outcome = run_window_test(ranks, "");
    for (const auto& error : outcome.errors) FAIL_CHECK(error);
    REQUIRE(outcome.reports.size() == 12);
    const WindowReport& report = outcome.reports.back();
    for (const Finding& check : report.checks)
      if (check.code != ErrorCode{} || check.status == FindingStatus::fail)
        FAIL_CHECK(check.name << ": " << check.message);
    CHECK(report.checks.size() == 12);
    CHECK(report.pairs.size() == size_t(ranks) * size_t(ranks - 1));
    for (const WindowPair& pair : report.pairs) {
      CHECK(pair.path == "window");
      CHECK(pair.put_us > 0);
      CHECK(pair.get_GBps > 0);
    }
    // Aliasing: every rank looks at every window, and every owner at every writer's stripe.
    CHECK(report.checks[0].measured == std::to_string(2 * ranks * ranks));
  }
}

TEST_CASE("what does not begin within the budget is not tested", "[window-test]") {
  const Outcome outcome = run_window_test(3, "", false, 1e-6);
  for (const auto& error : outcome.errors) FAIL_CHECK(error);
  REQUIRE(outcome.reports.size() == 12);
  const WindowReport& report = outcome.reports.back();
  CHECK(report.checks[0].status == FindingStatus::pass);
  for (size_t i = 1; i < report.checks.size(); ++i) {
    CHECK(report.checks[i].status == FindingStatus::not_tested);
    CHECK(report.checks[i].message ==
          "rank 0: it did not begin within the budget of 1e-06 s (--budget)");
  }
  CHECK(judge(report, {}, {}).code() == ErrorCode::incomplete);
}

TEST_CASE("the whole test where every rank is out of the others' reach", "[window-test]") {
  const Outcome outcome = run_window_test(3, "net");
  for (const auto& error : outcome.errors) FAIL_CHECK(error);
  REQUIRE(outcome.reports.size() == 12);
  const WindowReport& report = outcome.reports.back();
  // No collective can work from window to window there: that is reported, and is no pass.
  for (const Finding& check : report.checks)
    CHECK(check.status ==
          (check.name == "collectives" ? FindingStatus::not_tested : FindingStatus::pass));
  CHECK(judge(report, {}, {}).code() == ErrorCode::incomplete);
  REQUIRE(report.pairs.size() == 6);
  for (const WindowPair& pair : report.pairs) CHECK(pair.path == "NET/Socket");
}

// Windows are GPU memory, puts are copies by the GPU; signals go over sockets.
TEST_CASE("the whole test among GPU ranks", "[window-test][gpu]") {
  runtime::testing::set_up_gpus(2);
  {
    const Outcome outcome = run_window_test(2, "", true);
    for (const auto& error : outcome.errors) FAIL_CHECK(error);
    REQUIRE(outcome.reports.size() == 12);
    const WindowReport& report = outcome.reports.back();
    CHECK(report.header.device == "cuda");
    for (const Finding& check : report.checks)
      if (check.code != ErrorCode{} || check.status == FindingStatus::fail)
        FAIL_CHECK(check.name << ": " << check.message);
    for (const WindowPair& pair : report.pairs) CHECK(pair.path == "window");
  }
  INFO(fake_cuda::counts().text());
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

}  // namespace window_test_window_test_tests
