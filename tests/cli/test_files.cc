// The files that -o names, and standard streams in their place.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace files_tests {

using collctl::format;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

// One file that needs no other and no network, whose tags are closed.
void good_page(const std::string& page) {
  CHECK(page.rfind("<!DOCTYPE html>\n", 0) == 0);
  CHECK(page.ends_with("</body>\n</html>\n"));
  for (const char* outside : {"src=", "href=", "@import", "url("}) CHECK_FALSE(has(page, outside));
  for (const char* tag : {"pre", "table", "svg", "style"})
    CHECK(count(page, std::string("<") + tag) == count(page, std::string("</") + tag + ">"));
}

const std::string kTwo = "run -n 2 --device cpu ";

}  // namespace

TEST_CASE("a measurement as picture and page", "[cli]") {
  const TemporaryFolder folder;
  const Ran ran = run_collctl(kTwo + "allreduce -b 0 -e 4K --iters 2 --op sum,max -o " +
                              folder / "r.svg" + " -o " + folder / "r.html");
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  const std::string svg = file_content(folder / "r.svg");
  CHECK(has(svg, "<svg xmlns"));
  CHECK(has(svg, "bus bandwidth, GB/s"));
  CHECK(has(svg, "time, us"));
  CHECK(has(svg, "4 KiB"));
  // sum and max, each out of place and in place: a curve in each panel, and one beside its name.
  for (const char* curve : {"curve0", "curve1", "curve2", "curve3"})
    CHECK(count(svg, std::string("<path class=\"") + curve) == 3);
  CHECK_FALSE(has(svg, "nan"));
  CHECK_FALSE(has(svg, "inf"));
  const std::string page = file_content(folder / "r.html");
  good_page(page);
  CHECK(has(page, "<p class=\"verdict ok\">passed</p>"));
  CHECK(has(page, "<svg"));
  CHECK(has(page, "# Verdict"));
  CHECK(has(page, "float32"));
  CHECK_FALSE(has(page, "\033"));
  // A verdict that is none.
  run_collctl(kTwo + "allreduce -b 8 -e 8 --iters 1 --min-busbw 1000 -o " + folder / "bad.html");
  CHECK(
      has(file_content(folder / "bad.html"), "<b class=\"bad\">below-min-busbw</b>allreduce 8 B"));
  // Nothing to draw is no crash.
  CHECK(run_collctl(kTwo + "barrier --iters 1 -o " + folder / "b.svg").code == 0);
  CHECK(has(file_content(folder / "b.svg"), "time, us"));
}

TEST_CASE("the other commands write files too", "[cli]") {
  const TemporaryFolder folder;
  const auto files = [&](const std::string& name) {
    std::string options;
    for (const char* ending : {".json", ".jsonl", ".csv", ".html"})
      options += " -o " + (folder / (name + ending));
    return options;
  };
  const struct {
    std::string name, command, rows;
  } kCases[] = {{"doctor", "doctor", "checks"},
                {"plan", "plan -b 8 -e 64", "choices"},
                {"window", kTwo + "window-test --iters 1", "checks"},
                {"rails", "rails --net socket --seconds 0", "checks"}};
  for (const auto& [name, command, rows] : kCases) {
    const Ran ran = run_collctl(command + files(name));
    INFO(command << "\n" << ran.err);
    REQUIRE((ran.code == 0 || ran.code == 1 || ran.code == 8));
    const json all = json::parse(file_content(folder / (name + ".json")));
    // rails has a table of routes for each pair of hosts there.
    const size_t entries = name == "rails" ? all["pairs"][0]["cells"].size() : all[rows].size();
    REQUIRE(entries > 0);
    const auto records = lines(file_content(folder / (name + ".jsonl")));
    REQUIRE(records.size() == entries + 1);
    CHECK(json::parse(records[0])["schema"] == all["schema"]);
    if (name != "rails") CHECK(json::parse(records[1]) == all[rows][0]);
    const auto table = lines(file_content(folder / (name + ".csv")));
    CHECK(table.size() == entries + 1);
    CHECK(has(table[0], rows == "checks" ? "name" : "bytes"));
    const std::string page = file_content(folder / (name + ".html"));
    good_page(page);
    // The last table has everything; hosts by checks may stand above it.
    CHECK(count(page.substr(page.rfind("<table>")), "<tr>") == entries + 1);
  }
  CHECK(has(file_content(folder / "plan.csv"), "expected.time_us"));
}

TEST_CASE("what monitoring reads, and reports of every kind again", "[cli]") {
  const TemporaryFolder folder;
  const struct {
    std::string name, command, title;
  } kCases[] = {{"doctor", "doctor", "collctl doctor"},
                {"window", kTwo + "window-test --iters 1", "window-test: 2 CPU ranks"},
                {"rails", "rails --net socket --seconds 0", "rails: 1 host"},
                {"check", "check --device cpu --level quick --only node", "collctl check, quick"}};
  for (const auto& [name, command, title] : kCases) {
    const Ran ran = run_collctl(command + " -o " + folder / (name + ".json") + " -o " +
                                folder / (name + ".jsonl") + " -o " + folder / (name + ".xml") +
                                " -o " + folder / (name + ".prom"));
    INFO(command << "\n" << ran.out << ran.err);
    REQUIRE((ran.code == 0 || ran.code == 1 || ran.code == 8));
    const std::string suites = file_content(folder / (name + ".xml"));
    CHECK(has(suites, "<testsuites name=\"collctl "));
    CHECK(count(suites, "<testcase ") > 0);
    const std::string metrics = file_content(folder / (name + ".prom"));
    CHECK(has(metrics, format("collctl_exit_code{{report=\"{}\"}} {}\n",
                              name == "window" ? "window-test" : name, ran.code)));
    // The file and its lines are the same report, and end as the run did.
    const Ran again = run_collctl("report " + folder / (name + ".json"));
    INFO(again.out << again.err);
    CHECK(again.code == ran.code);
    CHECK(has(again.out, title));
    const Ran lines = run_collctl("report " + folder / (name + ".jsonl"));
    INFO(lines.err);
    CHECK(lines.code == ran.code);
    CHECK(lines.out == again.out);
    const Ran page = run_collctl("report --exit-zero " + folder / (name + ".json") + " -o " +
                                 folder / (name + ".html"));
    CHECK(page.code == 0);
    good_page(file_content(folder / (name + ".html")));
    // Nothing has changed.
    const std::string two = folder / (name + ".json") + " " + folder / (name + ".json");
    CHECK(run_collctl("report --diff " + two).code == 0);
    CHECK(run_collctl("report " + two).code == ran.code);
  }
  CHECK(run_collctl("report --diff " + folder / "rails.json").code == 2);
}

TEST_CASE("what has no table of its own is reported as lists", "[cli]") {
  const TemporaryFolder folder;
  shell("{} topo --json > " + folder / "topo.json");
  const Ran topo = run_collctl("report " + folder / "topo.json");
  CHECK(topo.code == 0);
  CHECK(has(topo.out, "# cpus\n"));
  CHECK(run_collctl("run -n 2 -o " + folder / "run.json" + " -- sh -c 'exit $((RANK * 3))'").code ==
        3);
  const Ran program = run_collctl("report " + folder / "run.json");
  CHECK(program.code == 3);
  CHECK(has(program.out, "# ranks\n"));
}

TEST_CASE("- is a standard stream", "[cli]") {
  const std::string quick = "allreduce -b 8 -e 8 --iters 1 ";
  const Ran measured = run_collctl(kTwo + quick + "-o -");
  CHECK(json::parse(measured.out)["schema"] == "collctl.bench/1");
  CHECK(json::parse(run_collctl("doctor -o -").out)["schema"] == "collctl.doctor/1");
  CHECK(has(run_collctl("topo -o -").out, "</svg>"));
  CHECK(run_collctl("topo -o - --json").code == 2);
  CHECK(json::parse(run_collctl("allreduce -o - -b 2 -e 1").out)["schema"] == "collctl.error/1");
  CHECK(run_collctl("run -n 1 -o - -- true").code == 2);
  const Ran again = shell("{} " + kTwo + quick + "-o - | {} report -");
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(has(again.out, "# Verdict"));
}

TEST_CASE("doctor --record writes the state of this host's devices", "[cli]") {
  const TemporaryFolder folder;
  const Ran ran = run_collctl("doctor --quiet --record " + folder / "made");
  INFO(ran.err);
  REQUIRE((ran.code == 0 || ran.code == 1 || ran.code == 8));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "made"))
    files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  const json recording = json::parse(file_content(files[0]));
  CHECK(recording["schema"] == "collctl.state/1");
  CHECK(recording["source"] == "recorded");
  const json& devices = recording["state"]["devices"];
  CHECK(std::any_of(devices.begin(), devices.end(),
                    [](const json& device) { return device["kind"] == "host"; }));
  CHECK(run_collctl("doctor --record " + folder / "no" + "/such").code != 0);
  const Ran again = run_collctl("doctor --json --replay " + folder / "made");
  CHECK((again.code == 0 || again.code == 1 || again.code == 8));
  const json replayed = json::parse(again.out);
  CHECK(replayed["schema"] == "collctl.doctor/1");
  CHECK(replayed["hosts"][0]["host"] == recording["host"]);
  CHECK(replayed["hosts"][0]["state"] == recording["state"]);
  CHECK(run_collctl("doctor --replay " + folder / "none").code == 2);
  CHECK(run_collctl("doctor --record x --replay " + folder / "made").code == 2);
  CHECK(run_collctl("doctor -H localhost --replay " + folder / "made").code == 2);
}

}  // namespace files_tests
