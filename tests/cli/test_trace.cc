// --trace: every timed operation of every rank, in Chrome's trace format.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace trace_tests {

using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

json operations_of(const json& events) {
  json found = json::array();
  for (const auto& event : events)
    if (event["ph"] == "X") found.push_back(event);
  return found;
}

}  // namespace

TEST_CASE("a trace has every timed operation of every rank, with its waits", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const Ran ran = run_collctl(
      "allreduce --device cpu -n 3 -b 8 -e 64K -f 128 --iters 7 --warmup 2 --transport shm --algo "
      "ring --sync each --json --trace " +
      file);
  REQUIRE(ran.code == 0);
  const json report = json::parse(ran.out), all = json::parse(file_content(file));
  const size_t rows = report["results"].size();
  REQUIRE(rows == 2);
  const json operations = operations_of(all);
  CHECK(operations.size() == rows * 2 * 7 * 3);
  std::set<std::string> lanes;
  for (const auto& event : all)
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
  CHECK(lanes == std::set<std::string>{"rank 0", "rank 1", "rank 2"});
  std::map<int, double> end_of;                   // by rank
  std::map<std::pair<bool, int>, double> summed;  // of the last row, by placement and rank
  bool waited = false;
  for (const auto& event : operations) {
    INFO(event.dump());
    const int rank = event["tid"];
    const json& args = event["args"];
    CHECK(event["dur"] > 0);
    CHECK(double(event["ts"]) >= end_of[rank] - 0.001);  // one after the other
    end_of[rank] = double(event["ts"]) + double(event["dur"]);
    CHECK(args["algorithm"] == "ring");
    CHECK((args["bytes"] == 8 || args["bytes"] == 1024));
    if (args["bytes"] == 1024) summed[{args["in_place"], rank}] += double(event["dur"]);
    double sum = 0;
    for (const auto& wait : args["waits"]) {
      CHECK(wait["peer"] != rank);
      sum += double(wait["recv_us"]) + double(wait["send_us"]);
    }
    CHECK(std::abs(sum - double(args["waited_us"])) < 0.01);
    CHECK(sum <= double(event["dur"]) + 1);
    waited = waited || sum > 0;
  }
  CHECK(waited);
  // The block's time is what its operations took, and what lies between them.
  for (const char* half : {"out_of_place", "in_place"}) {
    const json& timing = report["results"][1][half];
    const double slowest = double(timing["time_us"]) * 7;
    const int rank = timing["slowest_rank"];
    const double traced = summed[{std::string(half) == "in_place", rank}];
    CHECK(traced > 0);
    CHECK(traced <= slowest * 1.001);
  }
  CHECK(all.back()["args"]["exit_code"] == 0);
  CHECK(all.back()["args"]["left_out"] == 0);
}

// The demands of Perfetto's importer on a file (json_trace_tokenizer, json_trace_parser_impl and
// slice_tracker of its trace processor), by a reader of its own: objects one after another out of
// an array that need not end, one letter of `ph`, whole numbers for processes and threads, a name
// for each that has events, and slices of a thread that nest.
TEST_CASE("a trace is read as Perfetto reads it, also one that was cut", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const Ran ran = run_collctl(
      "alltoall --device cpu -n 4 -b 64 -e 4K -f 64 --iters 5 --sync each --trace " + file);
  REQUIRE(ran.code == 0);
  const std::string whole = file_content(file);
  const auto read = [](const std::string& text) {
    std::vector<json> events;
    REQUIRE(text.starts_with("[\n"));
    size_t at = 2, end = 0;
    // Each event is a line, and ends with its comma.
    for (; at < text.size() && text[at] == '{'; at = end + 1) {
      end = text.find('\n', at);
      if (end == std::string::npos) break;  // cut
      std::string line = text.substr(at, end - at);
      if (line.ends_with(',')) line.pop_back();
      events.push_back(json::parse(line));
    }
    return events;
  };
  const std::vector<json> all = read(whole);
  CHECK(json::parse(whole).size() == all.size());
  CHECK(read(whole.substr(0, whole.size() / 2)).size() > 10);
  std::set<std::pair<int, int>> named, used;
  std::set<int> hosts;
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> slices;  // in ns, as it counts
  for (const json& event : all) {
    INFO(event.dump());
    const std::string phase = event["ph"];
    REQUIRE((phase == "M" || phase == "X"));
    REQUIRE((event["pid"].is_number_unsigned() && event["tid"].is_number_unsigned()));
    const int pid = event["pid"], tid = event["tid"];
    if (phase == "M") {
      if (event["name"] == "process_name") hosts.insert(pid);
      if (event["name"] == "thread_name") named.emplace(pid, tid);
      continue;
    }
    REQUIRE((event["ts"].is_number() && event["dur"].is_number()));
    used.emplace(pid, tid);
    const auto start = int64_t(double(event["ts"]) * 1e3 + 0.5);
    slices[tid].emplace_back(start, start + int64_t(double(event["dur"]) * 1e3 + 0.5));
  }
  CHECK(used == named);
  CHECK(hosts.size() == 1);
  CHECK(slices.size() == 4);
  for (auto& [tid, list] : slices) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i) CHECK(list[i].first >= list[i - 1].second);
  }
}

TEST_CASE("a trace has the operations of every block of a short row, and no warm-up", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const Ran ran =
      run_collctl("allreduce --device cpu -n 2 -b 8 -e 8 --iters 7 --warmup 2 --trace " + file);
  REQUIRE(ran.code == 0);
  // One block where that took a machine so long that it is not repeated.
  const size_t operations = operations_of(json::parse(file_content(file))).size();
  CHECK((operations == 2 * 7 * 2 * 5 || operations == 2 * 7 * 2));
}

TEST_CASE("a trace keeps what was measured before a failure", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "trace.json";
  const Ran ran = run_collctl(
      "allreduce --device cpu -n 2 -b 1K -e 4M -f 4096 --iters 3 --transport shm --algo ring "
      "--channels 1 --op-timeout 2 --sync each --trace " +
          file,
      "COLLCTL_FAULT=stall:rank=1:channel=0:step=4");  // only large operations have so many
  REQUIRE(ran.code != 0);
  const json all = json::parse(file_content(file));
  CHECK(all.back()["args"]["exit_code"] == ran.code);
  CHECK(operations_of(all).size() == 2 * 3 * 2);  // of the small size
}

TEST_CASE("what a trace is not for, or cannot be written to, is refused", "[cli]") {
  const Ran soak = run_collctl("soak --device cpu -n 1 --ops 1 --trace x.json");
  CHECK(soak.code == 2);
  CHECK(has(soak.err, "--trace has no meaning for the soak"));
  const Ran nowhere = run_collctl("barrier --device cpu -n 1 --trace /nowhere/x.json");
  CHECK(nowhere.code == 3);
  CHECK(has(nowhere.err, "--trace: cannot write /nowhere/x.json"));
  const Ran twice = run_collctl("barrier --device cpu -n 1 -o x.json --trace x.json");
  CHECK(twice.code == 2);
}

}  // namespace trace_tests
