// The rows of `check` in THE table of options.
#include "cmd/cli/option_rows.h"
#include "cmd/check/check.h"

namespace collctl::cmd {

void add_check_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::measure, kCheck};
  std::vector<std::string> names;
  for (const Suite& suite : suites()) names.emplace_back(suite.name);
  add("level", one_of("LEVEL", {"quick", "standard", "full"}, "standard"), to<&CheckOptions::level>,
      "how much is measured: quick, standard or full",
      "quick: two collectives of up to 1 MiB. standard: all of up to 4 MiB. full: up to 16 MiB, "
      "and every path between NICs for longer.");
  add("only", repeatable(some_of("SUITES", names)),
      "these suites, comma separated (--list names them)");
  add("skip", repeatable(some_of("SUITES", names)), "not these suites");
  add("list", flag(), "the suites, what each needs and is likely to take");
  add("budget", seconds("S", 0.001, 1e6), to<&CheckOptions::budget_s>,
      "start no suite that is likely to end after S seconds (check)",
      "What is left out is named, and the exit code is 8.");
  add.in(kCheck | kDoctor)(
      "expect", file(), "what every host must have (gpus=8 rdma=8 driver=...)",
      "Words KEY=VALUE: gpus, rdma (ports that are active), cpus and memory (at least), driver and "
      "firmware (a * at the end stands for anything), mtu, speed (Gb/s, at least). Least GB/s that "
      "check's suite node measures: copy (in the host's memory), gpu_copy, to_gpu, from_gpu. "
      "[MODEL] begins what only hosts with such a GPU must have, whose name has that word in it; # "
      "begins a comment.");
  add("soak", seconds("TIME", 1, 31622400), to<&CheckOptions::soak_s>,
      "the suites again and again for 90s, 15m, 2h, ... (check)",
      "A round that has begun goes on to its end. What fails in any round fails, with the number "
      "of rounds; a table has the worst values of each twelfth of the time. -o FILE.jsonl grows by "
      "a line for each round. A signal ends it with the verdict of what it has: 8 where nothing "
      "failed until then.");
  add("write-hosts", directory(), "write good-hosts.txt (a hostfile) and bad-hosts.txt",
      "DIR is made when it is missing.");
  add("nagios", flag(), "one line, and exit codes 0 ok, 1 warning, 2 critical, 3 unknown");
}

}  // namespace collctl::cmd
