// The real binary's output about itself: help, env, version, completions, manual; and where it
// prints it.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fd.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/version.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"
#include "tests/places.h"

namespace text_tests {

using collctl::format;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = collctl::test::source_folder();

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// A terminal to print to: what arrives there.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
    REQUIRE(master_);
    REQUIRE(::grantpt(master_.get()) == 0);
    REQUIRE(::unlockpt(master_.get()) == 0);
    path_ = ::ptsname(master_.get());
    slave_ = collctl::base::Fd(::open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(slave_);
  }
  const std::string& path() const { return path_; }
  std::string text() {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::read(master_.get(), buffer, sizeof buffer)) > 0;)
      all.append(buffer, size_t(n));
    return all;
  }

 private:
  collctl::base::Fd master_, slave_;
  std::string path_;
};

}  // namespace

TEST_CASE("help goes to standard output and ends well", "[cli]") {
  for (const char* arguments :
       {"-h", "--help", "help", "run -h", "run --help", "help run", "allreduce --help",
        "barrier -h", "env -h", "version -h", "completion -h", "man -h", "run --bogus -h"}) {
    INFO(arguments);
    const Ran ran = run_collctl(arguments);
    CHECK(ran.code == 0);
    CHECK(ran.err == "");
    CHECK(has(ran.out, "Usage: collctl"));
  }
  CHECK(run_collctl("help run").out == run_collctl("run --help").out);
  CHECK(run_collctl("-h run").out == run_collctl("run -h").out);
  CHECK(has(run_collctl("run --help all").out, "Exit codes:"));
  CHECK_FALSE(has(run_collctl("run -h").out, "Exit codes:"));
  for (const char* line : {"help run nonsense", "run --help nonsense", "run --help=nonsense"}) {
    const Ran unknown = run_collctl(line);
    CHECK(unknown.code == 2);
    CHECK(unknown.out == "");
    CHECK(has(unknown.err, "help about 'nonsense'; expected all, launch, hosts,"));
  }
  CHECK(run_collctl("completion -h").out ==
        "Usage: collctl completion bash|zsh|fish\n"
        "\n"
        "print a completion script for a shell\n"
        "\n"
        "General:\n"
        "      --color WHEN            colours in what is printed [auto]\n"
        "  -h, --help                  this; --help all: everything, --help TOPIC: a part\n"
        "\n"
        "Examples:\n"
        "  source <(collctl completion bash)  # in ~/.bashrc\n"
        "  collctl completion zsh > ~/.zfunc/_collctl  # a folder in $fpath\n"
        "  collctl completion fish > ~/.config/fish/completions/collctl.fish  # for fish\n"
        "\n"
        "collctl completion --help TOPIC says more: all, general, examples, exit-codes,\n"
        "or an option's name\n");
}

TEST_CASE("help fits on a screen, and has the rest by topic", "[cli]") {
  for (const char* command :
       {"", "run", "allreduce", "broadcast", "barrier", "window-test", "rails", "topo", "plan",
        "report", "doctor", "check", "env", "version", "token", "completion", "man"}) {
    const std::string text = run_collctl(std::string(command) + " --help").out;
    INFO(text);
    CHECK(std::count(text.begin(), text.end(), '\n') <= 40);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
  const std::string hosts = run_collctl("run --help hosts").out;
  CHECK(has(hosts, "--known-hosts"));
  CHECK(has(hosts, "strict: known ones."));  // the long form
  CHECK_FALSE(has(hosts, "--iters"));
  CHECK(has(run_collctl("allreduce --help measure").out, "--warmup"));
  CHECK(has(run_collctl("run --help exit-codes").out, "wrong data"));
  CHECK(has(run_collctl("run --help examples").out, "./train"));
  CHECK(run_collctl("run --help map-by").out.rfind("      --map-by WHAT", 0) == 0);
}

TEST_CASE("colours are for who looks", "[cli]") {
  Terminal terminal;
  const auto on_terminal = [&](const std::string& variables) {
    run_collctl("nonsense 2> " + terminal.path(), "TERM=xterm " + variables);
    return has(terminal.text(), "\033[");
  };
  CHECK(on_terminal(""));
  CHECK_FALSE(on_terminal("NO_COLOR=1"));
  CHECK_FALSE(has(run_collctl("nonsense", "TERM=xterm").err, "\033["));
  // Said is said, before the command as behind it.
  CHECK(has(run_collctl("nonsense --color always", "TERM=xterm").err, "\033["));
  CHECK(has(run_collctl("nonsense --color=always", "NO_COLOR=1").err, "\033["));
  run_collctl("nonsense --color never 2> " + terminal.path(), "TERM=xterm");
  CHECK_FALSE(has(terminal.text(), "\033["));
  CHECK(run_collctl("env --color sometimes").code == 2);
  // A terminal of an engine's own, which hands on what it reads: script stands for mpirun.
  const auto below = [&](const std::string& variables) {
    return shell("script -qec '{} nonsense' /dev/null | cat", "TERM=xterm " + variables).out;
  };
  CHECK(has(below(""), "\033["));
  const std::string engine = below("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1");
  CHECK(has(engine, "unknown command"));
  CHECK_FALSE(has(engine, "\033["));
}

TEST_CASE("env says what is in force and why", "[cli]") {
  const Ran plain = run_collctl("env");
  CHECK(plain.code == 0);
  CHECK(plain.err == "");
  CHECK_FALSE(has(plain.out, "FAULT"));

  const Ran set = run_collctl(
      "env --json", "NCCL_DEBUG=INFO NCCL_ALGO=tree COLLCTL_ALGO=ring COLLCTL_TOKEN=sesame");
  CHECK_FALSE(has(set.out, "sesame"));
  const json env = json::parse(set.out);
  CHECK(env["schema"] == "collctl.env/1");
  std::map<std::string, json> knobs;
  for (const auto& knob : env["knobs"]) knobs[knob["name"]] = knob;
  CHECK(knobs["COLLCTL_DEBUG"]["value"] == "INFO");
  CHECK(knobs["COLLCTL_DEBUG"]["origin"] == "NCCL_DEBUG");
  CHECK(knobs["COLLCTL_DEBUG"]["default"] == "WARN");
  CHECK(knobs["COLLCTL_ALGO"]["value"] == "ring");
  CHECK(knobs["COLLCTL_ALGO"]["origin"] == "COLLCTL_ALGO");
  CHECK(knobs["COLLCTL_STEPS"]["origin"] == "default");
  CHECK(knobs["COLLCTL_TOKEN"]["masked"] == true);
  CHECK(knobs.count("COLLCTL_FAULT") == 0);

  // NVLS is chosen by nothing here, and an empty variable is none.
  const std::string some =
      "NCCL_NVLS_ENABLE=1 NCCL_DEBUG=INFO NCCL_ALGO=tree COLLCTL_ALGO=ring "
      "NCCL_LAUNCH_MODE=GROUP NCCL_PROTO=";
  const json nccl = json::parse(run_collctl("env --json", some).out)["nccl_variables"];
  CHECK(nccl["honoured"] == json::array({"NCCL_DEBUG"}));
  CHECK(nccl["overridden"] == json::array({"NCCL_ALGO"}));
  CHECK(nccl["without_effect"] == json::array({"NCCL_LAUNCH_MODE", "NCCL_NVLS_ENABLE"}));
  const std::string shown = run_collctl("env", some).out;
  CHECK(has(shown, "\n# set and honoured: NCCL_DEBUG\n"));
  CHECK(has(shown, "\n# set, but ours is set as well and counts: NCCL_ALGO\n"));
  CHECK(has(shown,
            "# set and without effect here (only --vs nccl hands them to NCCL): "
            "NCCL_LAUNCH_MODE, NCCL_NVLS_ENABLE\n"));
  CHECK_FALSE(has(plain.out, "# set"));

  const Ran text = run_collctl("env", "COLLCTL_TOKEN=sesame COLLCTL_STEPS=4");
  CHECK_FALSE(has(text.out, "sesame"));
  CHECK(has(text.out,
            "COLLCTL_STEPS                    4         8        COLLCTL_STEPS\n"
            "    slots per buffer\n"));
  CHECK(text.err == "");
  const Ran misspelt = run_collctl("env", "COLLCTL_STPES=4 COLLCTL_LOCAL_SIZE=2");
  CHECK(misspelt.code == 0);
  CHECK(misspelt.err ==
        "collctl: note: COLLCTL_STPES is set, but there is no such knob; did you mean "
        "COLLCTL_STEPS?\n");
  const Ran bad = run_collctl("env", "COLLCTL_STEPS=1");
  CHECK(bad.code == 2);
  CHECK(has(bad.out, "COLLCTL_STEPS"));
  CHECK(bad.err == "collctl: error: COLLCTL_STEPS = '1': expected a value in 2..64\n");
}

// docs/habits.md has a row for each option of nccl-tests 2.19, and the command line an answer.
TEST_CASE("every option of nccl-tests is taken, or told what it is here", "[cli]") {
  const std::string page = file_content(kRoot / "docs/habits.md");
  const char* const kOptions[] = {"t --nthreads=1",
                                  "g --ngpus=1",
                                  "b --minbytes=8",
                                  "e --maxbytes=8",
                                  "i --stepbytes=8",
                                  "f --stepfactor=2",
                                  "n --iters=1",
                                  "m --agg_iters=2",
                                  "w --warmup_iters=1",
                                  "N --run_cycles=2",
                                  "p --parallel_init=1",
                                  "c --check=1",
                                  "o --op=sum",
                                  "d --datatype=float",
                                  "r --root=0",
                                  "z --blocking=1",
                                  "y --stream_null=1",
                                  "T --timeout=60",
                                  "G --cudagraph=2",
                                  "C --report_cputime=1",
                                  "S --report_timestamps=1",
                                  "J --output_file=x.json",
                                  "a --average=1",
                                  "R --local_register=1",
                                  "x --cta_policy=1",
                                  "D --device_implementation=1",
                                  "V --device_cta_count=2",
                                  "M --memory=1",
                                  "u --unalign=1",
                                  "I --per_iter_timing=1",
                                  "K --per_iter_skip=1"};
  for (const std::string option : kOptions) {
    INFO(option);
    const std::string word = option.substr(2), name = word.substr(0, word.find('='));
    CHECK(has(page, "`-" + option.substr(0, 1) + "`, `" + name + "`"));
    const Ran ran = run_collctl("allreduce --device cpu -n 1 -b 8 -e 8 " + word);
    if (ran.code == 0) continue;
    CHECK(ran.code == 2);
    CHECK(has(ran.err, "nccl-tests' " + name + " "));
  }
}

TEST_CASE("version", "[cli]") {
  const json version = json::parse(run_collctl("version --json").out);
  CHECK(version["schema"] == "collctl.version/1");
  CHECK(version["version"] == collctl::base::kVersion);
  CHECK(version["protocol"] == 2);
  const Ran text = run_collctl("version");
  CHECK(text.out.find(format("collctl {}", collctl::base::kVersion)) == 0);
  for (const char* spelling : {"--version", "-V"}) CHECK(run_collctl(spelling).out == text.out);
}

namespace {

// The first line that is not the same, for texts too long to be shown; empty: none.
std::string first_difference(const std::string& made, const std::string& kept) {
  std::istringstream left(made), right(kept);
  for (int number = 1;; ++number) {
    std::string a, b;
    const bool more = bool(std::getline(left, a)), expected = bool(std::getline(right, b));
    if (!more && !expected) return made == kept ? "" : "the end of the last line";
    if (a != b || more != expected)
      return format("line {}: '{}', in the repository '{}' (./dev generate)", number, a, b);
  }
}

}  // namespace

TEST_CASE("completions and manual are the checked-in ones", "[cli]") {
  const auto fresh = [](const std::string& made, const fs::path& kept) {
    return first_difference(made, file_content(kRoot / kept));
  };
  CHECK(fresh(run_collctl("completion bash").out, "completions/collctl.bash") == "");
  CHECK(fresh(run_collctl("completion zsh").out, "completions/_collctl") == "");
  CHECK(fresh(run_collctl("completion fish").out, "completions/collctl.fish") == "");
  const TemporaryFolder folder;
  const Ran man = run_collctl(format("man {}", folder / "new/man1"));
  CHECK(man.code == 0);
  CHECK(man.out + man.err == "");
  size_t pages = 0;
  for (const auto& entry : fs::directory_iterator(folder / "new/man1")) {
    CHECK(fresh(file_content(entry.path()), "man" / entry.path().filename()) == "");
    ++pages;
  }
  CHECK(pages > 10);
  const Ran refused = run_collctl("man /dev/null/x");
  CHECK(refused.code == 3);
  CHECK(refused.err == "collctl: error: cannot make the folder /dev/null/x: Not a directory\n");
}

TEST_CASE("the bash completion completes", "[cli]") {
  const TemporaryFolder home;
  std::filesystem::create_directory(home / ".ssh");
  std::ofstream(home / ".ssh/known_hosts") << "node01,10.0.0.1 ssh-ed25519 A\n"
                                              "[node02]:2222 ssh-ed25519 A\n|1|a=|b= ssh-rsa A\n";
  std::ofstream(home / ".ssh/config") << "Host gpu-* node03\n  User x\n";
  const auto complete = [&](const std::string& words) {
    return shell(format("HOME={}; source {}/completions/collctl.bash; COMP_WORDS=({}); "
                        "COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _collctl; echo ${{COMPREPLY[*]}}",
                        home.path(), kRoot.string(), words))
        .out;
  };
  CHECK(complete("collctl run -H node") == "node01 node02 node03\n");
  CHECK(complete("collctl run --hosts gpu-1,1") == "gpu-1,10.0.0.1\n");
  CHECK(complete("collctl allr") == "allreduce\n");
  CHECK(complete("collctl run --transp") == "--transport\n");
  CHECK(complete("collctl run --transport ''") == "loopback p2p shm net\n");
  CHECK(complete("collctl run -n 4 broad") == "broadcast\n");
  CHECK(complete("collctl completion ''") == "bash zsh fish\n");
  CHECK(complete("collctl check --only doctor,p") == "doctor,pairs\n");
  CHECK(complete("collctl check --help e") == "examples exit-codes\n");
  CHECK(complete("collctl help che") == "check\n");
  CHECK(complete("collctl env --j") == "--json\n");
}

TEST_CASE("output that cannot be written is an error, a reader that left is not", "[cli]") {
  for (const char* arguments : {"env > /dev/full", "version > /dev/full", "run -h > /dev/full",
                                "completion bash > /dev/full"}) {
    INFO(arguments);
    const Ran full = run_collctl(arguments);
    CHECK(full.code == 3);
    CHECK(full.err == "collctl: error: cannot write to standard output: No space left on device\n");
  }
  const Ran gone = shell("set -o pipefail; {} completion bash | true");
  CHECK((gone.code == 0 || gone.code == 141));
  CHECK(gone.err == "");
  const Ran closed = run_collctl("version >&-");
  CHECK(closed.code == 0);
}

TEST_CASE("colours are for terminals, and not when they are unwelcome", "[cli]") {
  const auto printed = [](const std::string& variables) {
    Terminal terminal;
    run_collctl(format("frobnicate 2> {}", terminal.path()), variables);
    return terminal.text();
  };
  CHECK(has(printed("TERM=xterm"), "\033[1;31merror:\033[0m"));
  for (const char* variables : {"TERM=xterm NO_COLOR=1", "TERM=dumb", ""}) {
    INFO(variables);
    CHECK(has(printed(variables), "error: unknown command"));
    CHECK_FALSE(has(printed(variables), "\033["));
  }
  CHECK(has(printed("TERM=xterm NO_COLOR="), "\033["));
}

TEST_CASE("dry runs print the placement", "[cli]") {
  const std::string host = shell("uname -n").out.substr(0, shell("uname -n").out.size() - 1);
  const Ran text = run_collctl("run -n 2 --bind-to none --dry-run allreduce");
  CHECK(text.code == 0);
  CHECK(text.out.find(format("# 2 ranks on {}, nothing is started\n", host)) == 0);
  CHECK(has(text.out, format("     1  {:<4}      1  any\n", host)));
  const json own = json::parse(run_collctl("run -n 2 --dry-run --json allreduce").out)["ranks"];
  CHECK((own[0]["cores"] != own[1]["cores"]) == (collctl::base::usable_cores() >= 2));
  const json plan = json::parse(run_collctl("run -n 3 --dry-run --json -- prog -x").out);
  CHECK(plan["schema"] == "collctl.run/1");
  CHECK(plan["program"] == json::array({"prog", "-x"}));
  CHECK(plan["hosts"][0]["ranks"] == json::array({0, 1, 2}));
  CHECK(plan["ranks"].size() == 3);
  CHECK(run_collctl("run -n 2 --dry-run allreduce -b 4 -e 2").code == 2);
}

TEST_CASE("dry runs on hosts contact nobody", "[cli]") {
  const Ran text = run_collctl("run -H 'node[01-02]:2,[::1]:1' --map-by host --dry-run allreduce");
  CHECK(text.code == 0);
  CHECK(text.out ==
        "# 5 ranks on 3 hosts, nothing is started\n"
        "# rank  host    local  cores\n"
        "     0  node01      0  asked at start\n"
        "     1  node02      0  asked at start\n"
        "     2  ::1         0  asked at start\n"
        "     3  node01      1  asked at start\n"
        "     4  node02      1  asked at start\n");
  CHECK(run_collctl("run -H a,b:4 --dry-run -- prog").out ==
        "# one rank for each slot of 2 hosts, nothing is started\n"
        "# host  slots\n"
        "  a     asked at start\n"
        "  b     4\n");
  const Ran idle = run_collctl("run -n 2 -H 'node[01-04]:4' --dry-run allreduce");
  CHECK(idle.out.find("# 2 ranks on 1 of 4 hosts, nothing is started\n") == 0);
  CHECK(idle.err ==
        "collctl: note: no ranks on 3 of 4 hosts: node02, node03, node04; -n 4 --map-by host puts "
        "some on every host\n");
  const json bound =
      json::parse(run_collctl("run -H a,b -N 1 --bind-to core --dry-run --json -- prog").out);
  CHECK(bound["hosts"][1]["ranks"] == json::array({1}));
  CHECK(bound["hosts"][1]["slots"].is_null());
  CHECK(bound["ranks"][1]["host"] == "b");
  CHECK(bound["ranks"][1]["local_rank"] == 0);
  CHECK(bound["ranks"][1]["cores"].is_null());
  const json open = json::parse(run_collctl("run -H a,b -n 2 --dry-run --json -- prog").out);
  CHECK(open["ranks"].is_null());
  CHECK(open["hosts"][0]["ranks"].is_null());
  const Ran from_stdin = shell(format(
      "printf 'a slots=2 binding=x\\nb slots=2\\n' | {} run --hostfile - -H b --dry-run -- x "
      "2>&1",
      collctl::test::collctl_binary()));
  CHECK(from_stdin.out ==
        "collctl: note: stdin:1:11: binding= has no effect here, ignored\n"
        "# 2 ranks on b, nothing is started\n"
        "# rank  host  local  cores\n"
        "     0  b         0  any\n"
        "     1  b         1  any\n");
}

TEST_CASE("a mistake in a hostfile is shown where it is", "[cli]") {
  const Ran wrong = run_collctl("run -H 'a:2,node[3-1]' --dry-run allreduce");
  CHECK(wrong.code == 2);
  CHECK(wrong.err ==
        "collctl: error: -H:1:12: expected a number not below 3, got '1]'\n"
        "collctl: hint: the mark shows the place\n"
        "  a:2,node[3-1]\n"
        "             ^\n");
  const Ran many = run_collctl("run -n 9 -H a:2,b:2 --dry-run allreduce");
  CHECK(many.code == 2);
  CHECK(many.err ==
        "collctl: error: 9 ranks requested, 4 slots on 2 hosts (a 2, b 2)\n"
        "collctl: hint: use --oversubscribe, fewer -n, or more slots=\n");
}

}  // namespace text_tests
