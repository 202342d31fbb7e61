// Wrong input of the real binary: one sentence on standard error, exit code 2, nothing started.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"
#include "tests/places.h"

namespace usage_tests {

using collctl::format;
using nlohmann::json;

namespace {

struct Case {
  const char* arguments;
  const char* sentence;
};

const Case kCases[] = {
    {"frobnicate", "unknown command 'frobnicate'; collctl -h lists the commands"},
    {"allredcue", "unknown command 'allredcue'; did you mean allreduce?"},
    {"help chek", "help: unknown command 'chek'; did you mean check?"},
    {"report /", "/: cannot be read to its end: Is a directory"},
    {"-n 4 allreduce",
     "unknown option -n; the command comes first, for example: collctl run -n 4 allreduce"},
    {"run",
     "run: expected a collective or -- and a program; for example: collctl run -n 4 "
     "allreduce"},
    {"run -n 4 allrduce", "run: unknown collective 'allrduce'; did you mean allreduce?"},
    {"run -n 4 hostname",
     "run: unknown collective 'hostname'; a program goes after --: collctl run -n 4 -- hostname"},
    {"run -n 4 --", "run: expected a program after --"},
    {"run -n 0 allreduce", "run: --ranks (-n) 0: expected a whole number 1..65536"},
    {"run -n 65537 allreduce", "run: --ranks (-n) 65537: expected a whole number 1..65536"},
    {"run -n two allreduce", "run: --ranks (-n) two: expected a whole number 1..65536"},
    {"run -n", "run: -n needs a value: N"},
    {"run -Q a,b allreduce", "run: unknown option -Q; collctl run -h lists the options"},
    {"run allreduce --hostfile no/such", "hostfile no/such: No such file or directory"},
    {"report no/such", "no/such: No such file or directory"},
    {"run -n 2 python3 -c 'import os'",
     "run: unknown collective 'python3'; a program goes after --: collctl run -n 2 -- python3 -c "
     "'import os'"},
    {"run -np 4 allreduce", "run: unknown option --np; mpirun's --np 4 is -n 4 here"},
    {"allreduce -H a --join 127.0.0.1:1 --rank 0 --size 2",
     "--join makes this process one rank of a job; it excludes -H"},
    {"window-test --algo ring",
     "window-test: unknown option --algo; it belongs to collctl run <collective>"},
    {"run -n 2 window-test --algo ring", "--algo has no meaning for window-test"},
    {"window-test -n 2 -o w.pdf",
     "--output w.pdf: expected a name that ends in .json, .jsonl, .csv, .html, .svg, .xml or "
     ".prom"},
    {"report --diff one.json", "report --diff compares two files: expected OLD NEW"},
    {"check --soak 2x", "check: --soak 2x: expected seconds 1..31622400, or 500ms, 90s, 2m, 1h"},
    {"run widow-test", "run: unknown collective 'widow-test'; did you mean window-test?"},
    {"allreduce --itres 5", "allreduce: unknown option --itres; did you mean --iters?"},
    {"allreduce -b 2M -e 1M",
     "--min-bytes 2M is larger than --max-bytes 1M: expected the smaller first"},
    {"allreduce -b -1", "allreduce: --min-bytes (-b) -1: expected a size such as 8, 1K, 4M or 1G"},
    {"allreduce -e 99999999999G",
     "allreduce: --max-bytes (-e) 99999999999G: expected a size such as 8, 1K, 4M or 1G"},
    {"allreduce --op summ",
     "allreduce: --op summ: expected sum, prod, min, max, avg, all (or several with commas); did "
     "you mean sum?"},
    {"allreduce -d complex",
     "allreduce: --dtype (-d) complex: expected int8, uint8, int32, uint32, int64, uint64, "
     "float16, "
     "bfloat16, float32, float64, float8e4m3, float8e5m2, all (or several with commas)"},
    {"-- prog", "expected a command before --; to launch a program: collctl run -- <program>"},
    {"run -n 2 broadcast -r 2", "--root 2: expected 0..1 or all, because the job has 2 ranks"},
    {"allreduce -o report.pdf",
     "--output report.pdf: expected a name that ends in .json, .jsonl, .csv, .html or .svg"},
    {"run -n 2 -o out.csv -- true", "--output out.csv: expected a name that ends in .json"},
    {"run -n 2 --json -- true",
     "run: standard output belongs to the program: expected -o FILE.json in place of --json"},
    {"completion tcsh", "completion: 'tcsh': expected bash, zsh, fish"},
    {"env extra", "env: unexpected 'extra'; collctl env -h shows what it takes"},
    {"run __rank",
     "run: unknown collective '__rank'; a program goes after --: collctl run -- __rank"},
    {"run -n 4 allreduce --split 2 --vs nccl",
     "--vs with --split: the other library would have to be split as well; expected one of the "
     "two"},
    {"run rails --split 2", "run: --split has no meaning with rails"},
    {"run -n 6 hypercube --split 3",
     "--split: group 0 (ranks 0-2): hypercube of 3 ranks: in step k rank r exchanges with rank r ^ "
     "2^k, and not all of these exist; expected 1, 2, 4, 8, ... ranks"},
    {"run -n 2 allreduce --window --transport net",
     "--window with --transport net: no rank would map another's memory; expected one of the two"},
    {"run -n 4 --on-loss shrink --rank-mode thread allreduce",
     "--rank-mode thread with --on-loss shrink: threads of one process are lost together; expected "
     "one of the two"},
    {"run -n 2 alltoallv --min-efficiency 0.5",
     "--min-efficiency: no model knows what alltoallv should take; expected --min-busbw or "
     "--max-latency"},
    {"run -n 2 allreduce --sync each --min-efficiency 0.5",
     "--min-efficiency: no model knows what operations take that are waited for one by one (--sync "
     "each); expected --sync block, or --max-latency"},
    {"topo -H node01 --graph", "topo: -H excludes --graph"},
    {"topo -H node01 -o all.svg",
     "topo: -o all.svg: of several hosts a file each: expected %h, the host's name, in it"},
    {"check -H node01 --only fairs",
     "check: --only fairs: expected doctor, inventory, node, gpus, pairs, gpu-net, cluster, "
     "traffic, "
     "nccl, burn, counters (or several with commas); did you mean pairs?"},
};

}  // namespace

TEST_CASE("wrong input is one line and exit code 2", "[cli]") {
  for (const Case& wrong : kCases) {
    INFO(wrong.arguments);
    const Ran ran = run_collctl(wrong.arguments);
    CHECK(ran.code == 2);
    if (std::string(wrong.arguments).find("--json") == std::string::npos) CHECK(ran.out == "");
    CHECK(ran.err == format("collctl: error: {}\n", wrong.sentence));
  }
}

TEST_CASE("-o takes the endings that its help names", "[cli]") {
  const std::pair<const char*, const char*> kCommands[] = {{"allreduce", "allreduce"},
                                                           {"window-test", "window-test"},
                                                           {"rails", "rails"},
                                                           {"doctor", "doctor"},
                                                           {"check", "check"},
                                                           {"plan", "plan --from x.xml"},
                                                           {"allreduce", "run allreduce"},
                                                           {"window-test", "run window-test"},
                                                           {"rails", "run rails"}};
  for (const auto& [name, command] : kCommands) {
    const Ran help = run_collctl(std::string(name) + " --help output");
    const std::string line = help.out.substr(help.out.find("--output FILE"), 90);
    for (const char* ending :
         {".json", ".jsonl", ".csv", ".html", ".svg", ".xml", ".prom", ".pdf"}) {
      INFO(command << " " << ending << ": " << line);
      const bool named = line.find(format("{} ", ending)) != std::string::npos ||
                         line.find(format("{},", ending)) != std::string::npos;
      const Ran ran = run_collctl(format("{} -o no/such/folder/x{}", command, ending));
      CHECK(ran.code != 0);
      CHECK((ran.err.find("expected a name that ends in") == std::string::npos) == named);
    }
  }
}

TEST_CASE("with --json an error is one JSON document on standard output too", "[cli]") {
  for (const char* arguments : {"run -n 0 allreduce --json", "allreduce --json --bogus",
                                "nosuch --json", "allreduce --json --device cuda", "--json"}) {
    INFO(arguments);
    const Ran ran = run_collctl(arguments);
    const json error = json::parse(ran.out);
    CHECK(error["schema"] == "collctl.error/1");
    CHECK(error["code"] == ran.code);
    CHECK(error["message"].get<std::string>() != "");
    CHECK(error["context"].is_array());
    CHECK(error.contains("hint"));
    CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 1);
    CHECK(ran.err.find(error["message"].get<std::string>()) != std::string::npos);
  }
  // After -- the words are the program's.
  CHECK(run_collctl("run -n 0 -- prog --json").out == "");
}

TEST_CASE("no command at all is answered by the list of commands", "[cli]") {
  const Ran ran = run_collctl("");
  CHECK(ran.code == 2);
  CHECK(ran.out == "");
  CHECK(ran.err == run_collctl("-h").out);
}

TEST_CASE("devices that are not here are no usage error", "[cli]") {
  // Drivers of our own that find no GPU, so that the machine's have no say.
  const std::string none =
      "LD_LIBRARY_PATH=" + collctl::test::fake_drivers() + " FAKE_NVML=0:90:18:switch FAKE_CUDA=0";
  const Ran ran = run_collctl("allreduce --device cuda", none);
  CHECK(ran.code == 3);
  CHECK(ran.out == "");
  CHECK(ran.err.rfind("collctl: error: --device cuda: ", 0) == 0);
  CHECK(ran.err.find("\ncollctl: hint: leave --device out, or use --device cpu\n") !=
        std::string::npos);
  const Ran automatic = run_collctl("run -n 2 allreduce -e 8 --iters 1", none);
  INFO(automatic.err);
  CHECK(automatic.code == 0);
  CHECK(automatic.out.find("2 CPU ranks") != std::string::npos);
  CHECK(automatic.out.find("# on CPU cores: ") != std::string::npos);
}

TEST_CASE("ranks that another launcher has started do not go on after a loss", "[cli]") {
  const Ran ran = run_collctl("run -n 2 --on-loss shrink --launcher adopt allreduce",
                              "COLLCTL_TOKEN=a-long-enough-secret RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "
                              "MASTER_ADDR=127.0.0.1 MASTER_PORT=9");
  CHECK(ran.code == 2);
  CHECK(ran.err.rfind("collctl: error: --on-loss shrink: another launcher has started these", 0) ==
        0);
}

TEST_CASE("CPU ranks are not compared with NCCL", "[cli]") {
  const Ran ran = run_collctl("run -n 2 --device cpu allreduce --vs nccl");
  CHECK(ran.code == 2);
  CHECK(ran.err.rfind("collctl: error: --vs nccl: ", 0) == 0);
}

TEST_CASE("a soak of random operations finds nothing wrong", "[cli]") {
  for (const char* ranks : {"-n 3", "-n 2 --rank-mode thread", "-n 2 --transport net"}) {
    const Ran ran =
        run_collctl(std::string("run --device cpu ") + ranks + " soak --seed 7 --ops 150 -e 64K");
    INFO(ranks << "\n" << ran.out << ran.err);
    CHECK(ran.code == 0);
    CHECK(ran.out.find("150 of seed 7, every element right") != std::string::npos);
  }
  CHECK(run_collctl("run -n 2 soak --algo ring").code == 2);
  CHECK(run_collctl("run -n 2 allreduce --seed 3").code == 2);
}

TEST_CASE("a variable with an illegal value stops every job", "[cli]") {
  for (const char* arguments : {"run -n 2 allreduce", "run -n 2 -- true", "allreduce"}) {
    const Ran ran = run_collctl(arguments, "COLLCTL_STEPS=banana");
    CHECK(ran.code == 2);
    CHECK(ran.err == "collctl: error: COLLCTL_STEPS = 'banana': expected a whole number 2..64\n");
  }
  // A value that only ranks understand is refused with the variable's name as well.
  for (const char* name : {"COLLCTL_ALGO", "NCCL_PROTO"}) {
    const Ran ran = run_collctl("run -n 2 allreduce -e 8", std::string(name) + "=banana");
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.err.find(std::string(name) + ": ") != std::string::npos);
    CHECK(ran.err.find("'banana' is unknown; expected ") != std::string::npos);
  }
}

}  // namespace usage_tests
