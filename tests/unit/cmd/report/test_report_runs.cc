// A run's output and files, from its first row to its end.
#include "cmd/report/read.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_report_runs_tests {

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;
using namespace collctl::cmd::testing;

TEST_CASE("a run that ended well prints table, average and verdict", "[cmd]") {
  const Captured run = capture({}, {}, two_rows);
  CHECK(run.code == 0);
  CHECK(run.err == "");
  CHECK(run.out.find("# collctl 0.1.0: allreduce, 4 CPU ranks, ready in 0.250 s\n") == 0);
  CHECK(run.out.find("# host elsewhere: ranks 0-3\n# links: 2 via SHM\n") != std::string::npos);
  CHECK(run.out.find("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.0143 GB/s\n") !=
        std::string::npos);
  CHECK(run.out.find("# Verdict              : passed\n") != std::string::npos);
}

// Passed as far as it went: code 8 is no failure, neither at once nor in the saved report.
TEST_CASE("what was not tested makes a run incomplete", "[cmd]") {
  Folder folder;
  OutputOptions output;
  output.files = {{folder.file("a.json"), Format::json}};
  JobOutcome without;
  without.hosts.resize(1);
  without.hosts[0].host = {HostId{1}, "node02"};
  without.hosts[0].error = Error(ErrorCode::launch, "connection refused");
  const Captured run = capture(output, without, two_rows);
  CHECK(run.code == 8);
  CHECK(run.out.find("# Verdict              : passed, but not everything that was asked for was "
                     "tested\n#   node02 took no part: connection ") != std::string::npos);
  const auto saved = read_report(content(folder.file("a.json")));
  REQUIRE(saved);
  CHECK(saved->verdict.code() == ErrorCode::incomplete);
  OutputOptions limited;
  limited.limits.min_busbw = limit(1000);
  const Captured slow = capture(limited, without, two_rows);
  CHECK(slow.code == 1);
  CHECK(slow.out.find("# Verdict              : FAILED\n") != std::string::npos);
  // A report that cannot be written is worse than either.
  limited.files = {{folder.file("none/a.json"), Format::json}};
  CHECK(capture(limited, without, two_rows).code == 3);
}

TEST_CASE("the best of slow timings is a number", "[cmd]") {
  const Captured run = capture({}, {}, [](Reporter& reporter) {
    reporter.on(header_of(4));
    reporter.on(row(8, 5, 0.0000123));
  });
  CHECK(run.out.find("; the best was 1.23e-05 GB/s at 8 B)\n") != std::string::npos);
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
  const std::string rows = content(folder.file("a.csv"));
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 3);
  CHECK(structured.err.find("a.csv holds the 2 rows from before the failure") != std::string::npos);

  // Nothing was measured: the error alone, and no verdict on what never ran.
  const Captured early = capture({}, lost, [](Reporter&) {});
  CHECK(early.out == "");
  CHECK(early.code == 5);
}

// A row stays whatever ends the process after it.
TEST_CASE("lines of JSON are there as soon as they are known", "[cmd]") {
  Folder folder;
  OutputOptions output;
  output.files = {{folder.file("a.jsonl"), Format::jsonl}};
  const auto lines = [&] {
    const std::string text = content(folder.file("a.jsonl"));
    return std::count(text.begin(), text.end(), '\n');
  };
  std::ofstream(folder.file("a.jsonl")) << "of an earlier run\n";
  CHECK(capture(output, {}, [&](Reporter& reporter) {
          CHECK(lines() == 1);
          reporter.on(header_of(4));
          CHECK(lines() == 1);
          reporter.on(row(8, 5, 0.01));
          CHECK(lines() == 2);
          DataFault fault;
          fault.message = "rank 2: element 5 lacks rank 1's part";
          reporter.on(fault);
          CHECK(lines() == 3);
        }).code == 7);
  CHECK(lines() == 4);
  CHECK(content(folder.file("a.jsonl")).find("earlier") == std::string::npos);
  output.files = {{"/dev/full", Format::jsonl}};
  const Captured full = capture(output, {}, two_rows);
  CHECK(full.code == 3);
  CHECK(full.err.find("cannot write /dev/full: No space left on device") != std::string::npos);
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

}  // namespace report_report_runs_tests
