// Measurements are held against these: the expected time, limits of the line and of files, earlier
// runs, what a host must have. With the real binary: each decides the exit code and is reported.
// Figures: unit tests of cmd/judge, runtime/plan.
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace judged_tests {

using collctl::format;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

json rows_of(const std::string& arguments) {
  const Ran ran = run_collctl("run -n 2 --device cpu " + arguments + " --iters 5 --json");
  INFO(arguments << ": " << ran.err);
  REQUIRE(ran.code == 0);
  return json::parse(ran.out)["results"];
}

Ran reduce(const std::string& more, const std::string& variables = "") {
  return run_collctl("run -n 2 --device cpu allreduce -b 8 -e 64K -f 64 --iters 20 " + more,
                     variables);
}

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

}  // namespace

TEST_CASE("rows have the expected time of what they were planned with", "[cli]") {
  for (const char* what : {"allreduce -b 4K -e 4K -w 3", "barrier"})
    for (const json& row : rows_of(what)) {
      INFO(row.dump());
      const json& expected = row["expected"];
      CHECK(expected["time_us"] > 0);
      CHECK(expected["limited_by"] != "");
      CHECK((expected["source"] == "model" || expected["source"] == "bound"));
      const double share = expected["efficiency"].get<double>() *
                           row["out_of_place"]["time_us"].get<double>() /
                           expected["time_us"].get<double>();
      CHECK(std::abs(share - 1) < 0.01);
      if (has(what, "-w 3")) CHECK(row["warmup"] >= 3);
    }
  for (const json& row : rows_of("allreduce -b 4K -e 4K -w 0 --transport net")) {
    CHECK_FALSE(row.contains("warmup"));
    const std::string by = row["expected"]["limited_by"];
    CHECK((has(by, "sockets") || has(by, "rank")));
  }
  // No model knows this one; and waited for one by one operations take more than any model has.
  for (const char* what : {"alltoallv -b 4K -e 4K", "allreduce -b 4K -e 4K --sync each"})
    for (const json& row : rows_of(what)) CHECK_FALSE(row.contains("expected"));
}

TEST_CASE("the column of what was expected is in the table, or among those left out", "[cli]") {
  const Ran wide = reduce("", "COLUMNS=100");
  CHECK(wide.code == 0);
  CHECK(has(wide.out, "of exp."));
  CHECK(has(wide.out, "# Expected             : "));
  const Ran narrow = reduce("", "COLUMNS=70");
  const size_t left_out = narrow.out.find("# Columns left out");
  REQUIRE(left_out != std::string::npos);
  CHECK(narrow.out.find("of exp.", left_out) != std::string::npos);
  CHECK_FALSE(has(reduce("--format nccl-tests").out, "exp."));
}

TEST_CASE("--min-efficiency and thresholds of a file decide", "[cli]") {
  const TemporaryFolder folder;
  const std::string good = write(folder, "good",
                                 "# collective size statistic ranks bound source\n"
                                 "allreduce 8 time * max 1e9 nobody's\n"
                                 "allreduce 32K busbw 2 min 0 nobody's\n");
  CHECK(reduce("--min-efficiency 0.0001 --thresholds " + good).code == 0);
  const Ran slow = reduce("--min-efficiency 1000%@8");
  CHECK(slow.code == 1);
  for (const char* word :
       {"allreduce 8 B float32 sum", "below the minimum of 1000 %", "limited by"})
    CHECK(has(slow.out, word));
  CHECK(reduce("--min-efficiency 1@4K").code == 2);
  const Ran late = reduce("--thresholds " +
                          write(folder, "bad", "allreduce 8 time 2 max 0.000001 our contract\n"));
  CHECK(late.code == 1);
  CHECK(has(late.out, "our contract"));
  CHECK(reduce("--thresholds " + write(folder, "missing", "allreduce 1G time 2 max 1 us\n")).code ==
        8);
  const Ran wrong =
      reduce("--thresholds " + write(folder, "wrong", "allreduce 8 time two max 1 us\n"));
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "wrong:1:18: expected a number of ranks"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const Ran pipe = reduce("--thresholds " + (folder / "pipe"));
  CHECK(pipe.code == 2);
  CHECK(has(pipe.err, "not a file"));
}

TEST_CASE("a baseline is saved, grows, and is compared", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "baseline.json", scaled = folder / "scaled.json";
  for (int i = 0; i < 2; ++i) CHECK(reduce("--save-baseline " + file).code == 0);
  const json baseline = json::parse(file_content(file));
  const json& timings = baseline["machines"][0]["timings"];
  REQUIRE_FALSE(timings.empty());
  for (const json& timing : timings) CHECK(timing["samples_us"].size() == 2);
  // So that what else this machine does decides nothing: samples far above, and far below.
  const auto scale = [&](double by) {
    json other = baseline;
    for (json& timing : other["machines"][0]["timings"])
      for (json& sample : timing["samples_us"]) sample = sample.get<double>() * by;
    std::ofstream(scaled) << other;
  };
  scale(1000);
  CHECK(reduce("--baseline " + scaled).code == 0);
  const Ran other_machine = run_collctl(
      "run -n 3 --device cpu allreduce -b 8 -e 64K -f 64 --iters 5 --baseline " + scaled);
  CHECK(other_machine.code == 8);
  CHECK(has(other_machine.out, "not compared"));
  scale(0.0001);
  const Ran slower = reduce("--baseline " + scaled);
  CHECK(slower.code == 1);
  CHECK(has(slower.out, "above the"));
  CHECK(has(slower.out, "of 2 runs in " + scaled));
  CHECK(reduce("--baseline " + (folder / "nothing.json")).code == 2);
  const std::string report = R"({"schema":"collctl.bench/1"})";
  const std::string no_baseline = write(folder, "other.json", report);
  CHECK(reduce("--save-baseline " + no_baseline).code == 2);
  CHECK(file_content(no_baseline) == report);
}

TEST_CASE("what a host must have: for doctor, and for check", "[cli]") {
  const TemporaryFolder folder;
  const std::string eight = write(folder, "eight", "gpus=8\n");
  const Ran lacks = run_collctl("doctor --expect " + eight, "CUDA_VISIBLE_DEVICES=-1");
  CHECK(lacks.code == 1);
  CHECK(has(lacks.out, "8 is expected"));
  const Ran there =
      run_collctl("doctor --json --expect " + write(folder, "there", "cpus=1 memory=1M\n"));
  CHECK(there.code != 2);
  const json doctor = json::parse(there.out);
  CHECK(doctor["hosts"].size() == 1);  // this one, which has none to reach
  for (const json& c : doctor["checks"]) {
    INFO(c.dump());
    const std::string name = c["name"];
    CHECK(name != "reach");
    CHECK((name.rfind("expect", 0) != 0 || c["status"] == "pass"));
  }
  const std::string mistake = write(folder, "mistake", "gpu=8\n");
  const Ran mistaken = run_collctl("doctor --expect " + mistake);
  CHECK(mistaken.code == 2);
  CHECK(has(mistaken.err, mistake + ":1:1"));
  const Ran not_run = run_collctl("check --device cpu --level quick --only node --expect " + eight);
  CHECK(not_run.code == 8);
  CHECK(has(not_run.out, "the suite doctor did not run"));
}

TEST_CASE("check of this machine alone", "[cli]") {
  const TemporaryFolder folder;
  const auto check = [](const std::string& arguments) {
    return run_collctl("check --device cpu --level quick --only " + arguments, "COLUMNS=1000");
  };
  // Its collectives are held against the same.
  const std::string saved = folder / "check.json";
  CHECK(check("node --min-efficiency 0.00001 --save-baseline " + saved).code == 0);
  CHECK_FALSE(file_content(saved).empty());
  const Ran slow = check("node --min-efficiency 1000%");
  CHECK(slow.code == 1);
  CHECK(has(slow.out, "below the minimum of 1000 %"));
  const Ran none = check("inventory --min-efficiency 0.1");
  CHECK(none.code == 8);
  CHECK(has(none.out, "no collective was measured"));
  // The floor of copies fails; that of to_gpu, for which there is no GPU, does not.
  const Ran low =
      check("node --json --expect " + write(folder, "floors", "copy=900000 [H100] to_gpu=50\n"));
  CHECK(low.code == 1);
  std::vector<json> failed;
  const json report = json::parse(low.out);
  for (const json& c : report["checks"])
    if (c["status"] == "fail") failed.push_back(c["expected"]);
  CHECK(failed == std::vector<json>{"900000"});
  const Ran inventory = check("inventory --json");
  CHECK(inventory.code == 0);
  CHECK(has(json::parse(inventory.out)["machine"], "<system"));
  CHECK(check("inventory --nagios").out.rfind("COLLCTL OK: ", 0) == 0);
  const Ran left =
      run_collctl("check --device cpu --level standard --budget 1 --only inventory,node");
  CHECK(left.code == 8);
  CHECK(has(left.out, "node: not run"));
  // Asked for by name, a suite that finds nothing to look at is not tested; else it is left out.
  const Ran gpus = run_collctl("check --device cpu --only gpus", "COLUMNS=1000");
  CHECK(gpus.code == 8);
  CHECK(has(gpus.out, "gpus: not run: --device cpu"));
  const Ran without = run_collctl("check --device cpu --skip doctor,node,counters", "COLUMNS=1000");
  CHECK(without.code == 0);
  CHECK(has(without.out, "not run: gpus (--device cpu)"));
}

}  // namespace judged_tests
