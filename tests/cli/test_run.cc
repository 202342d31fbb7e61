// Jobs of the real binary: what a user sees of them, in every form.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/format.h"
#include "base/host_facts.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"

using collctl::format;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) list.push_back(line);
  return list;
}

}  // namespace

TEST_CASE("an all-reduce as text", "[cli]") {
  const Ran ran = run_collctl("run -n 3 allreduce -b 4 -e 4K -f 4 --iters 2 --warmup 1");
  CHECK(ran.code == 0);
  CHECK(ran.err == "");
  size_t rows = 0;
  for (const auto& line : lines(ran.out)) {
    INFO(line);
    if (line[0] != '#') ++rows;
    CHECK(line.size() <= 140);
  }
  CHECK(rows == 6);
  CHECK(has(ran.out, ": allreduce, 3 CPU ranks"));
  CHECK(has(ran.out, ": ranks 0-2\n"));
  CHECK(has(ran.out, "# Out of bounds values : 0 OK\n"));
  CHECK(has(ran.out, "# Verdict              : passed\n"));
}

TEST_CASE("ranks that are bound to cores of their own share none", "[cli]") {
  const bool enough = collctl::base::usable_cores() >= 2;
  for (const char* bind : {"none", "core"}) {
    const Ran ran = run_collctl(format("run -n 2 --bind-to {} barrier --iters 1", bind));
    INFO(bind << ": " << ran.out);
    CHECK(ran.code == 0);
    CHECK(has(ran.out, "# note: 2 ranks share 1 core; times") == !enough);
  }
}

TEST_CASE("what only GPUs can is a mistake before anything starts", "[cli]") {
  const Ran ran = run_collctl("run -n 2 --device cpu allreduce --proto ll128");
  CHECK(ran.code == 2);
  CHECK(ran.out == "");
  CHECK(has(ran.err, "--proto ll128 is for GPUs, these are CPU ranks"));
}

TEST_CASE("an all-reduce as JSON", "[cli]") {
  const Ran ran =
      run_collctl("run -n 2 allreduce -e 64 --iters 2 --json --op all -d int32,float64");
  CHECK(ran.code == 0);
  CHECK(ran.err == "");
  const json report = json::parse(ran.out);
  CHECK(report["schema"] == "collctl.bench/1");
  CHECK(report["op"] == "allreduce");
  CHECK(report["ranks"] == 2);
  CHECK(report["hosts"].size() == 1);
  CHECK(report["results"].size() == 4 * 5 * 2);
  for (const auto& result : report["results"]) {
    CHECK(result["out_of_place"]["wrong"] == 0);
    CHECK(result["in_place"]["wrong"] == 0);
    CHECK(result["out_of_place"]["time_us"] > 0);
  }
  CHECK(report["verdict"]["ok"] == true);
}

TEST_CASE("every collective runs and is right, direct and under run", "[cli]") {
  for (const char* name : {"allreduce", "allgather", "reducescatter", "broadcast", "reduce",
                           "gather", "scatter", "alltoall", "sendrecv", "barrier"})
    for (const char* how : {"run -n 2 ", ""}) {
      const Ran ran = run_collctl(format("{}{} --json --iters 1 --warmup 0 {}", how, name,
                                         std::string(name) == "barrier" ? "" : "-b 64 -e 1K -f 4"));
      INFO(how << name << ": " << ran.err);
      CHECK(ran.code == 0);
      CHECK(ran.err == "");
      const json report = json::parse(ran.out);
      CHECK(report["op"] == name);
      CHECK_FALSE(report["results"].empty());
      CHECK(report["verdict"]["ok"] == true);
    }
}

TEST_CASE("CSV rows and report files", "[cli]") {
  const TemporaryFolder folder;
  const Ran ran = run_collctl(format("run -n 2 allgather -e 64 --iters 1 --csv -o {} -o {} -o {}",
                                     folder / "r.json", folder / "r.jsonl", folder / "r.csv"));
  CHECK(ran.code == 0);
  const auto rows = lines(ran.out);
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].find("op,ranks,bytes,count,dtype,redop,root,algorithm,protocol,channels,"
                     "out_of_place_time_us") == 0);
  CHECK(rows[1].find("allgather,2,8,1,float32,none,-1,") == 0);
  CHECK(file_content(folder / "r.csv") == ran.out);
  CHECK(json::parse(file_content(folder / "r.json"))["results"].size() == 4);
  for (const auto& line : lines(file_content(folder / "r.jsonl"))) CHECK(json::accept(line));
  CHECK(size_t(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{})) ==
        3);
}

TEST_CASE("a report that cannot be written is said before anything runs", "[cli]") {
  const Ran ran = run_collctl("run -n 2 allreduce -o /nonexistent/r.json");
  CHECK(ran.code == 3);
  CHECK(ran.out == "");
  CHECK(ran.err == "collctl: error: cannot write /nonexistent/r.json: No such file or directory\n");
  const Ran full = run_collctl("run -n 2 allreduce -e 8 --iters 1 > /dev/full");
  CHECK(full.code == 3);
  CHECK(has(full.err, "cannot write to standard output: No space left on device"));
}

TEST_CASE("thresholds are verdicts", "[cli]") {
  const std::string job = "run -n 2 allreduce -b 64 -e 1K -f 4 --iters 2 ";
  CHECK(run_collctl(job + "--min-busbw 0 --max-latency 60000000@256").code == 0);
  const Ran slow = run_collctl(job + "--min-busbw 900000 --json");
  CHECK(slow.code == 1);
  const json report = json::parse(slow.out);
  CHECK(report["verdict"]["ok"] == false);
  CHECK(report["verdict"]["reasons"][0]["code"] == "below-min-busbw");
  CHECK(has(slow.err, "bus bandwidth"));
  const Ran late = run_collctl(job + "--max-latency 0");
  CHECK(late.code == 1);
  CHECK(has(late.out, "# Verdict              : FAILED\n#   allreduce 64 B float32 sum "));
}

TEST_CASE("wrong data is exit code 7 and is explained", "[cli]") {
  const Ran ran = run_collctl("run -n 3 allreduce -b 4K -e 4K --iters 1 --json",
                              "COLLCTL_FAULT=corrupt:rank=1");
  CHECK(ran.code == 7);
  const json report = json::parse(ran.out);
  CHECK(report["verdict"]["ok"] == false);
  CHECK(report["verdict"]["reasons"][0]["code"] == "wrong-data");
  CHECK_FALSE(report["faults"].empty());
  const Ran text =
      run_collctl("run -n 3 allreduce -b 4K -e 4K --iters 1", "COLLCTL_FAULT=corrupt:rank=1");
  CHECK(text.code == 7);
  CHECK(has(text.out, "FAILED"));
}

TEST_CASE("a rank that dies ends the job with its name", "[cli]") {
  const Ran ran = run_collctl("run -n 3 allreduce -b 4K -e 4K --json", "COLLCTL_FAULT=exit:rank=1");
  CHECK(ran.code == 5);
  const json error = json::parse(ran.out);
  CHECK(error["schema"] == "collctl.error/1");
  CHECK(error["code"] == 5);
  CHECK(error["rank"] == 1);
  CHECK(has(ran.err, "rank 1"));
}

TEST_CASE("programs as ranks", "[cli]") {
  const Ran ran = run_collctl("run -n 2 --tag-output -- bash -c 'echo rank $RANK of $WORLD_SIZE'");
  CHECK(ran.code == 0);
  auto printed = lines(ran.out);
  std::sort(printed.begin(), printed.end());
  CHECK(printed == std::vector<std::string>{"[0] rank 0 of 2", "[1] rank 1 of 2"});

  const TemporaryFolder folder;
  const Ran failing =
      run_collctl(format("run -n 2 -o {} -- bash -c 'exit $((RANK * 42))'", folder / "run.json"));
  CHECK(failing.code == 42);
  CHECK(has(failing.err, "rank 1"));
  const json report = json::parse(file_content(folder / "run.json"));
  CHECK(report["schema"] == "collctl.run/1");
  CHECK(report["exit_code"] == 42);
  CHECK(report["verdict"]["ok"] == false);
  CHECK(report["ranks"].size() == 2);
  CHECK(report["ranks"][1]["exit_code"] == 42);
  // Options after -- are the program's, whatever they look like.
  CHECK(run_collctl("run -n 1 -- echo --help -n 5").out == "--help -n 5\n");
}

TEST_CASE("options without meaning are said once, on standard error", "[cli]") {
  const Ran ran = run_collctl("run -n 2 allgather --op max -e 8 --iters 1 --csv");
  CHECK(ran.code == 0);
  CHECK(ran.err == "collctl: note: --op has no meaning for allgather: it does not reduce\n");
  CHECK(run_collctl("run -n 2 allgather --op max -e 8 --iters 1 --csv --quiet").err == "");
}

TEST_CASE("a rank dumps the topology of its machine on request", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "machine.xml";
  const std::string job = "run -n 2 allreduce -b 8 -e 8 --iters 1 --warmup 0";
  const Ran ran =
      run_collctl(job, "COLLCTL_TOPO_DUMP_FILE=" + file + " COLLCTL_TOPO_DUMP_FILE_RANK=1");
  CHECK(ran.code == 0);
  REQUIRE(fs::exists(file));
  CHECK(run_collctl("topo --json --from " + file).code == 0);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  fs::remove(file);
  // Nobody has that rank.
  CHECK(run_collctl(job, "COLLCTL_TOPO_DUMP_FILE=" + file + " NCCL_TOPO_DUMP_FILE_RANK=2").code ==
        0);
  CHECK_FALSE(fs::exists(file));
  const Ran refused = run_collctl(job, "NCCL_TOPO_DUMP_FILE=/nowhere/machine.xml");
  CHECK(refused.code == 3);
  CHECK(has(refused.err, "NCCL_TOPO_DUMP_FILE"));
  CHECK(has(refused.err, "/nowhere/machine.xml"));
}

TEST_CASE("a report exits as its run did, unless it is told not to", "[cli]") {
  const TemporaryFolder folder;
  const std::string job = "run -n 2 allreduce -b 8 -e 8 --iters 1 --warmup 0 --quiet ";
  const std::string good = folder / "good.json", slow = folder / "slow.json";
  CHECK(run_collctl(job + "-o " + good).code == 0);
  CHECK(run_collctl(job + "--min-busbw 1e6 -o " + slow).code == 1);
  CHECK(run_collctl("report " + good).code == 0);
  const Ran failed = run_collctl("report " + slow);
  CHECK(failed.code == 1);
  CHECK(has(failed.out, "FAILED"));
  const Ran shown = run_collctl("report --exit-zero " + slow);
  CHECK(shown.code == 0);
  CHECK(shown.out == failed.out);
  CHECK(run_collctl("report --exit-zero " + folder.path() + "/none.json").code == 2);
}
