// THE table of commands. A row says how the command is called and explained, and what runs it; the
// options stand in cmd/options.cc.
#include "base/format.h"
#include "base/version.h"
#include "cmd/check/check.h"
#include "cmd/cli/help.h"
#include "cmd/command_line.h"
#include "cmd/doctor/doctor.h"
#include "cmd/job/token.h"
#include "cmd/options.h"
#include "cmd/plan/plan.h"
#include "cmd/rank_tasks.h"
#include "cmd/root_commands.h"
#include "cmd/status/status.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {
namespace {

Result<int> completion_command(const ParsedLine& line, Console& console) {
  console.out(completion_script(line.words[0]));
  return 0;
}

Result<int> man_command(const ParsedLine& line, Console&) {
  COLL_TRY(write_man_pages(line.words[0]));
  return 0;
}

Result<int> token_command(const ParsedLine&, Console& console) {
  COLL_ASSIGN(const std::string token, new_token());
  console.out(token + "\n");
  return 0;
}

Result<int> help_command(const ParsedLine& line, Console& console) {
  const Command* const command = line.words.empty() ? nullptr : find_command(line.words[0]);
  if (!line.words.empty() && (command == nullptr || command->hidden))
    return unknown_command(line.words[0]).within("help");
  const std::string topic = line.words.size() > 1 ? line.words[1] : line.help_topic;
  if (!topic.empty() && !is_help_topic(topic))
    return usage(format("no help about '{}'; expected {}", topic, help_topics())).within("help");
  console.out(help_text(command, topic, console.out_width()));
  return 0;
}

Command collective(const char* name, const char* summary, const char* description,
                   std::vector<Example> examples) {
  return {.name = name,
          .kind = CommandKind::collective,
          .arguments = "[options]",
          .scopes = kBench,
          .summary = summary,
          .description = description,
          .examples = std::move(examples),
          .run = collective_command};
}

std::vector<Command> make_commands() {
  std::vector<Command> table;
  table.push_back(
      {.name = "run",
       .kind = CommandKind::run,
       .arguments =
           "[launch options] <collective> [options]\n[launch options] -- <program> [args...]",
       .scopes = kBench | kProgram,
       .summary = "launch ranks, run a collective or a program, judge",
       .description = "Starts the ranks of a job, here or by SSH on the hosts of -H or --hostfile, "
                      "watches them to their end and leaves nothing behind. With the name of a "
                      "collective the ranks measure it over a range of sizes and check every "
                      "result; the exit code is the verdict. After -- any program is started as "
                      "ranks, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, "
                      "MASTER_ADDR and MASTER_PORT set; its output passes through by whole lines.",
       .examples =
           {{"collctl run -n 4 allreduce", "all-reduce among 4 ranks, 8 B to 16 MiB"},
            {"collctl run -n 4 allreduce -b 1K -e 64M --json", "the same as one JSON object"},
            {"collctl run -n 2 allreduce --min-busbw 1.5@4M", "exit 1 below 1.5 GB/s at 4 MiB"},
            {"collctl run -n 4 --tag-output -- ./train --epochs 1", "a program as 4 ranks"}},
       .run = run_command});
  table.push_back(
      collective("allreduce", "reduce over all ranks, result everywhere",
                 "Every rank gives a buffer and gets the elementwise reduction of all.",
                 {{"collctl allreduce", "one rank per GPU, or per core without GPUs"},
                  {"collctl allreduce -H node[01-04]", "the same on four hosts"},
                  {"collctl allreduce --algo ring,tree --proto all", "compare choices"}}));
  table.push_back(collective("allgather", "every rank's block, everywhere",
                             "Every rank gives a block and gets the blocks of all in rank order.",
                             {{"collctl allgather -b 1M -e 16M", "from 1 MiB to 16 MiB"}}));
  table.push_back(collective(
      "reducescatter", "reduce over all ranks, one block each",
      "Every rank gives a block for each rank and gets the elementwise reduction of its own.",
      {{"collctl reducescatter -d float16", "in half precision"}}));
  table.push_back(collective("broadcast", "one rank's buffer, everywhere",
                             "The root gives a buffer; every rank gets it.",
                             {{"collctl broadcast -r all", "from each rank in turn"}}));
  table.push_back(collective("reduce", "reduce over all ranks, result at the root",
                             "Every rank gives a buffer; the root gets the elementwise reduction.",
                             {{"collctl reduce --op max -r 1", "the maximum, at rank 1"}}));
  table.push_back(collective("gather", "every rank's block, at the root",
                             "Every rank gives a block; the root gets all in rank order.",
                             {{"collctl gather", "to rank 0"}}));
  table.push_back(collective("scatter", "one block of the root to every rank",
                             "The root gives a block for each rank; every rank gets its own.",
                             {{"collctl scatter", "from rank 0"}}));
  table.push_back(
      collective("alltoall", "one block from every rank to every rank",
                 "Every rank gives a block for each rank and gets one from each.",
                 {{"collctl alltoall --transport net", "over the network, also on one host"}}));
  table.push_back(collective(
      "alltoallv", "uneven blocks; also moe-dispatch, moe-combine, hot-expert",
      "Every rank deals its blocks, as many as there are ranks, out among all of them: to some "
      "several, to some none, always the same. A pair has the size of alltoall's on average.",
      {{"collctl alltoallv -b 1M", "from 1 MiB a rank"}}));
  table.push_back(collective(
      "moe-dispatch", "skewed blocks from every rank, as tokens to experts",
      "Every rank deals its blocks, as many as there are ranks, out by Zipf's law: rank k takes "
      "1/(k+1) of what rank 0 does, from every rank alike.",
      {{"collctl moe-dispatch -b 7K -e 28M -f 4", "1 to 4096 tokens of 7 KiB a rank"}}));
  table.push_back(
      collective("moe-combine", "the way back of moe-dispatch",
                 "Every rank sends each other one as much as moe-dispatch brings it from there.",
                 {{"collctl moe-combine -b 7K -e 28M -f 4", "1 to 4096 tokens of 7 KiB a rank"}}));
  table.push_back(collective(
      "hot-expert", "half of every rank's blocks to rank 0",
      "Every rank deals its blocks, as many as there are ranks: half of them to rank 0, one each "
      "to ranks 1, 2, ... until none is left.",
      {{"collctl hot-expert -b 7K -e 28M -f 4", "1 to 4096 tokens of 7 KiB a rank"}}));
  // For their kind alltoallv is listed, and names them.
  for (size_t i = table.size() - 3; i < table.size(); ++i) table[i].unlisted = true;
  table.push_back(collective(
      "sendrecv", "every rank sends to the next one",
      "Every rank sends a buffer to the next rank and receives one from the rank before it.",
      {{"collctl sendrecv --sync each", "with percentiles of the time"}}));
  table.push_back(collective(
      "hypercube", "every rank's block, everywhere, by pairs",
      "Every rank gives a block and gets those of all, in log2 n steps: in step k rank r exchanges "
      "what it has with rank r ^ 2^k, by sends and receives. For 1, 2, 4, 8, ... ranks.",
      {{"collctl run -n 4 hypercube", "among 4 ranks, in 2 steps"}}));
  table.push_back(collective("barrier", "all ranks wait for all",
                             "No rank goes on before every rank has arrived. Sizes do not apply.",
                             {{"collctl barrier --sync each", "with percentiles of the time"}}));
  for (const RankTask* task : rank_tasks())
    if (task->command != nullptr) table.push_back(task->command(own_scope(*task)));
  table.push_back(
      {.name = "topo",
       .arguments = "[--from FILE | -H LIST] [options]",
       .scopes = kTopo,
       .summary = "a machine or all hosts: tree, paths, NICs, GIDs, what is odd",
       .description =
           "Shows a machine as a tree: NUMA nodes, switches, GPUs and network devices with their "
           "links; this machine, or with --from one from a topology file in NCCL's XML or from a "
           "snapshot. What looks wrong (x8 of x16, 16 of 18 NVLinks, a port without a link, a "
           "device slower than its equals) is marked with ! and explained on standard error, as is "
           "every value that had to be assumed. Of this machine and of hosts also: RDMA devices "
           "with their ports, rates, GIDs and firmware, the GPUs next to each, and whether they "
           "reach GPU memory (GPUDirect RDMA), else why not and what to do. --matrix adds the path "
           "type and bandwidth between GPUs and to network devices, as a job would use them: after "
           "the decisions on P2P, GDR and PXN, each of which --json explains. --graph adds the "
           "rings and trees that the search finds, -o draws it all. --diff says what differs from "
           "another file or snapshot, and exits with 1 when something does. -H asks all hosts at "
           "the same time, shows the machine that most of them have, and how the others differ "
           "from it; the exit code is 4 when a host could not be asked, else 1 when they are not "
           "all equal. --strict makes it 1 when anything is marked as faulty.",
       .examples = {{"collctl topo", "this machine"},
                    {"collctl topo --matrix --graph", "with its paths and channels"},
                    {"collctl topo --from node.xml -o node.svg", "a picture of another one"},
                    {"collctl topo --diff yesterday.xml", "what has changed"},
                    {"collctl topo -H node[01-16]", "which host is not as the others"},
                    {"collctl topo --from node.xml --json", "everything, with reasons"}},
       .draws_to_stdout = true,
       .run = topo_command});
  table.push_back(
      {.name = "plan",
       .arguments = "[COLLECTIVE] [--from FILE] [--nodes N] [options]",
       .scopes = kPlan,
       .summary = "what ranks would do on N nodes: rings, trees, choices, times",
       .description =
           "Plans a job of one rank per GPU on N equal nodes, each as the topology file says (or "
           "as this machine), without running anything, for all-reduce unless another collective, "
           "or pattern of messages, is named: the channels of a node, how nodes are joined into "
           "rings and trees, by which network devices, and for every size which algorithm, "
           "protocol and how many channels ranks would choose, by their own planner, how long it "
           "would take and what limits it. Sizes are those of the collectives' reports. -v says "
           "what the search tried and what every size was weighed against. Everything is in "
           "--json; the text shows equal channels once and of many nodes the first two. The knobs "
           "of channels, algorithms, protocols, paths and GRAPH_FILE are honoured.",
       .examples = {{"collctl plan --from node.xml", "all-reduce on one node, 8 B to 128 MiB"},
                    {"collctl plan --from node.xml --nodes 16 -b 1M -e 1G", "on 16 of them"},
                    {"collctl plan --from skeleton.xml --assume h100 --nodes 2",
                     "with GPUs put in"},
                    {"collctl plan alltoall --from node.xml --bytes 64M --json",
                     "one size, for a script"}},
       .known_words = planned_operations(),
       .most_words = 1,
       .run = plan_command});
  table.push_back(
      {.name = "report",
       .arguments =
           "FILE... [options]\n--diff OLD NEW [options]\n--trend DIR [--host NAME] [options]",
       .scopes = kReport,
       .summary = "saved reports again, several as one, or compared",
       .description =
           "Prints what a command has written with --json, -o FILE.json or -o FILE.jsonl as the "
           "run itself would have printed it: collectives, check, doctor, rails, window-test; of "
           "topo, plan and run -- the lists. Where another library was measured beside a "
           "collective in several configurations (--vs-config), a second table has them all, size "
           "by size. Several files become one report: least, median and most of each timing, and "
           "in how many runs each failure is. --diff compares two. --trend says what became of "
           "hosts "
           "over the checks that check --history has kept. -o writes any of them as "
           "another kind of file. FILE may be -, standard input. The exit code is that of the run, "
           "of several the worst, so that no script takes a report that says FAILED for a pass; "
           "--exit-zero makes it 0.",
       .examples = {{"collctl report result.json", "what was measured"},
                    {"collctl report check.json -o check.html", "as a page"},
                    {"collctl report --diff yesterday.json today.json", "what has changed"},
                    {"collctl report --trend /var/lib/collctl/history --host node07",
                     "what became of a host"},
                    {"ssh node01 collctl allreduce --json | collctl report -",
                     "what another host measures"}},
       .words = 1,
       .word_kind = ValueKind::file,
       .most_words = 1000,
       .run = report_command});
  table.push_back(
      {.name = "doctor",
       .arguments = "[-H LIST] [options]",
       .scopes = kDoctor,
       .summary = "whether hosts are fit for jobs: SSH, limits, clocks, NICs",
       .description =
           "Looks at all hosts at the same time (without -H or --hostfile: at this one) and prints "
           "a table of hosts and checks. What differs from most hosts is marked with *, what fails "
           "with !; every failure comes with a remedy. A limit fails where it does not hold a rank "
           "a core: open files, processes and threads, /dev/shm, the cgroup. RDMA devices are "
           "looked at with their ports, rates, GIDs and firmware, and whether GPU memory is in "
           "their reach (modules, DMA-BUF, ACS, IOMMU); collctl rails sends data over them. The "
           "state of GPUs, NICs and PCI links (lanes, NVLinks, ECC, leftover programs, errors "
           "since boot) is held against what it should be and against peers. The "
           "network is tested between the hosts themselves: each connects to the others on every "
           "network that both are on; more than 64 hosts along a ring and one random matching "
           "only, and the exit code is 8 then. It is 4 when a host cannot be reached and 1 when a "
           "check fails.",
       .examples = {{"collctl doctor", "this host"},
                    {"collctl doctor -H node[01-16]", "16 hosts and the network between them"},
                    {"collctl doctor --hostfile hosts.txt --json", "one JSON object"}},
       .run = doctor_command});
  table.push_back(
      {.name = "check",
       .arguments = "[-H LIST] [options]",
       .scopes = kCheck,
       .summary = "whether hosts are fit for work, and which is not",
       .description =
           "Goes from each host alone to all of them together: doctor, inventory, collectives "
           "inside each host (all hosts at the same time), every NIC to every NIC, collectives "
           "over all. A host that fails is left out of what follows, and the rest is still judged. "
           "Where paths between hosts are bad, they are measured again, for longer and in other "
           "company, until it is clear which host, NIC or link it is; what cannot be told apart is "
           "not named. The exit code is 1 when something failed (7: wrong data, 5: a host was "
           "lost, 4: one could not be reached), 8 when something that was asked for could not be "
           "tested.",
       .examples = {{"collctl check", "this host"},
                    {"collctl check --hostfile hosts.txt --level quick", "minutes before a job"},
                    {"collctl check -H node[01-16] --write-hosts lists -o check.json",
                     "a hostfile of the good ones, and a report"}},
       .run = check_command});
  table.push_back(
      {.name = "status",
       .arguments = "[JOB] [--json] | --ras [ADDRESS]",
       .scopes = kReading | kStatus,
       .summary = "what a running job does now, and who waits for whom",
       .description = "Asks the process that launched a job (of this user, on this host) what its "
                      "ranks do: phase, the operation each is in, how long it has waited for whom, "
                      "and the state of its process. The job is not held up. JOB is the launcher's "
                      "pid; without one the only job is shown, or a list when there are several. "
                      "Programs (run -- PROGRAM) say nothing, but the state of their processes. "
                      "The exit code is 3 when no such job runs, 6 when it does not answer.",
       .examples = {{"collctl status", "the job that runs here, or the list of them"},
                    {"collctl status 4711 --json", "one job as JSON"},
                    {"collctl status --ras", "a job of NCCL's on this host, whoever started it"}},
       .most_words = 1,
       .run = status_command});
  table.push_back(
      {.name = "env",
       .arguments = "[--json]",
       .scopes = kReading,
       .summary = "every knob: value, default, where it came from",
       .description =
           "Knobs are environment variables COLLCTL_NAME. Where NCCL has a variable of the same "
           "meaning, it is honoured when ours is unset. Secrets are never shown. Files set "
           "variables that the environment does not, as for NCCL: the one that NCCL_CONF_FILE "
           "names, else ~/.nccl.conf, and then /etc/nccl.conf, in lines NAME=VALUE. They count for "
           "every command; ranks on other hosts go by their own host's files first, then by those "
           "of the launcher. A file that others may write is not read.",
       .examples = {{"COLLCTL_DEBUG=INFO collctl env", "shows which value took effect"}},
       .more_manual = environment_section,
       .run = env_command});
  table.push_back(
      {.name = "token",
       .arguments = "",
       .scopes = kGenerate,
       .summary = "a new secret for --token-file",
       .description =
           "Prints 128 random bits in hexadecimal. Every rank of a job that is joined by address "
           "(--join, COLLCTL_COMM_ID, torchrun) needs the same token, from a file that only its "
           "user can read or from COLLCTL_TOKEN; one of your own must have at least 16 characters.",
       .examples = {{"(umask 077; collctl token > job.token)", "for --token-file job.token"}},
       .run = token_command});
  table.push_back({.name = "version",
                   .arguments = "[--json]",
                   .scopes = kReading,
                   .summary = "version, build and features",
                   .description = "What this binary is, what built it, and what it can do.",
                   .examples = {{"collctl version --json", "for a script"}},
                   .run = version_command});
  table.push_back(
      {.name = "completion",
       .arguments = "bash|zsh|fish",
       .scopes = kGenerate,
       .summary = "print a completion script for a shell",
       .description = "Prints the script on standard output. It is made from the tables of "
                      "commands and options of this binary.",
       .examples = {{"source <(collctl completion bash)", "in ~/.bashrc"},
                    {"collctl completion zsh > ~/.zfunc/_collctl", "a folder in $fpath"},
                    {"collctl completion fish > ~/.config/fish/completions/collctl.fish",
                     "for fish"}},
       .words = 1,
       .known_words = {"bash", "zsh", "fish"},
       .run = completion_command});
  table.push_back({.name = "man",
                   .arguments = "DIR",
                   .scopes = kGenerate,
                   .summary = "write the manual pages into a folder",
                   .description = "Writes collctl.1 and one page for each command into DIR, which "
                                  "is made when it is missing.",
                   .examples = {{"collctl man ~/.local/share/man/man1", "then: man collctl"}},
                   .words = 1,
                   .word_kind = ValueKind::directory,
                   .run = man_command});
  table.push_back({.name = "help",
                   .arguments = "[command]",
                   .scopes = kGenerate,
                   .summary = "the long help of a command",
                   .description = "The same as --help.",
                   .hidden = true,
                   .most_words = 2,
                   .run = help_command});
  Command soak = collective("soak", "random operations, all checked",
                            "Runs random operations that all ranks draw from one seed.", {});
  soak.hidden = true;
  table.push_back(std::move(soak));
  table.push_back({.name = "__rank",
                   .kind = CommandKind::internal,
                   .arguments = "",
                   .scopes = 0,
                   .summary = "one rank of a job (started by run)",
                   .description = "",
                   .hidden = true});
  table.push_back({.name = "__agent",
                   .kind = CommandKind::internal,
                   .arguments = "",
                   .scopes = 0,
                   .summary = "the agent on a host of a job (started by run)",
                   .description = "",
                   .hidden = true});
  // Under run stands what any of them takes.
  for (Command& command : table)
    if (stands_under_run(command)) table[0].scopes |= command.scopes;
  return table;
}

}  // namespace

void install_tables() {
  static const std::vector<Command> commands = make_commands();
  static const std::vector<Option> options = make_options();
  use_tables(commands, options, base::kVersion);
}

}  // namespace collctl::cmd
