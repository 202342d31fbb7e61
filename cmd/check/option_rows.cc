// The rows of `check` in THE table of options.
#include "cmd/cli/option_rows.h"
#include "cmd/check/check.h"

namespace collctl::cmd {

void add_check_options(std::vector<Option>& t) {
  const Adder add{t, Group::measure, kCheck};
  std::vector<std::string> names;
  for (const Suite& suite : suites()) names.emplace_back(suite.name);
  add({.name = "level",
       .kind = ValueKind::choice,
       .value = "LEVEL",
       .fallback = "standard",
       .allowed = {"quick", "standard", "full"},
       .help = "how much is measured: quick, standard or full",
       .more = "quick: two collectives of up to 1 MiB. standard: all of up to 4 MiB. full: up to "
               "16 MiB, and every path "
               "between NICs for longer."});
  add({.name = "only",
       .kind = ValueKind::choices,
       .value = "SUITES",
       .fallback = "none",
       .allowed = names,
       .repeatable = true,
       .help = "these suites, comma separated (--list names them)"});
  add({.name = "skip",
       .kind = ValueKind::choices,
       .value = "SUITES",
       .fallback = "none",
       .allowed = names,
       .repeatable = true,
       .help = "not these suites"});
  add({.name = "list", .help = "the suites, what each needs and is likely to take"});
  add({.name = "budget",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "none",
       .minimum = 0.001,
       .maximum = 1e6,
       .help = "start no suite that is likely to end after S seconds (check)",
       .more = "What is left out is named, and the exit code is 8."});
  add({.name = "expect",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kCheck | kDoctor,
       .help = "what every host must have (gpus=8 rdma=8 driver=...)",
       .more = "Words KEY=VALUE: gpus, rdma (ports that are active), cpus and memory (at least), "
               "driver and firmware (a * at the end stands for anything), mtu, speed (Gb/s, at "
               "least). Least GB/s that check's suite node measures: copy (in the host's memory), "
               "gpu_copy, to_gpu, from_gpu. [MODEL] begins what only hosts with such a GPU must "
               "have, whose name has "
               "that word in it; # begins a comment."});
  add({.name = "soak",
       .kind = ValueKind::duration,
       .value = "TIME",
       .fallback = "none",
       .minimum = 1,
       .maximum = 31622400,
       .help = "the suites again and again for 90s, 15m, 2h, ... (check)",
       .more = "A round that has begun goes on to its end. What fails in any round fails, with the "
               "number of rounds; a table has the worst values of each twelfth of the time. -o "
               "FILE.jsonl grows by a line for each round. A signal ends it with the verdict of "
               "what it has: 8 where nothing failed until then."});
  add({.name = "write-hosts",
       .kind = ValueKind::directory,
       .value = "DIR",
       .fallback = "none",
       .help = "write good-hosts.txt (a hostfile) and bad-hosts.txt",
       .more = "DIR is made when it is missing."});
  add({.name = "nagios",
       .help = "one line, and exit codes 0 ok, 1 warning, 2 critical, 3 unknown"});
}

}  // namespace collctl::cmd
