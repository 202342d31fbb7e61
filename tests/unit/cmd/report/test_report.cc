// Reports as values: the verdict, and the forms they are written in.
#include "cmd/report/read.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_report_tests {

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;
using namespace collctl::cmd::testing;

TEST_CASE("figures have four digits at every magnitude", "[cmd]") {
  CHECK(four_digits(0.7124) == "0.712");
  CHECK(four_digits(9.9994) == "9.999");
  CHECK(four_digits(9.9996) == "10.00");
  CHECK(four_digits(99.996) == "100.0");
  CHECK(four_digits(999.96) == "1000");
  CHECK(four_digits(2000000) == "2000000");
  CHECK(four_digits(0) == "0.000");
  CHECK(four_digits(0.00026) == "0.0003");
  CHECK(four_digits(0.09996) == "0.100");
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1024) == "1 KiB");
  CHECK(human_bytes(3u << 19) == "1.5 MiB");
  CHECK(option_bytes(3u << 20) == "3M");
  CHECK(option_bytes(1000) == "1000");
  CHECK(option_bytes(0) == "0");
  CHECK(rank_ranges({3, 0, 1, 2, 7, 9, 8}) == "0-3,7-9");
  CHECK(rank_ranges({}) == "");
}

TEST_CASE("every line of the table is as wide as its titles", "[cmd]") {
  for (const bool each : {false, true})
    for (const InPlace placement : {InPlace::out_of_place, InPlace::in_place, InPlace::both}) {
      BenchSpec spec;
      spec.max_bytes = 1u << 30;
      spec.sync_each = each;
      spec.in_place = placement;
      spec.types = {kernels::DataType::float8e4m3};
      const TextTable table(spec, 1000);
      std::istringstream titles(table.titles());
      std::string group, title, unit;
      std::getline(titles, group);
      std::getline(titles, title);
      std::getline(titles, unit);
      CHECK(group[0] == '#');
      CHECK(title[0] == '#');
      CHECK(unit[0] == '#');
      BenchRow small = row(8, 0.7, 0.001), large = row(1u << 30, 2e6, 1234.5);
      small.type = large.type = kernels::DataType::float8e4m3;
      small.root = large.root = 999;
      small.algorithm = "tree-split";
      large.protocol = "ll128";
      large.in_place.measured = false;
      for (const BenchRow& r : {small, large}) {
        const std::string line = table.row(r);
        CHECK(line.size() == title.size() + 1);
        // The last column ends where its title ends, the others keep their gaps.
        CHECK(line[title.find("time") + 3] != ' ');
      }
    }
}

TEST_CASE("a narrow table leaves out first what is the same in every row", "[cmd]") {
  BenchSpec spec;
  const auto width = [](const TextTable& table) {
    std::istringstream lines(table.titles());
    std::string group, title;
    std::getline(lines, group);
    std::getline(lines, title);
    return int(title.size());
  };
  const TextTable wide(spec, 4);
  CHECK(wide.left_out() == "");
  CHECK(TextTable(spec, 4, width(wide)).left_out() == "");
  CHECK(TextTable(spec, 4, width(wide) - 1).left_out() == "type float32");
  CHECK(TextTable(spec, 4, 105).left_out() == "type float32, redop sum, root -1, algbw, channels");
  const BenchRow large = row(16u << 20, 2e6, 1234.5);
  for (const bool each : {false, true})
    for (int most = 60; most < 150; ++most) {
      spec.sync_each = each;
      const TextTable table(spec, 4, most);
      CHECK(table.row(large).size() <= size_t(std::max(most, 76)) + 1);
      CHECK(table.row(large).find("1234") != std::string::npos);
    }
  // Values that differ between rows stay as long as others can go.
  spec = {};
  spec.types = {kernels::DataType::float32, kernels::DataType::int8};
  spec.collective = kernels::Collective::broadcast;
  spec.roots = {2};
  CHECK(TextTable(spec, 4, 115).left_out() == "redop none, root 2, algbw, channels");
  spec.roots = {-1};  // all in turn
  CHECK(TextTable(spec, 4, 115).left_out() == "redop none, algbw, channels, count");
}

TEST_CASE("a row's expected time is a column, a line of the footer, and in JSON", "[cmd]") {
  BenchRow large = row(16u << 20, 2000, 4);
  large.expected = {1500, 5.3, "memory bandwidth", "model"};
  const TextTable table(BenchSpec(), 4);
  std::istringstream titles(table.titles());
  std::string group, title;
  std::getline(titles, group);
  std::getline(titles, title);
  const size_t end = title.find("of exp.") + 7;
  const std::string line = table.row(large);
  CHECK(line.substr(end - 7, 7) == "     75");  // of the one out of place
  large.out_of_place.measured = false;          // of the one in place: 2200 us
  CHECK(table.row(large).substr(end - 7, 7) == "     68");
  large.expected->source = "assumed";
  CHECK(table.row(large).substr(end - 7, 7) == "      -");
  large.expected.reset();
  CHECK(table.row(large).substr(end - 7, 7) == "      -");
  CHECK(TextTable(BenchSpec(), 1).titles().find("of exp.") == std::string::npos);

  BenchReport report = report_of({row(16u << 20, 2000, 4)});
  report.rows[0].expected = {1500, 5.3, "memory bandwidth", "bound"};
  const Verdict passed = judge(report, {}, {});
  const Console plain(-1, -1);
  CHECK(
      text_footer(report, passed, plain)
          .find("# Expected             : the bound of the paths, no model knows this machine; at "
                "16 MiB limited by memory bandwidth\n") != std::string::npos);
  const std::string text = bench_json(report, passed);
  const json expected = json::parse(text)["results"][0]["expected"];
  CHECK(expected["time_us"] == 1500);
  CHECK(expected["busbw_GBps"] == 5.3);
  CHECK(expected["efficiency"] == 0.75);
  CHECK(expected["limited_by"] == "memory bandwidth");
  CHECK(expected["source"] == "bound");
  const auto saved = read_report(text);
  REQUIRE(saved.ok());
  REQUIRE(saved->report.rows[0].expected);
  CHECK(saved->report.rows[0].expected->time_us == 1500);
  CHECK(saved->report.rows[0].expected->limited_by == "memory bandwidth");

  // An assumption is shown, and nothing is held against it.
  report.rows[0].expected = {1500, 5.3, "eth0", "assumed", "the speed of eth0 of node03"};
  CHECK(
      text_footer(report, passed, plain)
          .find(
              "# Expected             : nothing, as the speed of eth0 of node03 is not known\n") !=
      std::string::npos);
  const std::string assumed = bench_json(report, passed);
  const json said = json::parse(assumed)["results"][0]["expected"];
  CHECK(said["source"] == "assumed");
  CHECK(said["unknown"] == "the speed of eth0 of node03");
  CHECK_FALSE(said.contains("efficiency"));
  CHECK_FALSE(said.contains("efficiency_in_place"));
  const auto again = read_report(assumed);
  REQUIRE(again.ok());
  CHECK(again->report.rows[0].standard() == nullptr);
  CHECK(again->report.rows[0].expected->unknown == "the speed of eth0 of node03");
}

TEST_CASE("ranks stand by how little they waited, equal ones by their numbers", "[cmd]") {
  BenchReport report = report_of({row(1024, 10, 1)});
  report.closing.emplace();
  for (const auto& [rank, waited] : {std::pair(0, 50), {1, 70}, {2, 50}, {3, 20}})
    report.closing->waits.push_back({.rank = rank,
                                     .host = {HostId{0}, "a"},
                                     .elapsed_us = 100,
                                     .waited_us = double(waited),
                                     .away_us = 0,
                                     .peers = {}});
  const std::string text = text_footer(report, judge(report, {}, {}), Console(-1, -1));
  std::vector<size_t> at;
  for (const char* name : {"rank 3 ", "rank 0 ", "rank 2 ", "rank 1 "})
    at.push_back(text.find(name, text.find("Late")));
  INFO(text);
  CHECK(at.back() != std::string::npos);
  CHECK(std::is_sorted(at.begin(), at.end()));
}

TEST_CASE("the verdict: wrong data before thresholds before what is missing", "[cmd]") {
  Limits none;
  BenchReport report = report_of({row(8, 5, 0.01), row(1u << 30, 1000, 4)});
  CHECK(judge(report, none, {}).ok());

  Limits limits;
  limits.min_busbw = limit(3.5);
  CHECK(judge(report, limits, {}).ok());
  limits.min_busbw = limit(3.7);  // in place has 3.6
  const Verdict slow = judge(report, limits, {});
  CHECK_FALSE(slow.ok());
  CHECK(slow.code() == ErrorCode::failed);
  REQUIRE(slow.reasons().size() == 1);
  CHECK(slow.reasons()[0].code == "below-min-busbw");
  CHECK(slow.reasons()[0].message ==
        "allreduce 1 GiB float32 sum ring/simple in place: bus bandwidth 3.600 GB/s, below "
        "the minimum of 3.700");
  limits.min_busbw = limit(0.005, 8);
  CHECK(judge(report, limits, {}).ok());
  limits.max_latency = limit(5.2);  // at the smallest size; in place has 5.5
  CHECK(judge(report, limits, {}).reasons().size() == 1);
  CHECK(judge(report, limits, {}).exit_code() == 1);

  limits.min_busbw = limit(1, 1024);  // nothing was measured there
  limits.max_latency.reset();
  CHECK(judge(report, limits, {}).code() == ErrorCode::incomplete);

  report.rows[0].in_place.wrong = 3;
  limits.min_busbw = limit(100);
  const Verdict wrong = judge(report, limits, {});
  CHECK(wrong.code() == ErrorCode::bad_data);
  CHECK(wrong.reasons()[0].message.find("3 wrong elements") != std::string::npos);
  CHECK(wrong.exit_code() == 7);

  DataFault fault;
  fault.rank = 2;
  fault.message = "rank 2: element 5 lacks rank 1's part";
  report.faults.push_back(fault);
  const Verdict explained = judge(report, none, {});
  REQUIRE(explained.reasons().size() == 1);
  CHECK(explained.reasons()[0].rank == 2);
  CHECK(explained.reasons()[0].message == fault.message);

  CHECK(judge(report_of({}), none, {}).code() == ErrorCode::incomplete);
}

TEST_CASE("the verdict: a threshold that was missed counts more than one without a timing",
          "[cmd]") {
  Limits limits;
  limits.min_busbw = limit(1, 1024);  // nothing was measured there
  limits.max_latency = limit(4);
  const Verdict verdict = judge(report_of({row(8, 5, 0.01)}), limits, {});
  REQUIRE(verdict.reasons().size() == 3);
  CHECK(verdict.reasons()[0].code == "not-measured");
  CHECK(verdict.reasons()[1].code == "above-max-latency");
  CHECK(verdict.code() == ErrorCode::failed);
}

// The judge and the reader of a saved report share the table of reasons.
TEST_CASE("every reason leads to the same exit code at once and in the saved report", "[cmd]") {
  const auto saved = [](const char* word, ErrorCode code) {
    Finding finding{.name = "check"};
    finding.fail(code, "why");
    finding.reason = word;
    const Verdict verdict(std::vector{finding}, {});
    CHECK(verdict.code() == code);
    const auto back = read_report(bench_json(report_of({row(8, 5, 0.01)}), verdict));
    REQUIRE(back);
    REQUIRE(back->verdict.reasons().size() == 1);
    CHECK(back->verdict.reasons()[0].code == word);
    CHECK(back->verdict.reasons()[0].message == "why");
    return back->verdict.code();
  };
  for (const ReasonRow& reason : kReasons) {
    INFO(reason.word);
    CHECK(saved(reason.word, reason.code) == reason.code);
  }
  for (const ErrorCode code : {ErrorCode::launch, ErrorCode::lost, ErrorCode::deadline})
    CHECK(saved(base::code_name(code), code) == code);
  // One of a later version's.
  CHECK(saved("later", ErrorCode::incomplete) == ErrorCode::failed);
}

TEST_CASE("JSON is valid and has the fields of the contract", "[cmd]") {
  BenchReport report = report_of({row(8, 5, 0.01)});
  report.header->hosts[0].host.name = "we\"ird\n\xff";
  report.rows[0].in_place.wrong = -1;
  const json whole = json::parse(bench_json(report, judge(report, {}, {})));
  CHECK(whole["schema"] == "collctl.bench/1");
  CHECK(whole["op"] == "allreduce");
  CHECK(whole["ranks"] == 4);
  CHECK(whole["device"] == "cpu");
  CHECK(whole["hosts"][0]["host"] == "we\"ird\n\xef\xbf\xbd");
  CHECK(whole["hosts"][0]["ranks"] == json::array({0, 1, 2, 3}));
  CHECK(whole["links"][1]["via"] == "SHM");
  const json& result = whole["results"][0];
  CHECK(result["bytes"] == 8);
  CHECK(result["dtype"] == "float32");
  CHECK(result["redop"] == "sum");
  CHECK(result["root"] == -1);
  CHECK(result["algorithm"] == "ring");
  CHECK(result["channels"] == 2);
  CHECK(result["out_of_place"]["time_us"] == 5);
  CHECK(result["out_of_place"]["wrong"] == 0);
  CHECK(result["out_of_place"].count("p50_us") == 0);
  CHECK(result["in_place"]["wrong"].is_null());
  CHECK(whole["verdict"]["ok"] == true);
  CHECK(whole["verdict"]["reasons"].empty());

  report.spec.sync_each = true;
  CHECK(json::parse(bench_json(report, judge(report, {}, {})))["results"][0]["in_place"].count(
            "p99_us") == 1);

  Error error(ErrorCode::lost, "rank 2 was killed by signal 9", "look at its log");
  error.within("run").rank = 2;
  const json failed = json::parse(error_json(error, 5, report));
  CHECK(failed["schema"] == "collctl.error/1");
  CHECK(failed["code"] == 5);
  CHECK(failed["message"] == error.message);
  CHECK(failed["context"] == json::array({"run"}));
  CHECK(failed["hint"] == "look at its log");
  CHECK(failed["rank"] == 2);
  CHECK(failed["measured"]["results"].size() == 1);
}

TEST_CASE("JSON strings survive any bytes", "[cmd]") {
  for (int first = 0; first < 256; ++first)
    for (const std::string& rest : {std::string(), std::string("\x80"), std::string("\xbf\x80"),
                                    std::string("\x80\x80\x80"), std::string("\"\\")}) {
      JsonWriter writer;
      writer.begin_array().value(std::string(1, char(first)) + rest).end_array();
      const std::string text = writer.take();
      CHECK(json::accept(text));
    }
  JsonWriter numbers;
  numbers.begin_array().value(0.1).value(2e6).value(1.0 / 0.0).value(8e-7).value(~0ull).end_array();
  CHECK(numbers.take() == "[0.1,2000000.0,null,8e-07,18446744073709551615]");
}

TEST_CASE("JSON Lines and CSV have a record per row", "[cmd]") {
  const BenchReport report = report_of({row(8, 5, 0.01), row(16, 5, 0.02)});
  OutputOptions output;
  output.format = Format::jsonl;
  std::istringstream lines(capture(output, {}, two_rows).out);
  std::vector<std::string> records;
  for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line)["record"]);
  CHECK(records == std::vector<std::string>{"header", "result", "result", "verdict"});

  std::istringstream csv(bench_csv(report));
  std::string titles, first;
  std::getline(csv, titles);
  std::getline(csv, first);
  CHECK(std::count(titles.begin(), titles.end(), ',') ==
        std::count(first.begin(), first.end(), ','));
  CHECK(first ==
        "allreduce,4,8,2,float32,sum,-1,ring,simple,2,5,0.00666667,0.01,0,5.5,0.006,"
        "0.009,0");
}

}  // namespace report_report_tests
