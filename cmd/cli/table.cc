// THE table of options, in the order in which help shows them; what concerns the launch and the
// hosts stands in cmd/job/option_rows.cc.
#include "cmd/cli/options_rows.h"
#include "kernels/algorithms.h"
#include "topology/detect/assume.h"

namespace collctl::cmd {
namespace {

using kernels::Protocol;

// The protocols that an algorithm of the table speaks.
std::vector<std::string> protocol_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kernels::kProtocolCount; ++i)
    for (const kernels::AlgorithmRow& row : kernels::algorithms())
      if (serves(row, Protocol(i))) {
        names.emplace_back(kernels::name_of(Protocol(i)));
        break;
      }
  names.emplace_back("all");
  return names;
}

void add_size_options(std::vector<Option>& t) {
  const Adder add{t, Group::sizes, kCollectives};
  add({.name = "min-bytes",
       .letter = 'b',
       .kind = ValueKind::size,
       .value = "SIZE",
       .fallback = "8",
       .scopes = kCollectives | kPlan,
       .help = "smallest size",
       .more = "Sizes are 8, 1K, 4M, 1G: binary units. They round down to whole elements "
               "of each rank."});
  add({.name = "max-bytes",
       .letter = 'e',
       .kind = ValueKind::size,
       .value = "SIZE",
       .fallback = "16M, 128M on GPUs",
       .help = "largest size"});
  add({.name = "step-factor",
       .letter = 'f',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "2",
       .minimum = 2,
       .maximum = 1048576,
       .scopes = kCollectives | kPlan,
       .help = "multiply the size by N at each step"});
  add({.name = "step-bytes",
       .kind = ValueKind::size,
       .value = "SIZE",
       .fallback = "none",
       .minimum = 1,
       .scopes = kCollectives | kPlan,
       .help = "add SIZE at each step instead"});
}

void add_select_options(std::vector<Option>& t) {
  const Adder add{t, Group::select, kCollectives};
  add({.name = "algo",
       .kind = ValueKind::choices,
       .value = "NAME",
       .fallback = "chosen",
       .allowed = algorithm_names(),
       .help = "algorithms, comma separated",
       .more = "One that cannot do the collective is an error; all means every one that "
               "can."});
  add({.name = "proto",
       .kind = ValueKind::choices,
       .value = "NAME",
       .fallback = "chosen",
       .allowed = protocol_names(),
       .help = "protocols, comma separated"});
  add({.name = "channels",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "chosen",
       .minimum = 1,
       .maximum = kernels::kMaxChannels,
       .scopes = kCollectives | kPlan,
       .help = "parallel copies of the algorithm"});
  add({.name = "transport",
       .kind = ValueKind::choice,
       .value = "NAME",
       .fallback = "the best that connects the ranks",
       .allowed = {"loopback", "p2p", "shm", "net"},
       .scopes = kOnRanks,
       .help = "use this transport only",
       .more = "loopback joins CPU ranks that are threads of one process, p2p GPUs that reach each "
               "other's memory, shm processes of one host, net any."});
  add({.name = "p2p",
       .kind = ValueKind::choice,
       .value = "HOW",
       .fallback = "auto",
       .allowed = {"auto", "read", "write"},
       .help = "which of two GPUs moves the data",
       .more = "read: the receiver reads. write: the sender writes."});
  add({.name = "net",
       .kind = ValueKind::text,
       .value = "NAME",
       .fallback = "ib where both ends have it",
       .scopes = kOnRanks | kRails | kPlan,
       .help = "network below the net transport (ib, socket, a plugin)",
       .more = "For a plugin: the name of its network (of COLLCTL_NET_PLUGIN), or NAME of "
               "libnccl-net-NAME.so."});
  add({.name = "device",
       .kind = ValueKind::choice,
       .value = "KIND",
       .fallback = "auto",
       .allowed = {"cpu", "cuda", "auto"},
       .scopes = kOnRanks,
       .help = "where ranks compute: cuda, cpu or auto",
       .more = "auto: on GPUs when the hosts have any, else on CPU cores, and the header says why. "
               "GPUs that cannot be used, a CUDA_VISIBLE_DEVICES that names none of them, and "
               "hosts of which only some have GPUs are an error (3). An empty or -1 "
               "CUDA_VISIBLE_DEVICES means cores."});
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const topology::AssumedModel& model : topology::assumed_models())
    names.push_back(model.name);
  return names;
}

void add_topo_options(std::vector<Option>& t) {
  const Adder add{t, Group::output, kTopo};
  add({.name = "from",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kTopo | kPlan,
       .help = "a topology file (XML) or a snapshot, instead of this machine",
       .more = "A snapshot is what --save has made: a folder or an archive. A copy of "
               "/sys, or a folder that holds one, works too. The content decides which it is."});
  add({.name = "save",
       .kind = ValueKind::file,
       .value = "PATH",
       .fallback = "none",
       .help = "save what was read of this machine, for --from elsewhere",
       .more =
           "PATH.tar, PATH.tar.gz and PATH.tgz become an archive, anything else a new folder. It "
           "holds the kernel's files about processors and PCI devices and what the drivers say "
           "of GPUs and network devices, with this host's name; no addresses, no users, no "
           "environment. --from reads it anywhere."});
  add({.name = "assume",
       .kind = ValueKind::choice,
       .value = "MODEL",
       .fallback = "none",
       .allowed = model_names(),
       .scopes = kTopo | kPlan,
       .help = "what the GPUs are that a topology file only hints at",
       .more =
           "Files of clouds often list PCI devices only. Devices of a GPU's class become GPUs of "
           "this model with their NVLinks, devices of a NIC's class network devices; all of it "
           "is marked as assumed."});
  add({.name = "assume-nic",
       .kind = ValueKind::number,
       .value = "GBPS",
       .fallback = "chosen",
       .minimum = 0.001,
       .maximum = 100000,
       .scopes = kTopo | kPlan,
       .help = "speed of an assumed network device, Gb/s",
       .more =
           "Not given: what the device's PCI ids say; else each GPU's share of 200 Gb/s for a100 "
           "and a800, 400 for h100, h800, h200 and b200, 200 for h100-pcie and l40s, 100 for the "
           "others, and never more than that."});
  add({.name = "matrix", .help = "path type and GB/s between GPUs and to network devices"});
  add({.name = "graph",
       .help = "the channels that the search finds: rings and trees",
       .more = "Of one node, or with --nodes of each of several. Equal channels are shown once."});
  add({.name = "diff",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .help = "what differs from that file or snapshot; exit 1 when something does",
       .more = "Devices are matched by their PCI addresses; what was there and is missing, what "
               "was added, and every attribute that changed is named."});
  add({.name = "strict",
       .help = "exit 1 when something is marked as faulty (!)",
       .more = "Without it faults are printed and the exit code is 0. With -H: also when all hosts "
               "are equal and share a fault."});
  add({.name = "output",
       .letter = 'o',
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .help = "draw the machine: FILE.svg, - for stdout",
       .more = "With --graph also its first ring. The file appears whole or not at all. Standard "
               "output then stays empty unless --matrix, --graph or --json is there too."});
  add({.name = "xml",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .help = "write the topology as XML",
       .more = "The file appears whole or not at all. Standard output then stays empty unless "
               "--matrix, --graph or --json is there too."});
}

void add_output_options(std::vector<Option>& t) {
  const Adder add{t, Group::output, kLaunch};
  add({.name = "json",
       .scopes = kLaunch | kReading | kDoctor | kTopo | kPlan,
       .help = "one JSON object on standard output"});
  add({.name = "csv", .scopes = kCollectives, .help = "comma separated rows on standard output"});
  add({.name = "format",
       .kind = ValueKind::choice,
       .value = "NAME",
       .fallback = "table",
       .allowed = {"table", "json", "jsonl", "csv", "nccl-tests"},
       .scopes = kCollectives,
       .help = "what standard output holds",
       .more = "nccl-tests: header, columns and footer of nccl-tests 2.19, for programs that read "
               "those. What was not measured is 0.00 there, as its header says."});
  add({.name = "output",
       .letter = 'o',
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kLaunch,
       .repeatable = true,
       .help = "report: .json .jsonl .csv .html .svg, - for stdout",
       .more =
           "The ending says which. A .jsonl grows line by line while it is measured; the others "
           "appear whole or not at all. With a program: .json only. .svg draws curves over "
           "size, or the matrix of window-test; rails has none. -o - is --json."});
  add({.name = "output",
       .letter = 'o',
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kDoctor | kPlan,
       .repeatable = true,
       .help = "report: .json .jsonl .csv .html, - for stdout",
       .more = "The ending says which. The file appears whole or not at all. -o - is --json."});
  add({.name = "plot",
       .scopes = kCollectives,
       .help = "draw bus bandwidth over size below the table"});
  add({.name = "wide",
       .scopes = kCollectives | kReport,
       .help = "all columns of the table, however wide",
       .more =
           "Without it the table fits COLUMNS, the terminal or 100 characters: columns that say "
           "the same in every row are left out first, and the footer names them."});
  add({.name = "exit-zero",
       .scopes = kReport,
       .help = "exit 0 even if the run failed",
       .more = "A report that cannot be read is an error all the same."});
  add({.name = "quiet",
       .scopes = kLaunch | kDoctor | kTopo | kPlan,
       .help = "no header, progress or notes"});
  add({.name = "verbose",
       .letter = 'v',
       .kind = ValueKind::count,
       .scopes = kLaunch | kDoctor | kTopo,
       .help = "log at INFO; -vv at TRACE",
       .more = "With doctor: how each host was reached. With topo: nothing is folded, and links of "
               "idle GPUs are named."});
}

std::vector<Option> make_options() {
  std::vector<Option> table;
  add_launch_options(table);
  add_host_options(table);
  add_size_options(table);
  add_measure_options(table);
  add_rails_options(table);
  add_select_options(table);
  add_topo_options(table);
  add_plan_options(table);
  add_output_options(table);
  const Adder general{table, Group::general, kAnywhere};
  general({.name = "color",
           .kind = ValueKind::choice,
           .value = "WHEN",
           .fallback = "auto",
           .allowed = {"auto", "always", "never"},
           .help = "colours in what is printed",
           .more =
               "auto: on a terminal, unless NO_COLOR is set. Under mpirun and the like: when the "
               "launcher's own output is a terminal."});
  general({.name = "help",
           .letter = 'h',
           .help = "this; --help all: everything, --help TOPIC: a part"});
  return table;
}

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const kernels::AlgorithmRow& row : kernels::algorithms()) names.emplace_back(row.name);
  names.emplace_back("all");
  return names;
}

std::span<const Option> options() {
  static const std::vector<Option> table = make_options();
  return table;
}

const Option* find_option(std::string_view name, uint32_t scopes) {
  for (const Option& option : options())
    if (name == option.name && (option.scopes & scopes) != 0) return &option;
  return nullptr;
}

const char* group_title(Group group) {
  switch (group) {
    case Group::launch:
      return "Launch options";
    case Group::hosts:
      return "Hosts";
    case Group::sizes:
      return "Sizes";
    case Group::measure:
      return "Measurement";
    case Group::select:
      return "Choices";
    case Group::output:
      return "Output";
    case Group::general:
      return "General";
  }
  return "";
}

}  // namespace collctl::cmd
