#include "cmd/cli/foreign_options.h"

#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "base/shell.h"
#include "cmd/cli/foreign_words.h"
#include "cmd/cli/option_rows.h"

namespace collctl::cmd {
namespace {

// THE table of what other tools call it. A value that stood there takes the place of {}.
struct ForeignOption {
  const char* option;
  const char* whose;
  const char* value;  // its name, or "" for a flag
  const char* ours;   // begins with the option of ours; "" when there is none
  const char* why;    // why none is needed, in place of ours
};
constexpr ForeignOption kForeign[] = {
    {"--minbytes", "nccl-tests", "BYTES", "-b {}", ""},
    {"--maxbytes", "nccl-tests", "BYTES", "-e {}", ""},
    {"--stepbytes", "nccl-tests", "BYTES", "--step-bytes {}", ""},
    {"--stepfactor", "nccl-tests", "N", "-f {}", ""},
    {"--warmup-iters", "nccl-tests", "N", "--warmup {}", ""},
    {"--datatype", "nccl-tests", "TYPE", "-d {}", ""},
    {"-i", "nccl-tests", "BYTES", "--step-bytes {}", ""},
    {"-G", "nccl-tests", "N", "--cuda-graph {}", ""},
    {"--cudagraph", "nccl-tests", "N", "--cuda-graph {}", ""},
    {"-T", "nccl-tests", "S", "--timeout {}", ""},
    {"-R", "nccl-tests", "1|2", "--window", ""},
    {"--local-register", "nccl-tests", "1|2", "--window", ""},
    {"-J", "nccl-tests", "FILE", "-o FILE.json", ""},
    {"--output-file", "nccl-tests", "FILE", "-o FILE.json", ""},
    {"--agg-iters", "nccl-tests", "N", "--agg-iters {}", ""},
    {"-p", "nccl-tests", "0|1", "", "leave it out: ranks always start at the same time"},
    {"--parallel-init", "nccl-tests", "0|1", "",
     "leave it out: ranks always start at the same time"},
    {"-z", "nccl-tests", "0|1", "--sync each", ""},
    {"--blocking", "nccl-tests", "0|1", "--sync each", ""},
    {"-y", "nccl-tests", "0|1", "", "leave it out: ranks have streams of their own"},
    {"--stream-null", "nccl-tests", "0|1", "", "leave it out: ranks have streams of their own"},
    {"-C", "nccl-tests", "0|1", "", "leave it out: CPU time is not reported"},
    {"--report-cputime", "nccl-tests", "0|1", "", "leave it out: CPU time is not reported"},
    {"--run-cycles", "nccl-tests", "N", "", "repeat the command in a loop of the shell"},
    {"-I", "nccl-tests", "0|1", "--sync each", ""},
    {"--per-iter-timing", "nccl-tests", "0|1", "--sync each", ""},
    {"-K", "nccl-tests", "N", "--warmup {}", ""},
    {"--per-iter-skip", "nccl-tests", "N", "--warmup {}", ""},
    {"-u", "nccl-tests", "INDEX", "--misalign BYTES", ""},
    {"--unalign", "nccl-tests", "INDEX", "--misalign BYTES", ""},
    {"-V", "nccl-tests", "N", "--channels {}", ""},
    {"--device-cta-count", "nccl-tests", "N", "--channels {}", ""},
    {"-D", "nccl-tests", "N", "", "leave it out: kernels of a device API are not run"},
    {"--device-implementation", "nccl-tests", "N", "",
     "leave it out: kernels of a device API are not run"},
    {"--cta-policy", "nccl-tests", "0..2", "", "leave it out: --channels N says how many blocks"},
    {"-M", "nccl-tests", "0|1", "", "leave it out: memory is not reported"},
    {"--memory", "nccl-tests", "0|1", "", "leave it out: memory is not reported"},
    {"-S", "nccl-tests", "0|1", "", "leave it out: rows have no time of day"},
    {"--report-timestamps", "nccl-tests", "0|1", "", "leave it out: rows have no time of day"},
    {"--np", "mpirun", "N", "-n {}", ""},
    {"--host", "mpirun", "LIST", "-H {}", ""},
    {"--machinefile", "mpirun", "FILE", "--hostfile {}", ""},
    {"--ppn", "mpirun", "N", "-N {}", ""},
    {"--perhost", "mpirun", "N", "-N {}", ""},
    {"--npernode", "mpirun", "N", "-N {}", ""},
    {"--bynode", "mpirun", "", "--map-by host", ""},
    {"--byslot", "mpirun", "", "--map-by slot", ""},
    {"--rank-by", "mpirun", "WHAT", "--map-by host", ""},
    {"--mca", "mpirun", "NAME", "", "leave it out: collctl env lists the variables that matter"},
    {"--gmca", "mpirun", "NAME", "", "leave it out: collctl env lists the variables that matter"},
    {"--iface", "mpirun", "NIC", "-x COLLCTL_SOCKET_IFNAME={}", ""},
    {"--genv", "mpirun", "NAME", "-x {}=VALUE", ""},
    {"--genvlist", "mpirun", "NAMES", "-x NAME", ""},
    {"--genvall", "mpirun", "", "-x '*'", ""},
    {"--wdir", "mpirun", "DIR", "-- sh -c 'cd {} && exec PROGRAM'", ""},
    {"--wd", "mpirun", "DIR", "-- sh -c 'cd {} && exec PROGRAM'", ""},
    {"--report-bindings", "mpirun", "", "--dry-run", ""},
    {"--display-map", "mpirun", "", "--dry-run", ""},
    {"--display-allocation", "mpirun", "", "--dry-run", ""},
    {"--allow-run-as-root", "mpirun", "", "", "leave it out: nobody is refused"},
    {"--output-filename", "mpirun", "DIR", "--output-dir {}", ""},
    {"--prefix", "mpirun", "DIR", "--remote-path {}/bin/collctl", ""},
    {"-q", "mpirun", "", "--quiet", ""},
    {"--prepend-rank", "mpirun", "", "--tag-output", ""},
    {"--nproc-per-node", "torchrun", "N", "-N {}", ""},
    {"--nnodes", "torchrun", "N", "-H LIST", ""},
    {"--node-rank", "torchrun", "R", "", "leave it out: one collctl run -H LIST starts all hosts"},
    {"--master-addr", "torchrun", "HOST", "--join {}:PORT --rank R --size N", ""},
    {"--master-port", "torchrun", "PORT", "--join HOST:{} --rank R --size N", ""},
    {"--rdzv-endpoint", "torchrun", "HOST:PORT", "--join {} --rank R --size N", ""},
    {"--rdzv-backend", "torchrun", "NAME", "", "leave it out: one collctl run -H LIST starts all"},
    {"--rdzv-id", "torchrun", "ID", "", "leave it out: one collctl run -H LIST starts all"},
    {"--rdzv-conf", "torchrun", "CONF", "--start-timeout S", ""},
    {"--standalone", "torchrun", "", "", "leave it out: without -H ranks are on this host"},
    {"--max-restarts", "torchrun", "N", "", "leave it out: a rank that fails ends the job"},
    {"--log-dir", "torchrun", "DIR", "--output-dir {}", ""},
    {"--no-python", "torchrun", "", "-- PROGRAM", ""},
    {"-m", "torchrun", "MODULE", "-- python3 -m {}", ""},
    {"-w", "pdsh", "LIST", "-H {}", ""},
    {"-l", "pdsh", "USER", "--ssh-user {}", ""},
    {"-R", "pdsh", "TYPE", "--ssh-client auto|libssh2|openssh", ""},
    {"-u", "pdsh", "S", "--timeout {}", ""},
    {"--ntasks", "srun", "N", "-n {}", ""},
    {"--ntasks-per-node", "srun", "N", "-N {}", ""},
    {"--gpus-per-node", "srun", "N", "-N {}", ""},
    {"--nodelist", "srun", "LIST", "-H {}", ""},
    {"--label", "srun", "", "--tag-output", ""},
    {"--cpu-bind", "srun", "WHAT", "--bind-to core", ""},
    {"-m", "nvidia-smi", "", "--matrix", ""},
    {"--svg", "a picture", "FILE.svg", "-o {}", ""},
    {"--size", "perftest", "BYTES", "-b {} -e {}", ""},
    {"--bytes", "collctl plan", "BYTES", "-b {} -e {}", ""},
    {"-n", "collctl run", "N", "--nodes {}", ""},
    {"-H", "collctl run", "LIST", "--nodes N", ""},
};
// Options of ours that mpirun spells with one dash.
constexpr const char* kOneDash[] = {"--hostfile", "--oversubscribe", "--tag-output",
                                    "--timeout",  "--launcher",      "--bind-to",
                                    "--map-by",   "--env",           "--hosts"};

// Words that a value of ours has under another name; ours may name options instead.
struct Meaning {
  const char* option;
  const char* words;  // blanks between and around
  const char* ours;
};
constexpr Meaning kMeanings[] = {
    {"output", " json ", "--json"},
    {"output", " csv ", "--csv"},
    {"level", " fast short smoke ", "quick"},
    {"level", " long slow complete all ", "full"},
    {"device", " gpu gpus nvidia cuda:0 h100 h200 ", "cuda"},
    {"device", " host core cores none ", "cpu"},
    {"op", " add + plus addition ", "sum"},
    {"op", " mul mult multiply product times ", "prod"},
    {"op", " mean average ", "avg"},
    {"op", " minimum ", "min"},
    {"op", " maximum ", "max"},
    {"map-by", " node ppr:1:node ", "host"},
    {"map-by", " core socket numa hwthread l3cache fill ", "slot"},
    {"bind-to", " socket package l3cache numanode ", "numa"},
    {"bind-to", " hwthread cpu pu ", "core"},
    {"bind-to", " gpu gpus cuda ", "device"},
    {"bind-to", " off no false ", "none"},
    {"transport", " ib rdma infiniband roce verbs ", "--transport net --net ib"},
    {"transport", " tcp socket sockets ethernet ", "--transport net --net socket"},
    {"transport", " nvlink cuda ipc gpu ", "p2p"},
    {"transport", " sysv cma sm vader posix mmap ", "shm"},
    {"transport", " self thread threads ", "loopback"},
    {"launcher", " mpi mpirun pmi pmix slurm srun torchrun ", "adopt"},
    {"launcher", " rsh pdsh ", "ssh"},
    {"launcher", " fork none ", "local"},
    {"ssh-client", " ssh system ", "openssh"},
    {"ssh-client", " libssh builtin internal ", "libssh2"},
    {"known-hosts", " no false ignore ", "off"},
    {"known-hosts", " yes true ", "strict"},
    {"known-hosts", " ask add new ", "accept-new"},
    {"check", " yes true on ", "1"},
    {"check", " no false off ", "0"},
    {"in-place", " yes true on only ", "1"},
    {"in-place", " no false off ", "0"},
    {"sync", " iteration every barrier ", "each"},
    {"p2p", " get pull ", "read"},
    {"p2p", " put push ", "write"},
};
constexpr Meaning kCommandNames[] = {
    {"", " bcast ", "broadcast"},
    {"", " p2p ping pingpong ", "sendrecv"},
    {"", " benchmark bench perf nccl-tests ", "allreduce"},
    {"", " launch exec start mpirun mpiexec torchrun pdsh ", "run"},
    {"", " diagnose preflight health ", "doctor"},
    {"", " lstopo hwloc nvidia-smi ", "topo"},
    {"", " config settings variables knobs ", "env"},
};

// Long names with dashes: torchrun takes both.
std::string with_dashes(std::string option) {
  if (option.rfind("--", 0) == 0) std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

// Whether a command takes the option that stands first in the text.
bool takes(const Command& command, const std::string& text) {
  const std::string word = text.substr(0, text.find(' '));
  if (word == "--") return (command.scopes & kProgram) != 0;
  for (const Option& option : options())
    if (applies(option, command) && (word == format("--{}", option.name) ||
                                     (option.letter != 0 && word == format("-{}", option.letter))))
      return true;
  return false;
}

std::string with_value(std::string text, const std::string& value) {
  for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}", at))
    text.replace(at, 2, value), at += value.size();
  return text;
}

}  // namespace

std::string meant_word(const ParsedLine& line, const std::string& word) {
  const bool file = word.find('/') != std::string::npos || ::access(word.c_str(), F_OK) == 0 ||
                    word.ends_with(".xml");
  if (file && line.has("diff")) return format("--diff {} --from {}", word, line.text("diff"));
  if (file && takes(*line.command, "--from")) return "--from " + word;
  const bool measures = (line.command->scopes & kBench) != 0 && !line.has("hosts");
  if (file || measures || !takes(*line.command, "-H")) return "";
  return format("-H {}{}", line.has("hosts") ? line.text("hosts") + "," : "", word);
}

std::vector<std::string> with_two_dashes(std::vector<std::string> arguments) {
  for (std::string& word : arguments) {
    if (word.size() < 3 || word[0] != '-' || word[1] == '-') continue;
    const std::string longer = "-" + word, name = longer.substr(0, longer.find('='));
    const bool theirs =
        std::ranges::any_of(kForeign, [&](const auto& row) { return name == row.option; });
    if (theirs || std::ranges::find(kOneDash, name) != std::end(kOneDash)) word = longer;
  }
  return arguments;
}

std::string foreign_option(const Command& command, const std::string& option,
                           const std::string& value) {
  std::string text;
  for (const ForeignOption& row : kForeign) {
    if (with_dashes(option) != row.option) continue;
    const bool none = *row.ours == 0;
    if (none ? (command.scopes & kLaunch) == 0 : !takes(command, row.ours)) continue;
    std::string theirs = format("{}{} {}", row.whose,
                                std::string_view(row.whose).ends_with('s') ? "'" : "'s", option);
    const bool valued = *row.value != 0;
    const std::string given = valued ? (value.empty() ? row.value : base::shell_word(value)) : "";
    if (valued) theirs += " " + given;
    if (!text.empty()) text += "; ";
    text += none ? format("{}: {}", theirs, row.why)
                 : format("{} is {} here", theirs, with_value(row.ours, given));
  }
  return text;
}

std::string meant_value(const Option& option, const std::string& value) {
  const std::string word = small_letters(value);
  for (const Meaning& meaning : kMeanings)
    if (std::string_view(option.name) == meaning.option && has_word(meaning.words, word) &&
        (*meaning.ours == '-' ||
         std::ranges::find(option.allowed, meaning.ours) != option.allowed.end()))
      return meaning.ours;
  // Open MPI's ppr:N:node, N ranks on each.
  if (std::string_view(option.name) == "map-by" && word.rfind("ppr:", 0) == 0)
    if (const std::string n = word.substr(4, word.find(':', 4) - 4); digits(n)) return "-N " + n;
  return "";
}

std::string meant_command(const std::string& word) {
  std::string bare = small_letters(word.substr(word.rfind('/') + 1));
  for (const Meaning& meaning : kCommandNames)
    if (has_word(meaning.words, bare)) return meaning.ours;
  if (bare.ends_with("_perf")) bare.resize(bare.size() - 5);
  bare.erase(std::remove_if(bare.begin(), bare.end(), [](char c) { return c == '_' || c == '-'; }),
             bare.end());
  return find_collective(bare) != nullptr && !find_collective(bare)->hidden ? bare : "";
}

std::string with_program_dashes(const std::vector<std::string>& arguments, size_t place) {
  constexpr size_t kMost = 300;
  std::string text = "collctl run";
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i == place) text += " --";
    text += " " + base::shell_word(arguments[i]);
    if (text.size() > kMost) return text.substr(0, kMost) + " ...";
  }
  return text;
}

}  // namespace collctl::cmd
