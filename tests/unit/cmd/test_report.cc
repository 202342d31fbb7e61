#include "cmd/report.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cmd/json_writer.h"
#include "cmd/sizes.h"
#include "tests/catch.h"

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "collctl-report-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator{}));
  }

 private:
  fs::path path_;
};

std::string content(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Timing timing(double time_us, double busbw, int64_t wrong = 0) {
  Timing t;
  t.measured = true;
  t.time_us = time_us;
  t.algbw_GBps = busbw / 1.5;
  t.busbw_GBps = busbw;
  t.wrong = wrong;
  t.slowest_rank = 1;
  return t;
}

BenchRow row(uint64_t bytes, double time_us, double busbw) {
  BenchRow r;
  r.bytes = bytes;
  r.count = bytes / 4;
  r.type = kernels::DataType::float32;
  r.algorithm = "ring";
  r.protocol = "simple";
  r.channels = 2;
  r.out_of_place = timing(time_us, busbw);
  r.in_place = timing(time_us * 1.1, busbw * 0.9);
  return r;
}

BenchHeader header_of(int ranks) {
  BenchHeader header;
  header.version = "0.1.0";
  header.collective = kernels::Collective::all_reduce;
  header.ranks = ranks;
  HostLine host;
  host.host = "elsewhere";
  for (int rank = 0; rank < ranks; ++rank) host.ranks.push_back(rank);
  header.hosts.push_back(host);
  header.links = {{0, 0, 1, "SHM"}, {0, 1, 0, "SHM"}};
  header.init_seconds = 0.25;
  return header;
}

BenchReport report_of(std::vector<BenchRow> rows) {
  BenchReport report;
  report.spec.min_bytes = 8;
  report.spec.max_bytes = 1u << 30;
  report.header = header_of(4);
  report.rows = std::move(rows);
  return report;
}

Limit limit(double value, std::optional<uint64_t> at = {}) {
  return {value, at};
}

// Runs a reporter over the rows with standard output and error in files.
struct Captured {
  int code;
  std::string out, err;
};
template <class Feed>
Captured capture(const OutputOptions& output, const JobOutcome& outcome, Feed feed,
                 const char* out_path = nullptr) {
  Folder folder;
  const std::string out = out_path != nullptr ? out_path : folder.file("out");
  const std::string err = folder.file("err");
  const Fd out_fd(::open(out.c_str(), O_CREAT | O_WRONLY, 0600));
  const Fd err_fd(::open(err.c_str(), O_CREAT | O_WRONLY, 0600));
  REQUIRE(out_fd);
  Console console(out_fd.get(), err_fd.get());
  BenchSpec spec;
  spec.max_bytes = 16;
  Reporter reporter(console, output, spec, true);
  feed(reporter);
  const int code = reporter.finish(outcome);
  if (out_path != nullptr) {
    CHECK_FALSE(console.out_status().ok());
    return {code, "", content(err)};
  }
  return {code, content(out), content(err)};
}

void two_rows(Reporter& reporter) {
  reporter.header(header_of(4));
  reporter.row(row(8, 5, 0.01));
  reporter.row(row(16, 5, 0.02));
}

}  // namespace

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

TEST_CASE("the verdict: wrong data before thresholds before what is missing", "[cmd]") {
  OutputOptions none;
  BenchReport report = report_of({row(8, 5, 0.01), row(1u << 30, 1000, 4)});
  CHECK(judge(report, none).ok);

  OutputOptions limits;
  limits.min_busbw = limit(3.5);
  CHECK(judge(report, limits).ok);
  limits.min_busbw = limit(3.7);  // in place has 3.6
  Verdict verdict = judge(report, limits);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.code == ErrorCode::failed);
  REQUIRE(verdict.reasons.size() == 1);
  CHECK(verdict.reasons[0].code == "below-min-busbw");
  CHECK(verdict.reasons[0].message ==
        "allreduce 1 GiB float32 sum ring/simple in place: bus bandwidth 3.600 GB/s, at least "
        "3.700 asked");
  limits.min_busbw = limit(0.005, 8);
  CHECK(judge(report, limits).ok);
  limits.max_latency = limit(5.2);  // at the smallest size; in place has 5.5
  CHECK(judge(report, limits).reasons.size() == 1);
  CHECK(final_code(0, judge(report, limits)) == 1);

  limits.min_busbw = limit(1, 1024);  // nothing was measured there
  limits.max_latency.reset();
  CHECK(judge(report, limits).code == ErrorCode::incomplete);

  report.rows[0].in_place.wrong = 3;
  limits.min_busbw = limit(100);
  verdict = judge(report, limits);
  CHECK(verdict.code == ErrorCode::bad_data);
  CHECK(verdict.reasons[0].message.find("3 wrong elements") != std::string::npos);
  CHECK(final_code(0, verdict) == 7);

  DataFault fault;
  fault.rank = 2;
  fault.message = "rank 2: element 5 lacks rank 1's part";
  report.faults.push_back(fault);
  verdict = judge(report, none);
  REQUIRE(verdict.reasons.size() == 1);
  CHECK(verdict.reasons[0].rank == 2);
  CHECK(verdict.reasons[0].message == fault.message);

  CHECK(judge(report_of({}), none).code == ErrorCode::incomplete);
}

TEST_CASE("the worst of job and verdict is the exit code", "[cmd]") {
  Verdict ok, wrong, slow, missing;
  wrong.ok = slow.ok = missing.ok = false;
  wrong.code = ErrorCode::bad_data;
  slow.code = ErrorCode::failed;
  missing.code = ErrorCode::incomplete;
  CHECK(final_code(0, ok) == 0);
  CHECK(final_code(0, missing) == 8);
  CHECK(final_code(5, ok) == 5);
  CHECK(final_code(5, wrong) == 7);
  CHECK(final_code(6, slow) == 6);
  CHECK(final_code(6, missing) == 6);
  CHECK(final_code(70, wrong) == 70);
  CHECK(final_code(130, wrong) == 130);
}

TEST_CASE("JSON is valid and has the fields of the contract", "[cmd]") {
  BenchReport report = report_of({row(8, 5, 0.01)});
  report.header->hosts[0].host = "we\"ird\n\xff";
  report.rows[0].in_place.wrong = -1;
  const json whole = json::parse(bench_json(report, judge(report, {})));
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
  CHECK(json::parse(bench_json(report, {}))["results"][0]["in_place"].count("p99_us") == 1);

  Error error(ErrorCode::lost, "rank 2 was killed by signal 9", "look at its log");
  error.within("run").rank = 2;
  const json failed = json::parse(error_json(error, 5, &report));
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
  std::istringstream lines(bench_jsonl(report, judge(report, {}), nullptr));
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

TEST_CASE("a run that ended well prints table, average and verdict", "[cmd]") {
  const Captured run = capture({}, {}, two_rows);
  CHECK(run.code == 0);
  CHECK(run.err == "");
  CHECK(run.out.find("# collctl 0.1.0: allreduce, 4 CPU ranks, ready in 0.250 s\n") == 0);
  CHECK(run.out.find("# host elsewhere: ranks 0-3\n# links: 2 via SHM\n") != std::string::npos);
  CHECK(run.out.find("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.01425 GB/s\n") !=
        std::string::npos);
  CHECK(run.out.find("# Verdict              : passed\n") != std::string::npos);
}

TEST_CASE("quiet leaves rows and verdict", "[cmd]") {
  OutputOptions quiet;
  quiet.quiet = true;
  const Captured run = capture(quiet, {}, two_rows);
  CHECK(run.out.find("# collctl") == std::string::npos);
  CHECK(run.out.find("float32") != std::string::npos);
}

TEST_CASE("a run that broke off says so in every form", "[cmd]") {
  JobOutcome lost;
  lost.exit_code = 5;
  lost.error = Error(ErrorCode::lost, "rank 3 was killed by signal 9", "look at the kernel's log");
  const Captured text = capture({}, lost, two_rows);
  CHECK(text.code == 5);
  CHECK(text.out.find("# Verdict              : FAILED, the run broke off\n") != std::string::npos);
  CHECK(text.err ==
        "collctl: error: rank 3 was killed by signal 9\n"
        "collctl: hint: look at the kernel's log\n");

  Folder folder;
  OutputOptions output;
  output.format = Format::json;
  output.files = {{folder.file("a.json"), Format::json},
                  {folder.file("a.jsonl"), Format::jsonl},
                  {folder.file("a.csv"), Format::csv}};
  const Captured structured = capture(output, lost, two_rows);
  CHECK(structured.code == 5);
  const json error = json::parse(structured.out);
  CHECK(error["schema"] == "collctl.error/1");
  CHECK(error["measured"]["results"].size() == 2);
  CHECK(content(folder.file("a.json")) == structured.out);
  CHECK(content(folder.file("a.jsonl")).find("\"record\":\"error\"") != std::string::npos);
  CHECK_FALSE(fs::exists(folder.file("a.csv")));
  CHECK(structured.err.find("a.csv is not written") != std::string::npos);

  // Nothing was measured: the error alone, and no verdict on what never ran.
  const Captured early = capture({}, lost, [](Reporter&) {});
  CHECK(early.out == "");
  CHECK(early.code == 5);
}

TEST_CASE("files appear whole or not at all", "[cmd]") {
  Folder folder;
  OutputOptions output;
  output.files = {{folder.file("a.json"), Format::json}, {folder.file("a.csv"), Format::csv}};
  CHECK(capture(output, {}, two_rows).code == 0);
  CHECK(json::parse(content(folder.file("a.json")))["results"].size() == 2);
  CHECK(folder.entries() == 2);

  OutputOptions bad;
  bad.files = {{folder.file("none/a.json"), Format::json}};
  const Captured run = capture(bad, {}, two_rows);
  CHECK(run.code == 3);
  CHECK(run.err.find("cannot write " + folder.file("none/a.json")) != std::string::npos);

  CHECK(check_writable(folder.file("new.json")).ok());
  CHECK(check_writable("/dev/null").ok());
  CHECK_FALSE(check_writable(folder.file("none/a.json")).ok());
  CHECK_FALSE(check_writable(folder.file(".")).ok());
  const Status full = write_file_atomically("/dev/full", "x");
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().chain() == "cannot write /dev/full: No space left on device");
  CHECK(fs::exists("/dev/full"));
}

TEST_CASE("standard output that takes nothing is noticed", "[cmd]") {
  capture({}, {}, two_rows, "/dev/full");
}

TEST_CASE("several ranks may report their phases at once", "[cmd]") {
  const Captured run = capture({}, {}, [](Reporter& reporter) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.emplace_back([&reporter, rank] {
        for (int i = 0; i < 100; ++i) {
          reporter.phase(rank, "bootstrap");
          reporter.progress("8 B, 3 of 20");
        }
      });
    for (auto& rank : ranks) rank.join();
    two_rows(reporter);
  });
  CHECK(run.code == 0);
  CHECK(run.err == "");
}

TEST_CASE("the plot puts the highest value at the top", "[cmd]") {
  const std::string text = plot({row(8, 5, 1), row(16, 5, 2), row(32, 5, 4)});
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  std::getline(lines, line);
  CHECK(line.find("4.000 |") != std::string::npos);
  CHECK(line.find('a') > line.find('|'));
  CHECK(plot({}) == "");
}
