// `collctl report` on reports that real runs have left (recorded/*.json): what it prints of each
// stands beside it (*.txt), and it ends as the run did. A report of today must stay readable.
#include <map>

#include "cmd/report/read.h"
#include "cmd/root_commands.h"
#include "tests/places.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_recorded_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

const fs::path kRecorded = fs::path(test::source_folder()) / "tests/unit/cmd/report/recorded";

struct Shown {
  int code = -1;
  std::string text;
};

Shown shown_by_report(const std::vector<std::string>& arguments) {
  const Folder folder;
  const Fd out(::open(folder.file("out").c_str(), O_CREAT | O_WRONLY, 0600));
  REQUIRE(out);
  Console console(out.get(), -1);
  auto line = parse(arguments);
  REQUIRE(line);
  auto code = report_command(*line, console);
  INFO((code ? "" : code.error().chain()));
  REQUIRE(code);
  return {*code, content(folder.file("out"))};
}

}  // namespace

TEST_CASE("recorded reports of every kind are printed as they were, and end as the run did",
          "[report]") {
  const std::map<std::string, int> ends{
      {"allreduce", 0},   // --sync each, two types
      {"windows", 0},     // --window
      {"soak", 0},        //
      {"slow", 1},        // thresholds, all roots
      {"broke-off", 5},   // a rank was killed
      {"wrong", 7},       // one element, explained
      {"incomplete", 8},  // a host took no part
  };
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kRecorded))
    files += entry.path().extension() == ".json";
  CHECK(files == ends.size());
  for (const auto& [name, code] : ends) {
    INFO(name);
    const std::string path = (kRecorded / (name + ".json")).string();
    const Shown whole = shown_by_report({"report", "--wide", path});
    CHECK(whole.code == code);
    CHECK(whole.text == content((kRecorded / (name + ".txt")).string()));
    CHECK(shown_by_report({"report", "--exit-zero", path}).code == 0);
    // A report that was read and is written again is the same.
    auto read = read_report(content(path));
    REQUIRE(read);
    auto twice = read_report(bench_json(read->report, read->verdict));
    REQUIRE(twice);
    CHECK(twice->exit_code == code);
    CHECK(twice->verdict.reasons().size() == read->verdict.reasons().size());
    CHECK((twice->verdict.error() != std::nullopt) == (code == 5));
  }
}

TEST_CASE("the verdict of a recorded report: its reasons, or that it broke off", "[report]") {
  const auto last_lines = [](const char* name) {
    const std::string text = content((kRecorded / name).string());
    return text.substr(text.find("# Verdict"));
  };
  CHECK(last_lines("allreduce.txt") == "# Verdict              : passed\n");
  CHECK(last_lines("incomplete.txt") ==
        "# Verdict              : passed, but not everything that was asked for was "
        "tested\n#   node02 took no part: connection refused\n");
  CHECK(last_lines("broke-off.txt")
            .starts_with("# Verdict              : FAILED, the run broke off\n#   rank 1 (pid "));
  CHECK(last_lines("wrong.txt")
            .starts_with("# Verdict              : FAILED (bad-data)\n#   rank 0: element "));
}

}  // namespace report_recorded_tests
