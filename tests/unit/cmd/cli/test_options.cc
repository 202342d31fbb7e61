// Options of the command line: their spelling, their values, and what they mean together.
#include "cmd/job/config.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace cli_options_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;
using namespace collctl::cmd::testing;

TEST_CASE("options are taken before and after the collective, in every spelling", "[cmd]") {
  for (const char* line :
       {"run -n 4 allreduce -b 1K --iters 7", "run --ranks=4 -b1K --iters=7 allreduce",
        "run allreduce -n4 --min-bytes 1K --iters 7", "run --iters 7 -b 1K -n 4 allreduce"}) {
    const ParsedLine parsed = good(line);
    CHECK(parsed.command->kind == CommandKind::run);
    REQUIRE(parsed.collective != nullptr);
    CHECK(bench(line).collective == Collective::all_reduce);
    CHECK(parsed.text("ranks") == "4");
    CHECK(parsed.text("min-bytes") == "1K");
    CHECK(parsed.number("iters", 0) == 7);
  }
}

TEST_CASE("the last of a repeated option counts, repeatable ones add up", "[cmd]") {
  const ParsedLine parsed = good("run -n 2 -n 3 allreduce -x A=1 -x B* -vv -v -o a.json -o b.csv");
  CHECK(parsed.text("ranks") == "3");
  CHECK(parsed.all("env") == std::vector<std::string>{"A=1", "B*"});
  CHECK(parsed.times("verbose") == 3);
  CHECK(parsed.all("output").size() == 2);
}

TEST_CASE("what stands after the first -- is the program's", "[cmd]") {
  const ParsedLine parsed = good("run -n 2 -- prog --iters 3 -- -n");
  CHECK(parsed.has_program);
  CHECK(parsed.program == std::vector<std::string>{"prog", "--iters", "3", "--", "-n"});
  CHECK(parsed.text("ranks") == "2");
  CHECK(usage_error("run -n 2 --") == "run: expected a program after --");
  CHECK(usage_error("run extra -- prog") ==
        "run: unexpected 'extra' before --; the program goes after it");
  CHECK(usage_error("run --iters 3 -- prog") ==
        "run: --iters measures a collective; it has no meaning with a program");
  CHECK(usage_error("run --stdin all allreduce") ==
        "run: --stdin has no meaning with a collective; it is for collctl run -- <program>");
  CHECK(usage_error("allreduce -- prog") ==
        "allreduce: allreduce takes no program; to launch one: collctl run -- <program>");
}

TEST_CASE("mistakes are one sentence that says what was expected", "[cmd]") {
  CHECK(usage_error("alreduce") == "unknown command 'alreduce'; did you mean allreduce?");
  CHECK(usage_error("tpo") == "unknown command 'tpo'; did you mean topo?");
  CHECK(usage_error("foo") == "unknown command 'foo'; collctl -h lists the commands");
  CHECK(usage_error("frobnicate") == "unknown command 'frobnicate'; collctl -h lists the commands");
  CHECK(usage_error("-n 4 run allreduce") ==
        "unknown option -n; the command comes first, for example: collctl run -n 4 allreduce");
  CHECK(usage_error("run") ==
        "run: expected a collective or -- and a program; for example: "
        "collctl run -n 4 allreduce");
  CHECK(usage_error("run -n 2 allredcue") ==
        "run: unknown collective 'allredcue'; did you mean allreduce?");
  CHECK(usage_error("run -n 2 hostname") ==
        "run: unknown collective 'hostname'; a program goes after --: "
        "collctl run -n 2 -- hostname");
  CHECK(usage_error("run allreduce --itres 3") ==
        "run: unknown option --itres; did you mean --iters?");
  CHECK(usage_error("run allreduce --min_bytes 3") ==
        "run: unknown option --min_bytes; did you mean --min-bytes?");
  CHECK(usage_error("run allreduce --transp=shm") ==
        "run: unknown option --transp; did you mean --transport?");
  CHECK_THAT(usage_error("allreduce -d flot"), Catch::Matchers::EndsWith("; did you mean float?"));
  CHECK_THAT(usage_error("allreduce -d flaot32"),
             Catch::Matchers::EndsWith("; did you mean float32?"));
  CHECK_THAT(usage_error("allreduce -d zzz"),
             Catch::Matchers::EndsWith("(or several with commas)"));
  CHECK(usage_error("run -Q a,b allreduce") ==
        "run: unknown option -Q; collctl run -h lists the options");
  CHECK(usage_error("env --iters 3") ==
        "env: unknown option --iters; it belongs to collctl run <collective>");
  CHECK(usage_error("run allreduce --iters") == "run: --iters needs a value: N");
  CHECK(usage_error("run allreduce --json=yes") == "run: --json takes no value");
  CHECK(usage_error("run allreduce more") ==
        "run: unexpected 'more'; collctl run -h shows what it takes");
  CHECK(usage_error("completion") == "completion: expected bash|zsh|fish");
  CHECK(usage_error("completion tcsh") == "completion: 'tcsh': expected bash, zsh, fish");
  CHECK(usage_error("man") == "man: expected DIR");
}

TEST_CASE("options of other tools get ours, to paste", "[cmd]") {
  CHECK(usage_error("run -np 4 allreduce") ==
        "run: unknown option --np; mpirun's --np 4 is -n 4 here");
  CHECK(usage_error("run --np=4 allreduce") ==
        "run: unknown option --np; mpirun's --np 4 is -n 4 here");
  CHECK(usage_error("allreduce -host a,b") ==
        "allreduce: unknown option --host; mpirun's --host a,b is -H a,b here");
  CHECK(usage_error("run -mca btl tcp allreduce") ==
        "run: unknown option --mca; mpirun's --mca btl: leave it out: collctl env lists the "
        "variables that matter");
  CHECK(usage_error("run -ppn 2 allreduce") ==
        "run: unknown option --ppn; mpirun's --ppn 2 is -N 2 here");
  CHECK(usage_error("run --nproc_per_node=8 -- train") ==
        "run: unknown option --nproc_per_node; torchrun's --nproc_per_node 8 is -N 8 here");
  CHECK(usage_error("run --nnodes 2 -- train") ==
        "run: unknown option --nnodes; torchrun's --nnodes 2 is -H LIST here");
  CHECK(usage_error("run --rdzv-endpoint h:29400 allreduce") ==
        "run: unknown option --rdzv-endpoint; torchrun's --rdzv-endpoint h:29400 is --join "
        "h:29400 --rank R --size N here");
  CHECK(usage_error("doctor -w node[01-04]") ==
        "doctor: unknown option -w; pdsh's -w 'node[01-04]' is -H 'node[01-04]' here");
  CHECK(usage_error("run -w node[01-04] -- uptime") ==
        "run: --warmup node[01-04]: expected a whole number; pdsh's -w 'node[01-04]' is -H "
        "'node[01-04]' here");
  CHECK(usage_error("run -l root -H a -- uptime") ==
        "run: unknown option -l; pdsh's -l root is --ssh-user root here");
  CHECK(usage_error("run -R ssh -H a allreduce") ==
        "run: unknown option -R; nccl-tests' -R ssh is --window here; pdsh's -R ssh is "
        "--ssh-client auto|libssh2|openssh here");
  CHECK(usage_error("allreduce --warmup_iters 3") ==
        "allreduce: unknown option --warmup_iters; nccl-tests' --warmup_iters 3 is --warmup 3 "
        "here");
  CHECK(usage_error("allreduce -G 2") ==
        "allreduce: unknown option -G; nccl-tests' -G 2 is --cuda-graph 2 here");
  CHECK(usage_error("allreduce -i 1048576") ==
        "allreduce: --identity 1048576: no such file; nccl-tests' -i 1048576 is --step-bytes "
        "1048576 here");
  CHECK(usage_error("allreduce --bytes 1M") ==
        "allreduce: unknown option --bytes; collctl plan's --bytes 1M is -b 1M -e 1M here");
  CHECK(usage_error("allreduce --size 1M") ==
        "allreduce: --size 1M: expected how many ranks join; perftest's --size 1M is -b 1M -e 1M "
        "here");
  CHECK(usage_error("plan -n 16") ==
        "plan: unknown option -n; collctl run's -n 16 is --nodes 16 here");
  CHECK(usage_error("plan -H a") ==
        "plan: unknown option -H; collctl run's -H a is --nodes N here");
  CHECK(usage_error("topo --svg a.svg") ==
        "topo: unknown option --svg; a picture's --svg a.svg is -o a.svg here");
  CHECK(usage_error("topo -m") == "topo: unknown option -m; nvidia-smi's -m is --matrix here");
  CHECK(usage_error("all_reduce_perf -g 8") ==
        "unknown command 'all_reduce_perf'; did you mean allreduce?");
  // An option that has an equal works.
  CHECK(good("run -hostfile h -oversubscribe allreduce").text("hostfile") == "h");
  // A row of the table must name options that are there.
  for (const char* command : {"run", "allreduce", "doctor", "topo", "plan"})
    CHECK(foreign_option(*find_command(command), "--no-such", "").empty());
  CHECK(foreign_option(*find_command("plan"), "--np", "4").empty());
}

TEST_CASE("a word that stands for an option is said", "[cmd]") {
  CHECK(usage_error("topo node.xml") ==
        "topo: unexpected 'node.xml'; did you mean --from node.xml?");
  CHECK(usage_error("topo --diff a.xml b.xml") ==
        "topo: unexpected 'b.xml'; did you mean --diff b.xml --from a.xml?");
  for (const std::string command : {"check", "doctor", "rails", "topo"})
    CHECK(usage_error(command + " node01") ==
          command + ": unexpected 'node01'; did you mean -H node01?");
  CHECK(usage_error("run -H a b -- hostname") == "run: unexpected 'b'; did you mean -H a,b?");
  CHECK(usage_error("run -H a b allreduce") ==
        "run: unknown collective 'b'; hosts have commas between them: -H a,b");
  CHECK(
      usage_error("run -H a hostname") ==
      "run: unknown collective 'hostname'; a program goes after --: collctl run -H a -- hostname");
  CHECK(usage_error("run allreduce more") ==
        "run: unexpected 'more'; collctl run -h shows what it takes");
  for (const std::string hosts : {"./hosts", "^./hosts", "@./hosts"})
    CHECK(usage_error("doctor -H " + hosts) ==
          "doctor: -H " + hosts + ": expected hosts; a file of them goes to --hostfile ./hosts");
  CHECK(good("run -H @half --hostfile h allreduce").text("hosts") == "@half");
}

TEST_CASE("plan's collective is a word, and --op a reduction", "[cmd]") {
  CHECK(good("plan alltoall").words == std::vector<std::string>{"alltoall"});
  const ParsedLine before = good("plan --op alltoall");
  CHECK(before.words == std::vector<std::string>{"alltoall"});
  CHECK_FALSE(before.has("op"));
  CHECK(before.notes == std::vector<std::string>{
                            "--op alltoall is collctl plan alltoall here; --op is a reduction"});
  CHECK(usage_error("plan gather --op alltoall") ==
        "plan: --op alltoall beside gather: expected one collective");
  CHECK(usage_error("plan --op sum").starts_with("plan: --op sum: expected allreduce, "));
  CHECK(usage_error("plan sum").starts_with("plan: 'sum': expected allreduce, "));
}

TEST_CASE("a value that means another is said", "[cmd]") {
  const auto ends = [](const std::string& line, const std::string& end) {
    INFO(line);
    CHECK(usage_error(line).ends_with("; did you mean " + end + "?"));
  };
  ends("allreduce --device gpu", "cuda");
  ends("allreduce --device GPUs", "cuda");
  ends("allreduce --op add", "sum");
  ends("allreduce --op mean", "avg");
  ends("allreduce -o json", "--json");
  ends("check --level fast", "quick");
  ends("run --map-by node allreduce", "host");
  ends("run --map-by ppr:4:node allreduce", "-N 4");
  ends("run --bind-to socket allreduce", "numa");
  ends("allreduce --transport ib", "--transport net --net ib");
}

TEST_CASE("a program's name without -- shows the whole line with it", "[cmd]") {
  CHECK(usage_error("run -n 2 python3 -c print(1)") ==
        "run: unknown collective 'python3'; a program goes after --: collctl run -n 2 -- python3 "
        "-c 'print(1)'");
  // Its options are not ours.
  CHECK(usage_error("run -n2 -x A=1 ./reduce.py --lr 3 -Q")
            .ends_with("collctl run -n2 -x A=1 -- ./reduce.py --lr 3 -Q"));
  // A mistake before it is.
  CHECK(usage_error("run --bogus 3 python3") ==
        "run: unknown option --bogus; collctl run -h lists the options");
}

TEST_CASE("nccl-tests' options mean the same where they can", "[cmd]") {
  CHECK(bench("allreduce -d float").types == std::vector{kernels::DataType::float32});
  CHECK(bench("allreduce -d half,double").types ==
        std::vector{kernels::DataType::float16, kernels::DataType::float64});
  CHECK(bench("allreduce -w 2 -c 0").warmup == 2);
  CHECK_FALSE(bench("allreduce -w 2 -c 0").check);
  const ParsedLine operation = good("allreduce -o max -o r.json");
  CHECK(bench("allreduce -o max").ops == std::vector{kernels::RedOp::max});
  CHECK(operation.all("output") == std::vector<std::string>{"r.json"});
  CHECK(operation.notes ==
        std::vector<std::string>{"-o max: taken as the operation (--op max); a file's name has an "
                                 "ending, such as .json"});
  CHECK(bench("allreduce -o add").ops == std::vector{kernels::RedOp::sum});
  CHECK(interpret_launch(good("allreduce -g 8"))->ranks == 8);
  CHECK(interpret_launch(good("allreduce -t 2 -g 4"))->ranks == 8);
  CHECK(good("allreduce -t 2 -g 4").notes == std::vector<std::string>{"-t 2 -g 4 is -n 8 here"});
  CHECK(interpret_launch(good("allreduce -H a,b -g 4"))->per_host == 4);
  CHECK(usage_error("allreduce -g 8 -n 100") ==
        "allreduce: -n 100 beside -g 8: -n is the number of ranks here; for iterations write -n 8 "
        "--iters 100");
  CHECK(good("allreduce -g 8 -n 8").text("ranks") == "8");
  // -n that the hosts have no room for, beside such options.
  const auto much = interpret_launch(good("run -H a:8 -n 100 allreduce -w 5"));
  REQUIRE_FALSE(much.ok());
  CHECK(much.error().hint.find("nccl-tests' -n 100 is --iters 100") != std::string::npos);
  CHECK(interpret_launch(good("allreduce -n 100"))->iterations_hint.empty());
  CHECK_FALSE(interpret_launch(good("allreduce -n 100 -w 5"))->iterations_hint.empty());
}

TEST_CASE("a collective takes what run takes", "[cmd]") {
  for (const Option& option : options())
    for (const char* name : {"allreduce", "barrier"}) {
      INFO(option.name);
      if ((option.scopes & kBench) != 0) CHECK(applies(option, *find_command(name)));
    }
  const auto launch = interpret_launch(good("allreduce -H a:2,b:2 -N 2 -x A=1 --map-by host"));
  REQUIRE(launch.ok());
  CHECK(launch->launcher == LauncherKind::ssh);
  CHECK(launch->ranks == 4);
  CHECK(launch->per_host == 2);
  CHECK(launch->export_env == std::vector<std::string>{"A=1"});
  CHECK(interpret_launch(good("window-test -H a:2,b:2"))->ranks == 4);
}

TEST_CASE("values are checked against the table", "[cmd]") {
  CHECK(usage_error("run -n 0 allreduce") ==
        "run: --ranks (-n) 0: expected a whole number 1..65536");
  CHECK(usage_error("run -n 65537 allreduce") ==
        "run: --ranks (-n) 65537: expected a whole number 1..65536");
  CHECK(usage_error("run -n -1 allreduce") ==
        "run: --ranks (-n) -1: expected a whole number 1..65536");
  CHECK(usage_error("run -n 99999999999999999999 allreduce") ==
        "run: --ranks (-n) 99999999999999999999: expected a whole number 1..65536");
  CHECK(usage_error("run -n 4x allreduce") ==
        "run: --ranks (-n) 4x: expected a whole number 1..65536");
  CHECK(usage_error("run allreduce -b 8q") ==
        "run: --min-bytes (-b) 8q: expected a size such as 8, 1K, 4M or 1G");
  CHECK(usage_error("run allreduce --op maxx") ==
        "run: --op maxx: expected sum, prod, min, max, avg, all (or several with commas); "
        "did you mean max?");
  CHECK(usage_error("run allreduce -d float33").find("did you mean float32?") != std::string::npos);
  CHECK(usage_error("run allreduce -d float32,") != "");
  CHECK(usage_error("run broadcast -r none") ==
        "run: --root (-r) none: expected a whole number 0..65535 or all");
  CHECK(usage_error("run allreduce --timeout nan") ==
        "run: --timeout nan: expected seconds 0.001..31536000, or 500ms, 90s, 2m, 1h");
  CHECK(usage_error("run allreduce --min-efficiency 80") ==
        "run: --min-efficiency 80: expected F[@SIZE]: a ratio, or with %, with @ and a size if not "
        "the default one");
  CHECK(
      usage_error("run allreduce --min-busbw 1MB/s") ==
      "run: --min-busbw 1MB/s: expected X[@SIZE]: GB/s, with @ and a size if not the default one");
  CHECK(usage_error("run rails --below 70") ==
        "run: --below 70: expected a ratio 0..1, or 0%..100%");
  const ParsedLine with_units =
      good("run allreduce --timeout 2m --grace 500ms --min-efficiency 80% --min-busbw 1.5GB/s@4M");
  CHECK(with_units.number("timeout", 0) == 120);
  CHECK(with_units.number("grace", 0) == 0.5);
  CHECK(with_units.number("min-efficiency", 0) == 0.8);
  CHECK(usage_error("run allreduce --timeout 0x10") != "");
  CHECK(usage_error("run allreduce --min-busbw 3@") != "");
  CHECK(usage_error("run allreduce --check 2") == "run: --check (-c) 2: expected 0, 1");
  CHECK(usage_error("run allreduce --transport ib") ==
        "run: --transport ib: expected loopback, p2p, shm, net; did you mean --transport net --net "
        "ib?");
}

TEST_CASE("values that need each other are checked together", "[cmd]") {
  CHECK(bench_error("run allreduce -b 2K -e 1K") ==
        "--min-bytes 2K is larger than --max-bytes 1K: expected the smaller first");
  CHECK(bench_error("run allreduce -b 1G") == "");
  CHECK(bench_error("run allreduce -e 4") == "");
  CHECK(bench_error("run allreduce --step-bytes 1K -f 4") ==
        "--step-bytes and --step-factor exclude each other");
  CHECK(bench_error("run allreduce --step-bytes 1 -e 1G") ==
        "--step-bytes 1 makes more than 100000 sizes: expected a larger step");
  CHECK(bench_error("run allreduce -r 4") ==
        "--root 4: expected 0..3 or all, because the job has 4 ranks");
  CHECK(bench_error("run broadcast -r 4") ==
        "--root 4: expected 0..3 or all, because the job has 4 ranks");
  CHECK(bench_error("run allgather --algo tree") ==
        "--algo tree: does not serve allgather; expected ring, bruck, one-shot");
  CHECK(bench_error("run reducescatter --algo bruck") ==
        "--algo bruck: does not serve reducescatter; expected ring, halving, one-shot");
  CHECK(bench_error("run allreduce -o x.pdf") ==
        "--output x.pdf: expected a name that ends in .json, .jsonl, .csv, .html or .svg");
  CHECK(bench_error("run allreduce -o x.svg -o x.html") == "");
  CHECK(good("allreduce -o - -o r.csv").has("json"));
  CHECK(good("allreduce -o - -o r.csv").all("output") == std::vector<std::string>{"r.csv"});
  CHECK(good("doctor -o -").has("json"));
  CHECK(good("topo -o -").text("output") == "-");
  CHECK(bench_error("run sendrecv --in-place 1") ==
        "--in-place 1: sendrecv has no in-place form; expected 0 or both");
  CHECK(bench_error("run allreduce -o dir.d/json") != "");
  CHECK(bench_error("run allreduce --json --csv") == "--json and --csv exclude each other");
  CHECK(bench_error("run allreduce --format nccl-tests") == "");
  CHECK(usage_error("run allreduce --budget 5") == "run: --budget is for collctl run window-test");
  CHECK(bench_error("run window-test --budget 5") == "");
  CHECK(bench_error("run allreduce --json --format csv") ==
        "--json and --csv are formats themselves; expected one of them or --format");
  CHECK(bench_error("run barrier --format nccl-tests") ==
        "--format nccl-tests: nccl-tests has no barrier; expected another format");
  CHECK(bench_error("run allreduce --plot --format nccl-tests") ==
        "--plot draws below the table; it excludes --json, --csv and --format");
  CHECK(bench_error("run allreduce --device cpu --min-busbw 1@3M") ==
        "--min-busbw: 3M is not among the measured sizes 8 .. 16M; the nearest is 2M");
  // Where ranks may be on GPUs sizes may go further.
  CHECK(bench_error("run allreduce --min-busbw 1@64M") == "");
  CHECK(bench_error("run allreduce --device cpu --min-busbw 1@64M") != "");
  CHECK(bench_error("run allreduce --min-busbw 1@4M --max-latency 10@8") == "");
  CHECK(bench_error("run -n 8 -N 4 allreduce") ==
        "--ranks 8 with --ranks-per-host 4 needs 2 hosts: expected at most 4 ranks on this one");
  CHECK(bench_error("run --rank 1 allreduce") == "--rank is for --join HOST:PORT");
  CHECK(bench_error("run --join 127.0.0.1:5000 --rank 1 allreduce") ==
        "--join needs --rank R and --size N; --size is missing");
  CHECK(bench_error("run --join 127.0.0.1:5000 --rank 2 --size 2 allreduce") ==
        "--rank 2: expected 0..1, because --size is 2");
  CHECK(bench_error("run --join 127.0.0.1:5000 --rank 1 --size 2 allreduce") == "");
  CHECK(bench_error("run --join 10.1.2.3:5000 --rank 1 --size 2 allreduce") ==
        "--join 10.1.2.3:5000 needs a token: --token-file FILE or COLLCTL_TOKEN (only a loopback "
        "address goes without)");
}

TEST_CASE("what only GPUs can is no option of CPU ranks", "[cmd]") {
  const auto on_cores = [](const char* line) {
    const auto spec = settled(bench(line), false);
    return spec.ok() ? std::string() : spec.error().message;
  };
  CHECK(on_cores("allreduce") == "");
  CHECK(on_cores("allreduce --vs nccl") == "--vs nccl: NCCL works on GPUs, these are CPU ranks");
  CHECK(on_cores("allreduce --cuda-graph 10") == "--cuda-graph: these are CPU ranks");
  CHECK(on_cores("allreduce --transport p2p") == "--transport p2p joins GPUs, these are CPU ranks");
  CHECK(settled(bench("allreduce --vs nccl --device cpu"), false).error().code == ErrorCode::usage);
  CHECK(settled(bench("allreduce --vs nccl"), false).error().code == ErrorCode::unavailable);
  CHECK(on_cores("allreduce --proto ll128") == "--proto ll128 is for GPUs, these are CPU ranks");
  CHECK(settled(bench("allreduce --proto ll128"), false).error().code == ErrorCode::usage);
  CHECK(settled(bench("allreduce --proto ll128"), true).ok());
  CHECK(settled(bench("allreduce --proto ll128,simple"), false).ok());  // simple is measured
  CHECK(bench("allreduce --vs nccl --vs-config best").versus_best);
  CHECK_FALSE(bench("allreduce --vs nccl --vs-config ring,tree").versus_best);
  CHECK(bench_error("allreduce --vs-config ring") == "--vs-config is for --vs nccl");
  CHECK(bench("barrier --vs mpi --device cpu").rival == Rival::mpi);
  CHECK(bench("barrier --vs mpi").versus == std::vector<std::string>{"default"});
  CHECK(bench_error("allreduce --vs mpi --vs-config ring") == "--vs-config is for --vs nccl");
  CHECK(bench_error("allreduce --vs mpi -m 4") == "--agg-iters with --vs mpi: MPI has no groups");
  CHECK(bench_error("allreduce --vs mpi --integrity")
            .rfind("--vs mpi with --integrity (COLLCTL_INTEGRITY): MPI's data carries no MACs",
                   0) == 0);
  CHECK(bench_error("hypercube -m 4") ==
        "--agg-iters: the steps of hypercube wait for one another, so several cannot be one group");
  for (const char* other :
       {"vs nccl", "stragglers", "trace f", "thresholds f", "baseline f", "save-baseline f"}) {
    const std::string line = std::string("allreduce --split 2 --") + other;
    INFO(line);
    CHECK(bench_error(line).find("with --split: ") != std::string::npos);
  }
  CHECK(bench_error("allreduce --split mod:") ==
        "--split mod:: expected 4 or div:4, mod:2, and:0x7, or:0x7, ranks:0-3,8/4-7, host or numa");
  for (const char* other :
       {"vs nccl", "window", "stragglers", "trace f", "thresholds f", "baseline f",
        "save-baseline f", "rank-mode thread", "join 127.0.0.1:5000 --rank 0 --size 2"}) {
    const std::string line = std::string("allreduce --on-loss shrink --") + other;
    INFO(line);
    CHECK(bench_error(line).find("with --on-loss shrink: ") != std::string::npos);
  }
  CHECK(bench_error("hypercube --on-loss shrink") ==
        "--on-loss shrink: hypercube works with 1, 2, 4, 8, ... ranks only");
  CHECK(bench_error("soak --on-loss shrink").rfind("--on-loss shrink has no meaning", 0) == 0);
  CHECK(bench("allreduce --split 2 --on-loss shrink").split.text() == "2");
  CHECK(bench_error("broadcast --split 2 --on-loss shrink") ==
        "--split with --on-loss shrink and broadcast: roots count within each group, and would be "
        "others after a loss");
  CHECK(bench_error("soak --split 2") == "--split has no meaning for the soak");
  CHECK(bench_error("barrier --vs nccl") == "--vs nccl: NCCL has no barrier");
  CHECK(bench_error("gather --vs nccl --vs-config default,tree") ==
        "--vs-config tree: does not serve gather; expected default, registered");
  CHECK(bench("gather --vs nccl --vs-config best").versus ==
        std::vector<std::string>{"default", "registered"});
  CHECK(usage_error("allreduce --vs nccl --vs-config circle")
            .rfind("allreduce: --vs-config circle: expected default, ring", 0) == 0);
}

TEST_CASE("on GPUs sizes go further, unless they are given", "[cmd]") {
  const auto most = [](const char* line, bool on_gpus) {
    const auto spec = settled(bench(line), on_gpus);
    REQUIRE(spec);
    return spec->max_bytes;
  };
  CHECK(most("allreduce", false) == 16u << 20);
  CHECK(most("allreduce", true) == 128u << 20);
  CHECK(most("allreduce -e 1M", true) == 1u << 20);
  CHECK(most("allreduce -b 256M", true) == 256u << 20);
  CHECK(most("soak", true) == 4u << 20);
  CHECK(bench("allreduce --vs nccl").versus == std::vector<std::string>{"default"});
  CHECK(bench("allreduce --vs nccl --vs-config ring,symmetric").versus ==
        std::vector<std::string>{"ring", "symmetric"});
  CHECK(bench("allreduce --vs nccl --vs-config best").versus == versus_variants());
  CHECK(bench("allreduce --device cuda").device_request == DeviceRequest::cuda);
}

TEST_CASE("a line becomes a spec", "[cmd]") {
  const BenchSpec defaults = bench("allreduce");
  CHECK(defaults.min_bytes == 8);
  CHECK(defaults.max_bytes == 16u << 20);
  CHECK(defaults.step_factor == 2);
  CHECK(defaults.iterations == 20);
  CHECK(defaults.warmup == 5);
  CHECK_FALSE(defaults.sync_each);
  CHECK(defaults.check);
  CHECK(defaults.in_place == InPlace::both);
  CHECK(defaults.algorithms.empty());
  CHECK(defaults.types == std::vector{kernels::DataType::float32});

  const std::string line =
      "reduce -d all --op min,max -r all --algo all --proto ll --sync each --check 0 --in-place 1 "
      "--channels 3 --transport net --op-timeout 2.5";
  const BenchSpec all = bench(line);
  CHECK(all.types.size() == size_t(kernels::kDataTypeCount));
  CHECK(all.ops == std::vector{kernels::RedOp::min, kernels::RedOp::max});
  CHECK(all.roots == std::vector{-1});
  CHECK_FALSE(all.algorithms.empty());
  CHECK(all.protocols == std::vector<std::string>{"ll"});
  CHECK(all.sync_each);
  CHECK_FALSE(all.check);
  CHECK(all.in_place == InPlace::in_place);
  CHECK(all.channels == 3);
  CHECK(all.transport == "net");
  CHECK(completed(all, *interpret_launch(good(line))).op_timeout_s == 2.5);
}

template <class R>
static void take_defaults() {
  R record{};
  each_option_of(record, [&](const Option& option, void* at) {
    const bool word = option.kind == ValueKind::text || option.kind == ValueKind::file ||
                      option.kind == ValueKind::directory;
    if (word || !is_field(option) || !takes_value(option)) return;
    if (!check_value(option, option.fallback)) return;
    const auto field = [&] {
      JsonWriter out;
      out.begin_object();
      Record io(out);
      option.fills.field(io, option, "value", at);
      return out.end_object().take();
    };
    const std::string before = field();
    if (before == R"({"value":""})") return;  // as a variable says
    INFO("--" << option.name << " " << option.fallback);
    CHECK(option.fills.read(option, {option.fallback}, at));
    CHECK(field() == before);
  });
}

TEST_CASE("what help shows as the default is what is taken when nothing is given", "[cmd]") {
  take_defaults<BenchSpec>();
  take_defaults<WindowTestSpec>();
  take_defaults<LaunchOptions>();
}

TEST_CASE("--window: where it means something", "[cmd]") {
  CHECK_FALSE(bench("allreduce").window);
  CHECK(bench("allreduce --window").window);
  CHECK(bench("run -n 4 sendrecv --window --net socket").window);
  CHECK(bench("run -n 4 soak --window --seed 5").window);
  CHECK(bench("allreduce --window --transport shm").window);
  CHECK(bench_error("run -n 4 allreduce --window --transport net") ==
        "--window with --transport net: no rank would map another's memory; expected one of the "
        "two");
  CHECK(bench_error("run -n 4 window-test --window") == "--window has no meaning for window-test");
  CHECK(useless_options(good("barrier --window")) ==
        std::vector<std::string>{"--window has no meaning for a barrier: it moves no data"});
  CHECK(useless_options(good("alltoall --window")).empty());
}

TEST_CASE("options without meaning for a collective are said, not refused", "[cmd]") {
  CHECK(useless_options(good("allgather --op sum -r 1")).size() == 2);
  CHECK(useless_options(good("barrier -b 8")).size() == 1);
  CHECK(useless_options(good("reduce --op sum -r 1")).empty());
}

TEST_CASE("help is given whatever else is wrong with the line", "[cmd]") {
  for (const char* line : {"run --help", "run --bogus --help", "run nosuch -h", "run -n 0 -h",
                           "--help", "nosuch --help", "completion --help", "run -b --help"})
    CHECK(good(line).help);
  CHECK(good("run -h").help_topic.empty());
  CHECK(good("run --help all").help_topic == "all");
  CHECK(good("run --help=hosts").help_topic == "hosts");
  CHECK(good("run --help map-by allreduce").help_topic == "map-by");
  CHECK(good("run --help allreduce").help_topic.empty());
  CHECK(good("run --help -n 4").help_topic.empty());
  CHECK(good("run -h nonsense").help_topic.empty());
  CHECK(good("--help run").command == find_command("run"));
  // After -- it is the program's.
  CHECK_FALSE(good("run -- prog --help").help);
}

TEST_CASE("the tables are whole", "[cmd]") {
  for (const Option& option : options()) {
    INFO(option.name);
    // One name or letter means one thing to each command.
    for (const Option& other : options()) {
      if (&other == &option || (other.scopes & option.scopes) == 0) continue;
      CHECK(std::string(other.name) != option.name);
      if (option.letter != 0) CHECK(other.letter != option.letter);
    }
    CHECK(std::string(option.help).size() > 5);
    CHECK(option.scopes != 0);
    if (takes_value(option)) {
      CHECK(std::string(option.value) != "");
      CHECK(std::string(option.fallback) != "");
      // A default that is a value of the option is a legal one.
      const std::string word = option.fallback;
      const bool spoken = word == "none" || word == "all" || word == "chosen" ||
                          word.find(' ') != std::string::npos;
      if (!spoken) CHECK(check_value(option, word).ok());
    }
  }
  std::set<std::string> commands_seen;
  for (const Command& command : commands()) {
    CHECK(commands_seen.insert(command.name).second);
    CHECK((command.run == nullptr) == (command.kind == CommandKind::internal));
  }
  for (int c = 0; c < kernels::kCollectiveCount; ++c) {
    const Command* row = find_collective(kernels::name_of(Collective(c)));
    REQUIRE(row != nullptr);
    CHECK(bench(kernels::name_of(Collective(c))).collective == Collective(c));
  }
}

}  // namespace cli_options_tests
