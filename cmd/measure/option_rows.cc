// The rows of THE table of options that say how a collective is measured.
#include "cmd/cli/option_rows.h"
#include "base/format.h"
#include "cmd/measure/options.h"
#include "cmd/measure/versus.h"
#include "kernels/algo/algorithms.h"
#include "transport/table/transports.h"

namespace collctl::cmd {
namespace {

using kernels::DataType;
using kernels::RedOp;

template <class Enum>
std::vector<std::string> names_and_all(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(kernels::name_of(Enum(i)));
  names.emplace_back("all");
  return names;
}

std::vector<std::pair<std::string, std::string>> types_elsewhere() {
  std::vector<std::pair<std::string, std::string>> names;
  for (int i = 0; i < kernels::kDataTypeCount; ++i) {
    const kernels::DataTypeRow& row = kernels::row_of(DataType(i));
    names.emplace_back(format(" {} ", row.other_names), row.name);
  }
  return names;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const transport::Transport& row : transport::transports()) names.emplace_back(row.name);
  return names;
}
// "loopback joins CPU ranks, shm processes of one host."
const char* transport_words() {
  static const std::string words = [] {
    std::string text;
    for (const transport::Transport& row : transport::transports())
      text += format("{}{}{} {}", text.empty() ? "" : ", ", row.name, text.empty() ? " joins" : "",
                     row.joins);
    return text + ".";
  }();
  return words.c_str();
}

std::vector<std::string> versus_names() {
  std::vector<std::string> names = versus_variants();
  names.emplace_back("best");
  return names;
}

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

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const kernels::AlgorithmRow& row : kernels::algorithms()) names.emplace_back(row.name);
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

void add_measure_options(std::vector<Option>& t) {
  const Adder add{t, Group::measure, kCollectives};
  add({.name = "dtype",
       .letter = 'd',
       .kind = ValueKind::choices,
       .value = "TYPE",
       .fallback = "float32",
       .allowed = names_and_all<DataType>(kernels::kDataTypeCount),
       .synonyms = types_elsewhere(),
       .help = "element types, comma separated",
       .more = "Other names work too: float, half, double, bf16, int."});
  add({.name = "op",
       .kind = ValueKind::choices,
       .value = "OP",
       .fallback = "sum",
       .allowed = names_and_all<RedOp>(kernels::kRedOpCount),
       .help = "reductions, comma separated"});
  add({.name = "root",
       .letter = 'r',
       .kind = ValueKind::integer,
       .value = "R",
       .fallback = "0",
       .minimum = 0,
       .maximum = 65535,
       .allowed = {"all"},
       .help = "root rank, or all in turn"});
  add({.name = "iters",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "20",
       .minimum = 1,
       .maximum = 1000000,
       .scopes = kOnRanks,
       .help = "timed iterations of each size"});
  add({.name = "budget",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "300",
       .minimum = 0.001,
       .maximum = 1e6,
       .scopes = kTimedTask,
       .help = "start no further stage or pair after S seconds (window-test)",
       .more = "What is left is not tested: the exit code is 8, and the report names it."});
  add({.name = "warmup",
       .letter = 'w',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "5",
       .minimum = 0,
       .maximum = 1000000,
       .help = "untimed iterations before the timed ones",
       .more = "And as many more as fit into 2 ms, at most 2000: what is used for the first time "
               "takes longer. 0: none, the first operations are timed."});
  add({.name = "sync",
       .kind = ValueKind::choice,
       .value = "HOW",
       .fallback = "block",
       .allowed = {"block", "each"},
       .help = "time iterations as one block, or each",
       .more = "block runs them back to back and divides, as nccl-tests does. "
               "each puts a barrier before every one and prints percentiles; sizes whose first and "
               "last half disagree are marked unsteady."});
  add({.name = "agg-iters",
       .letter = 'm',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "1",
       .minimum = 1,
       .maximum = 256,
       .help = "group N operations in every iteration",
       .more = "They are submitted as one, as between ncclGroupStart and ncclGroupEnd; the time of "
               "an operation is that of a group divided by N."});
  add({.name = "average",
       .letter = 'a',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "3",
       .minimum = 0,
       .maximum = 3,
       .help = "whose time counts: 0 rank 0, 1 the mean, 2 the fastest, 3 the slowest",
       .more = "As -a of nccl-tests. Every report has fastest, mean and slowest (ranks_us)."});
  add({.name = "split",
       .kind = ValueKind::text,
       .value = "HOW",
       .fallback = "none",
       .help = "groups of ranks do it at the same time: N, mod:N, host, numa",
       .more =
           "N (or div:N): N consecutive ranks each; mod:N: ranks that are equal modulo N, one of "
           "each N; and:MASK, or:MASK: equal in rank & MASK, rank | MASK; host: of one host; numa: "
           "of one NUMA node. As NCCL_TESTS_SPLIT, but every group has its own rows, and the "
           "slowest is marked. Bandwidths and --root are those within a group; groups begin each "
           "timed stretch together."});
  add({.name = "cuda-graph",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "none",
       .minimum = 1,
       .maximum = 10000,
       .help = "on GPUs: replay CUDA graphs of N operations",
       .more = "The time of an operation is that of a graph divided by N. The data check runs "
               "through a graph as well."});
  add({.name = "vs",
       .kind = ValueKind::choice,
       .value = "WHAT",
       .fallback = "none",
       .allowed = {"nccl", "mpi"},
       .help = "time the installed NCCL (GPUs) or MPI (CPU ranks) too",
       .more =
           "It works on the same buffers in the same process; blocks of iterations alternate five "
           "times and medians are compared. ratio: its time divided by ours, so above 1 collctl is "
           "faster. nccl: libnccl.so.2; NVLS is off on both sides unless NCCL_NVLS_ENABLE is set. "
           "mpi: Open MPI or MPICH, whose own launcher has to start the ranks: mpirun -n 4 collctl "
           "allreduce --vs mpi."});
  add({.name = "vs-config",
       .kind = ValueKind::choices,
       .value = "NAME",
       .fallback = "default",
       .allowed = versus_names(),
       .help = "how NCCL is set up, comma separated; best: all",
       .more = "Of several the fastest at each size is compared; --json has them all. registered "
               "and symmetric are the default with registered buffers and symmetric windows."});
  add({.name = "window",
       .help = "put the buffers into registered windows",
       .more =
           "Ranks of a host map each other's windows, so collectives can copy directly from buffer "
           "to buffer where the model expects that to be faster: the column path says direct. "
           "On several hosts collectives take the staged path."});
  add({.name = "stragglers",
       .help = "who came late, and who waited for whom",
       .more =
           "Counts every wait of every rank by peer while operations are timed, and how long "
           "network links carried data: names the rank, host or link that the others waited "
           "for. Costs two looks at the clock for each wait: little but for the smallest sizes. On "
           "GPUs the general kernels run, which count, not those made for windows: middle sizes "
           "take longer than otherwise."});
  add({.name = "trace",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .help = "write every timed operation of every rank to FILE (CPU ranks)",
       .more =
           "In Chrome's trace format, which ui.perfetto.dev opens: one operation a line with its "
           "start, duration, algorithm, bytes, and how long it waited for which peer. Clocks of "
           "hosts are put together by the barrier before each block. Counts waits as --stragglers "
           "does."});
  add({.name = "misalign",
       .kind = ValueKind::integer,
       .value = "BYTES",
       .fallback = "0",
       .minimum = 0,
       .maximum = 4095,
       .help = "start the buffers BYTES after a page boundary"});
  add({.name = "seed",
       .kind = ValueKind::integer,
       .value = "S",
       .fallback = "1",
       .minimum = 0,
       .maximum = 1e15,
       .hidden = true,
       .help = "seed of the soak's random operations"});
  add({.name = "ops",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "1000",
       .minimum = 1,
       .maximum = 1e9,
       .hidden = true,
       .help = "operations of the soak"});
  add({.name = "check",
       .letter = 'c',
       .kind = ValueKind::choice,
       .value = "0|1",
       .fallback = "1",
       .allowed = {"0", "1"},
       .help = "compare every element with the expected one"});
  add({.name = "in-place",
       .kind = ValueKind::choice,
       .value = "WHICH",
       .fallback = "both",
       .allowed = {"0", "1", "both"},
       .help = "measure out of place, in place, or both"});
  add({.name = "min-busbw",
       .kind = ValueKind::limit,
       .value = "X[@SIZE]",
       .unit = "GB/s",
       .fallback = "none",
       .minimum = 0,
       .maximum = 1e6,
       .help = "exit 1 when the bus bandwidth (GB/s) is lower",
       .more = "At the largest size, or at SIZE."});
  add({.name = "max-latency",
       .kind = ValueKind::limit,
       .value = "US[@SIZE]",
       .unit = "us",
       .fallback = "none",
       .minimum = 0,
       .maximum = 1e12,
       .help = "exit 1 when the time (us) is longer",
       .more = "At the smallest size, or at SIZE."});
  add({.name = "min-efficiency",
       .kind = ValueKind::limit,
       .value = "F[@SIZE]",
       .unit = "%",
       .fallback = "none",
       .minimum = 0,
       .maximum = 10,
       .scopes = kCollectives | kCheck,
       .help = "exit 1 when less than F of the expected speed is reached",
       .more = "At the largest size, or at SIZE. Expected is what the planner's model gives for "
               "this machine, or, where it does not know the machine, the bound of its paths: the "
               "column 'of exp.', and results[].expected in JSON."});
  add({.name = "thresholds",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kCollectives | kCheck,
       .help = "exit 1 when a threshold of FILE is missed",
       .more =
           "A line each: COLLECTIVE SIZE STATISTIC RANKS|* min|max VALUE SOURCE, for example "
           "'allreduce 1G busbw 8 min 380 vendor'. Statistics: busbw, algbw (GB/s), time, p50, "
           "p99 (us), efficiency. What a line asks for and was not measured is not tested: 8."});
  add({.name = "baseline",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kCollectives | kCheck,
       .help = "exit 1 when slower than the runs that FILE has",
       .more = "Slower: beyond the median by more than 10 % and three times the runs' spread; with "
               "fewer than three runs by more than 30 %. Timings of another machine are not "
               "compared: exit code 8."});
  add({.name = "save-baseline",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kCollectives | kCheck,
       .help = "add the timings to FILE, for --baseline",
       .more = "Each run adds a sample to every timing of its kind of machine; the newest 32 "
               "stay. Several runs tell their spread."});
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
       .allowed = transport_names(),
       .scopes = kOnRanks,
       .help = "use this transport only",
       .more = transport_words()});
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
       .scopes = kOnRanks | kTask | kPlan | kCheck,
       .help = "network below the net transport (ib, socket, a plugin)",
       .more = "For a plugin: the name of its network (of COLLCTL_NET_PLUGIN), or NAME of "
               "libnccl-net-NAME.so."});
  add({.name = "integrity",
       .scopes = kOnRanks | kCheck,
       .help = "data between hosts carries MACs",
       .more =
           "Over sockets: what is changed, left out, doubled or swapped on the way ends the job "
           "with code 5. A network without them (InfiniBand, RoCE, a plugin) is refused; shared "
           "memory and P2P inside a host are none and stay as they are. window-test: refused where "
           "ranks do not share memory, since one-sided operations carry none. check: what its "
           "collectives send; the suite pairs, like rails, has nothing of a user's to defend."});
  add({.name = "recalibrate",
       .help = "measure this job's hosts anew for the expected times",
       .more =
           "CPU ranks: how long a flag takes from core to core, and data of a few sizes. GPUs of "
           "one host: what operations through memory that all map take between the first and the "
           "last. At most 50 ms, by the first job on a machine (of H100 and H200 over NVLink there "
           "are figures already, these are measured only when asked), kept in "
           "$XDG_CACHE_HOME/collctl (~/.cache/collctl). env and plan show it; "
           "COLLCTL_CALIBRATE=0 does without."});
  add({.name = "device",
       .kind = ValueKind::choice,
       .value = "KIND",
       .fallback = "auto",
       .allowed = {"cpu", "cuda", "auto"},
       .scopes = kOnRanks | kCheck,
       .help = "where ranks compute: cuda, cpu or auto",
       .more = "auto: on GPUs when the hosts have any, else on CPU cores, and the header says why. "
               "GPUs that cannot be used, a CUDA_VISIBLE_DEVICES that names none of them, and "
               "hosts of which only some have GPUs are an error (3). An empty or -1 "
               "CUDA_VISIBLE_DEVICES means cores."});
}

}  // namespace collctl::cmd
