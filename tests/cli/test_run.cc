// Jobs of the real binary: what a user sees of them, in every form.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/format.h"
#include "base/host_facts.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace run_tests {

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
    // The line of what others had of this machine meanwhile is as long as there is to list.
    if (!has(line, "# During the run ")) CHECK(line.size() <= 100);
  }
  CHECK(rows == 6);
  CHECK(has(ran.out, ": allreduce, 3 CPU ranks"));
  CHECK(has(ran.out, ": ranks 0-2\n"));
  CHECK(has(ran.out, "# Out of bounds values : 0 OK\n"));
  CHECK(has(ran.out, "# Verdict              : passed\n"));
}

TEST_CASE("ranks that are bound to cores of their own share none", "[cli]") {
  const bool enough = collctl::base::usable_cores() >= 2;
  for (const char* bind : {"", "--bind-to none", "--bind-to core"}) {
    const Ran ran = run_collctl(format("run -n 2 {} barrier --iters 1", bind));
    INFO(bind << ": " << ran.out);
    CHECK(ran.code == 0);
    CHECK(has(ran.out, "# note: 2 ranks share 1 core; times") == !enough);
    CHECK(has(ran.out, "# Out of bounds values : not checked\n"));
    CHECK(has(ran.out, ": ranks 0-1, bound\n") ==
          (enough && bind != std::string("--bind-to none")));
  }
}

TEST_CASE("CPU ranks have cores of their own where there are enough", "[cli]") {
  const std::vector<int> cores = collctl::base::affinity_cores();
  const bool enough = collctl::base::usable_cores() >= 2;
  const auto host_of = [](const std::string& line, const std::string& variables = "") {
    const Ran ran = shell(line + " barrier --iters 1 --json", variables);
    INFO(line << ": " << ran.err);
    REQUIRE(ran.code == 0);
    return json::parse(ran.out)["hosts"][0];
  };
  const json two = host_of("{} run -n 2");
  CHECK(two["bound"] == enough);
  CHECK((two["cores"][0] != two["cores"][1]) == enough);
  CHECK(two.contains("wakeup_us") == enough);
  CHECK_FALSE(host_of("{} run -n 2", "COLLCTL_SPIN_US=3").contains("wakeup_us"));
  CHECK(host_of("{} run -n 2 --bind-to none")["bound"] == false);
  // More ranks than cores, or a launcher that may use one core alone.
  const json many = host_of(format("{{}} run -n {}", cores.size() + 1));
  CHECK(many["bound"] == false);
  CHECK_FALSE(many.contains("wakeup_us"));
  const json narrow = host_of(format("taskset -c {} {{}} run -n 2", cores.back()));
  CHECK(narrow["bound"] == false);
  CHECK(narrow["cores"] == json({format("{}", cores.back()), format("{}", cores.back())}));
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
                           "gather", "scatter", "alltoall", "alltoallv", "moe-dispatch",
                           "moe-combine", "hot-expert", "sendrecv", "hypercube", "barrier"})
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

// Ranks 0 and 1 share a host and its window, 2 and 3 do not.
TEST_CASE("what one group of ranks cannot do has no row, or is the error", "[cli]") {
  const auto ran = [](const std::string& algorithms) {
    return shell(
        format(
            "for r in 3 2 1 0; do COLLCTL_HOSTID=$((r / 3)) {{}} run --join "
            "127.0.0.1:{} --rank $r --size 4 --device cpu allreduce --split 2 --algo {} -b 8 "
            "-e 8 --json & done\nfor r in 3 2 1 0; do wait -n || code=$?; done; exit ${{code-0}}",
            20000 + ::getpid() % 10000, algorithms),
        "COLLCTL_TOKEN=a-token-of-the-tests");
  };
  const Ran some = ran("one-shot,ring");
  REQUIRE(some.code == 0);
  const json rows = json::parse(some.out)["results"];
  CHECK(rows.size() == 2);
  for (const json& row : rows) CHECK(row["algorithm"] == "ring");
  for (const char* algorithms : {"one-shot", "one-shot,two-shot"}) {
    const Ran none = ran(algorithms);
    INFO(none.err);
    CHECK(none.code == 2);
    CHECK(has(none.err, "group 1"));
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

TEST_CASE("messages between ranks of a host are read out of the sender's memory", "[cli]") {
  for (const char* mode : {"process", "thread"})
    for (const char* name : {"sendrecv", "alltoall --algo pairwise", "alltoallv"})
      for (const bool single : {true, false}) {
        const Ran ran = run_collctl(
            format("run -n 3 --rank-mode {} {} -b 4K -e 9M -f 48 --iters 2 --json", mode, name),
            single ? "COLLCTL_SINGLE_COPY=1" : "COLLCTL_SINGLE_COPY=0");
        INFO(mode << " " << name << " " << single << ": " << ran.err);
        REQUIRE(ran.code == 0);
        const json report = json::parse(ran.out);
        CHECK(report["verdict"]["ok"] == true);
        if (name == std::string("sendrecv")) CHECK_FALSE(report["links"].empty());
        const std::string via = mode == std::string("process") ? "SHM" : "P2P/direct pointer";
        for (const json& link : report["links"]) CHECK(link["via"] == via + (single ? "/CMA" : ""));
      }
  const Ran bad =
      run_collctl("run -n 2 sendrecv -b 1M -e 1M --iters 1 --json", "COLLCTL_FAULT=corrupt:rank=1");
  CHECK(bad.code == 7);
  const Ran dead = run_collctl("run -n 3 sendrecv -b 1M -e 1M --json", "COLLCTL_FAULT=exit:rank=1");
  CHECK(dead.code == 5);
  CHECK(json::parse(dead.out)["rank"] == 1);
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

// Ctrl-C, SIGTERM and a rank that dies in the middle of a sweep of a thousand sizes: every form
// keeps the rows it has; SIGKILL of the command leaves what was streamed.
TEST_CASE("a sweep that is broken off keeps its rows in every form", "[cli]") {
  for (const char* mode : {"process", "thread"})
    for (const char* end :
         {"-INT $job", "-TERM $job", "-KILL $job", "-KILL $(pgrep -P $job | tail -1)"}) {
      const bool rank_dies = std::string(end).find("pgrep") != std::string::npos;
      if (rank_dies && std::string(mode) == "thread") continue;
      INFO(mode << " " << end);
      const TemporaryFolder folder;
      const Ran ran = shell(
          format("set -m; cd {}; COLLCTL_PACE_US=5000 {{}} run -n 2 --rank-mode {} --device cpu "
                 "allreduce -b 8 -e 256K --step-bytes 256 --iters 2 --csv -o r.json -o r.jsonl "
                 "-o r.csv & job=$!\n"
                 "while [ \"$(cat r.jsonl 2>/dev/null | wc -l)\" -lt 6 ]; do sleep 0.05; done\n"
                 "kill {}; wait $job",
                 folder.path(), mode, end));
      const bool killed = has(end, "KILL") && !rank_dies;
      CHECK(ran.code == (rank_dies ? 5 : killed ? 137 : has(end, "INT") ? 130 : 143));
      const auto records = lines(file_content(folder / "r.jsonl"));
      const size_t rows = lines(ran.out).size() - 1;
      CHECK(rows >= 4);
      CHECK(rows < 1000);
      // A line is whole; SIGKILL may come between a line of the file and that of standard output.
      for (const auto& line : records) CHECK(json::accept(line));
      CHECK(json::parse(records[0])["record"] == "header");
      if (killed) {
        CHECK(records.size() - 1 >= rows);
        CHECK(records.size() - 1 <= rows + 1);
        continue;
      }
      CHECK(records.size() == rows + 2);
      CHECK(json::parse(records.back())["record"] == "error");
      CHECK(json::parse(records.back())["code"] == ran.code);
      CHECK(file_content(folder / "r.csv") == ran.out);
      CHECK(json::parse(file_content(folder / "r.json"))["measured"]["results"].size() == rows);
      CHECK(has(ran.err, format("r.csv holds the {} rows from before the failure", rows)));
    }
}

TEST_CASE("the table fits the width there is, unless --wide", "[cli]") {
  const std::string job = "run -n 2 --device cpu allreduce -b 1K -e 4K --iters 1 --warmup 0";
  const auto widest_row = [](const std::string& text) {
    size_t most = 0;
    for (const auto& line : lines(text))
      if (line.find("GB/s)") != std::string::npos || line[0] == ' ')
        most = std::max(most, line.size());
    return most;
  };
  const Ran usual = run_collctl(job);
  CHECK(widest_row(usual.out) <= 100);
  CHECK(has(usual.out,
            "# Columns left out     : type float32, redop sum, root -1, algbw, channels, count "
            "(see --wide"));
  const Ran narrow = run_collctl(job, "COLUMNS=70");
  CHECK(widest_row(narrow.out) <= 70);
  CHECK(has(narrow.out, "busbw"));
  CHECK_FALSE(has(narrow.out, "channels\n"));
  const Ran wide = run_collctl(job + " --wide", "COLUMNS=70");
  CHECK(widest_row(wide.out) > 100);
  CHECK_FALSE(has(wide.out, "left out"));
  const TemporaryFolder folder;
  CHECK(run_collctl(job + " -o " + (folder / "r.json")).code == 0);
  CHECK(has(run_collctl("report " + (folder / "r.json")).out,
            "# Columns left out     : type float32, "));
  CHECK(widest_row(run_collctl("report --wide " + (folder / "r.json")).out) > 100);
  CHECK(run_collctl(job, "COLUMNS=300").out.find("left out") == std::string::npos);
  CHECK(widest_row(run_collctl(job, "COLUMNS=many").out) <= 100);
  // Output that programs read is the same at any width.
  const auto titles = [&](const char* variables) {
    return lines(run_collctl(job + " --csv", variables).out)[0];
  };
  CHECK(titles("COLUMNS=20") == titles("COLUMNS=300"));
}

TEST_CASE("an all-reduce in the form of nccl-tests", "[cli]") {
  const Ran ran =
      run_collctl("run -n 2 --device cpu allreduce -b 1K -e 4K --iters 2 --format nccl-tests");
  CHECK(ran.code == 0);
  CHECK(ran.err == "");
  CHECK(has(ran.out, "\n# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup "));
  CHECK(has(ran.out, "\n#  Rank  1 Group  0 Pid "));
  CHECK(has(ran.out, "\n        4096          1024     float     sum      -1 "));
  CHECK(has(ran.out, "\n# Collective test concluded: all_reduce_perf\n#\n\n"));
}

// How three public readers of nccl-tests go about it; DECISIONS.md names them.
TEST_CASE("readers of nccl-tests find rows, columns and the mean", "[cli]") {
  const auto words = [](const std::string& line) {
    std::istringstream in(line);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  // All-to-all is not measured in place: its row still has all its columns, with figures.
  for (const char* op : {"allreduce", "broadcast", "alltoall"}) {
    INFO(op);
    const Ran ran = run_collctl(
        format("run -n 2 --device cpu {} -b 0 -e 64K -f 8192 --iters 2 --format nccl-tests", op));
    CHECK(ran.code == 0);
    size_t rows = 0, time = 0, busbw = 0;  // columns, from the end
    std::string mean;
    bool begun = false, ended = false;
    for (const std::string& line : lines(ran.out)) {
      const std::vector<std::string> parts = words(line);
      begun |= has(line, "out-of-place");
      ended |= has(line, "Out of bounds values");
      if (begun && has(line, "time") && has(line, "busbw")) {
        const auto from_end = [&](const char* name) {
          return size_t(parts.end() - std::find(parts.begin(), parts.end(), name));
        };
        time = from_end("time");
        busbw = from_end("busbw");
      }
      if (has(line, "bandwidth")) mean = parts.at(5);
      if (parts.empty() || !std::isdigit(uint8_t(parts[0][0]))) continue;
      CHECK(begun);
      CHECK_FALSE(ended);
      REQUIRE(parts.size() == 13);
      CHECK(std::stod(parts.at(13 - time)) >= 0);
      CHECK(std::stod(parts.at(13 - busbw)) >= 0);
      CHECK(std::stod(parts.at(13 - time + 4)) > 0);  // in place
      ++rows;
    }
    CHECK(rows == 3);
    CHECK(time == 8);
    CHECK(busbw == 6);
    CHECK(std::stod(mean) > 0);
  }
}

TEST_CASE("a rank that was ended because another failed is no fault", "[cli]") {
  const TemporaryFolder folder;
  // Rank 0 is there until it is ended, or gone before rank 1 fails: whose parent has taken its end
  // when there is no such process any more.
  const bool waits = GENERATE(true, false);
  const std::string first = waits ? "exec tail -f /dev/null" : "exit 0";
  const std::string second = "while kill -0 $(cat pid) 2>/dev/null; do read -t 0.01 <>pipe; done";
  const Ran ran = shell(format(
      "cd {}; mkfifo pipe; {{}} run -n 2 -o run.json -- bash -c 'if [ $RANK = 0 ]; then echo $$ "
      ">new; mv new pid; {}; fi; until [ -e pid ]; do read -t 0.01 <>pipe; done; {}; exit 3'",
      folder.path(), first, waits ? "true" : second));
  INFO(ran.err);
  CHECK(ran.code == 3);
  CHECK(ran.err.starts_with("collctl: error: rank 1 (pid "));
  CHECK_FALSE(has(ran.err, "rank 0"));
  const json ranks = json::parse(file_content(folder / "run.json"))["ranks"];
  CHECK(ranks[1]["exit_code"] == 3);
  CHECK_FALSE(ranks[1].contains("told_to_end"));
  CHECK(ranks[0].contains("told_to_end") == waits);
  CHECK(ranks[0]["exit_signal"] == (waits ? SIGTERM : 0));
  CHECK(ranks[0]["exit_code"] == 0);
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
  CHECK_FALSE(report["ranks"][1].contains("told_to_end"));
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

TEST_CASE("env and plan show what a job has measured of the machine") {
  const TemporaryFolder folder;
  const std::string cache = "XDG_CACHE_HOME=" + folder.path();
  const auto shown = [&](const char* command) {
    const Ran ran = run_collctl(command, cache);
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return json::parse(ran.out)["calibration"];
  };
  const json none = shown("env --json");
  CHECK(none["used"] == false);
  CHECK(none["path"].get<std::string>().rfind(folder.path() + "/collctl/calibration-", 0) == 0);
  CHECK_FALSE(none.contains("line_us"));
  const Ran ran = run_collctl("run allreduce -n 2 -b 8 -e 8 --recalibrate", cache);
  CHECK(ran.code == 0);
  const json known = shown("env --json");
  // (One core, or one that others use all the time: it reports that.)
  CHECK(known["used"].get<bool>() != has(ran.err, "has no two cores of"));
  const json plan = json::parse(run_collctl("plan -b 8 -e 8 --json", cache).out);
  if (plan.contains("device")) CHECK(plan["calibration"] == known);  // no machine with GPUs
  if (known["used"] == false) return;
  CHECK(known["line_us"].size() == 3);
  CHECK(known["exchanges"].size() == 4);
  CHECK(known["exchanges"][0]["GBps"].get<double>() > 0);
  CHECK(has(run_collctl("env", cache).out, "# calibration: a flag "));
  CHECK(has(run_collctl("env", cache + " COLLCTL_CALIBRATE=0").out,
            "# calibration: not used (COLLCTL_CALIBRATE=0)"));
}

TEST_CASE("a host that the list has under two names is told, and is no error", "[cli]") {
  const Ran ran = run_collctl("run -H localhost:1,127.0.0.1:1 allreduce -b 8 -e 8");
  CHECK(ran.code == 0);
  CHECK(has(ran.out, "# note: localhost and 127.0.0.1 are one host: "));
}

}  // namespace run_tests
