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
  using namespace kinds;
  const Adder add{t, Group::sizes, kCollectives};
  const Adder plan = add.in(kCollectives | kPlan);
  plan("b,min-bytes", size("8"), alike<&SizeRange::min_bytes>, "smallest size",
       "Sizes are 8, 1K, 4M, 1G: binary units. They round down to whole elements of each rank.");
  add("e,max-bytes", size("16M, 128M on GPUs"), alike<&SizeRange::max_bytes>, "largest size");
  plan("f,step-factor", integer("N", 2, 1048576, "2"), alike<&SizeRange::step_factor>,
       "multiply the size by N at each step");
  plan("step-bytes", size("none", 1), alike<&SizeRange::step_bytes>,
       "add SIZE at each step instead");
  add("plateau", flag(), alike<&BenchSpec::plateau>,
      "then one row that is large enough for the machine's line rate",
      "On GPUs a sixteenth of the free memory, at most 4G; on cores beyond their caches, 32M to "
      "256M; smaller where an iteration would take more than 0.25 s.");
}

void add_measure_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::measure, kCollectives};
  const Adder check = add.in(kCollectives | kCheck);
  add("d,dtype", some_of("TYPE", names_and_all<DataType>(kernels::kDataTypeCount), "float32"),
      alike<&BenchSpec::types>, "element types, comma separated",
      "Other names work too: float, half, double, bf16, int.")
      .synonyms = types_elsewhere();
  add("op", some_of("OP", names_and_all<RedOp>(kernels::kRedOpCount), "sum"),
      alike<&BenchSpec::ops>, "reductions, comma separated");
  add("r,root", integer("R", 0, 65535, "0"), alike<&BenchSpec::roots>, "root rank, or all in turn")
      .allowed = {"all"};
  add.in(kOnRanks)("iters", integer("N", 1, 1000000, "20"), alike<&TimedSettings::iterations>,
                   "timed iterations of each size");
  add("w,warmup", integer("N", 0, 1000000, "5"), alike<&BenchSpec::warmup>,
      "untimed iterations before the timed ones",
      "And as many more as fit into 2 ms, at most 2000: what is used for the first time takes "
      "longer. 0: none, the first operations are timed.");
  add("sync", one_of("HOW", {"block", "each"}, "block"), alike<&BenchSpec::sync_each>,
      "time iterations as one block, or each",
      "block runs them back to back and divides, as nccl-tests does. each puts a barrier before "
      "every one and prints percentiles; sizes whose first and last half disagree are marked "
      "unsteady.");
  add("m,agg-iters", integer("N", 1, 256, "1"), alike<&BenchSpec::grouped>,
      "group N operations in every iteration",
      "They are submitted as one, as between ncclGroupStart and ncclGroupEnd; the time of an "
      "operation is that of a group divided by N.");
  add("a,average", integer("N", 0, 3, "3"), alike<&BenchSpec::time_of>,
      "whose time counts: 0 rank 0, 1 the mean, 2 the fastest, 3 the slowest",
      "As -a of nccl-tests. Every report has fastest, mean and slowest (ranks_us).");
  add("split", text("HOW"), alike<&BenchSpec::split>,
      "groups of ranks do it at the same time: N, mod:N, host, numa",
      "N (or div:N): N consecutive ranks each; mod:N: ranks that are equal modulo N, one of each "
      "N; and:MASK, or:MASK: equal in rank & MASK, rank | MASK; ranks:0-3,8/4-7: as listed; host: "
      "of one host; numa: of one NUMA node. As NCCL_TESTS_SPLIT, but every group has its own rows, "
      "and the slowest is marked. Bandwidths and --root are those within a group; groups begin "
      "each "
      "timed stretch together.");
  add("cuda-graph", integer("N", 1, 10000), alike<&BenchSpec::cuda_graph>,
      "on GPUs: replay CUDA graphs of N operations",
      "The time of an operation is that of a graph divided by N. The data check runs through a "
      "graph as well.");
  add("vs", one_of("WHAT", {"nccl", "mpi"}, "none"), alike<&BenchSpec::rival>,
      "time the installed NCCL (GPUs) or MPI (CPU ranks) too",
      "It works on the same buffers in the same process; blocks of iterations alternate five times "
      "and medians are compared. ratio: its time divided by ours, so above 1 collctl is faster. "
      "nccl: libnccl.so.2; NVLS is off on both sides unless NCCL_NVLS_ENABLE is set. mpi: Open MPI "
      "or MPICH, whose own launcher has to start the ranks: mpirun -n 4 collctl allreduce --vs "
      "mpi.");
  add("vs-config", some_of("NAME", versus_names(), "default"),
      "how NCCL is set up, comma separated; best: all",
      "Of several the fastest at each size is compared; --json has them all. registered and "
      "symmetric are the default with registered buffers and symmetric windows.");
  add("window", flag(), alike<&BenchSpec::window>, "put the buffers into registered windows",
      "Ranks of a host map each other's windows, so collectives can copy directly from buffer to "
      "buffer where the model expects that to be faster: the column path says direct. On several "
      "hosts collectives take the staged path.");
  add("stragglers", flag(), alike<&BenchSpec::stragglers>, "who came late, and who waited for whom",
      "Counts every wait of every rank by peer while operations are timed, and how long network "
      "links carried data: names the rank, host or link that the others waited for. Costs two "
      "looks at the clock for each wait: little but for the smallest sizes. On GPUs the kernels "
      "are those of any other run, in a form that counts.");
  add("trace", file(), alike<&BenchSpec::trace>,
      "write every timed operation of every rank to FILE (CPU ranks)",
      "In Chrome's trace format, which ui.perfetto.dev opens: one operation a line with its start, "
      "duration, algorithm, bytes, and how long it waited for which peer. Clocks of hosts are put "
      "together by the barrier before each block. Counts waits as --stragglers does.");
  add("misalign", integer("BYTES", 0, 4095, "0"), alike<&BenchSpec::misalign>,
      "start the buffers BYTES after a page boundary");
  add("seed", integer("S", 0, 1e15, "1"), alike<&BenchSpec::soak_seed>,
      "seed of the soak's random operations")
      .hidden = true;
  add("ops", integer("N", 1, 1e9, "1000"), alike<&BenchSpec::soak_operations>,
      "operations of the soak")
      .hidden = true;
  add("c,check", one_of("0|1", {"0", "1"}, "1"), alike<&BenchSpec::check>,
      "compare every element with the expected one");
  add("in-place", one_of("WHICH", {"0", "1", "both"}, "both"), alike<&BenchSpec::in_place>,
      "measure out of place, in place, or both");
  add("min-busbw", limit("X[@SIZE]", "GB/s", 1e6), "exit 1 when the bus bandwidth (GB/s) is lower",
      "At the largest size, or at SIZE.");
  add("max-latency", limit("US[@SIZE]", "us", 1e12), "exit 1 when the time (us) is longer",
      "At the smallest size, or at SIZE.");
  check("min-efficiency", limit("F[@SIZE]", "%", 10),
        "exit 1 when less than F of the expected speed is reached",
        "At the largest size, or at SIZE. Expected is what the planner's model gives for this "
        "machine, or, where it does not know the machine, the bound of its paths: the column 'of "
        "exp.', and results[].expected in JSON.");
  check(
      "thresholds", file(), "exit 1 when a threshold of FILE is missed",
      "A line each: COLLECTIVE SIZE STATISTIC RANKS|* min|max VALUE SOURCE, for example 'allreduce "
      "1G busbw 8 min 380 vendor'. Statistics: busbw, algbw (GB/s), time, p50, p99 (us), "
      "efficiency. What a line asks for and was not measured is not tested: 8.");
  check("baseline", file(), "exit 1 when slower than the runs that FILE has",
        "Slower: beyond the median by more than 10 % and three times the "
        "runs' spread; with fewer than three runs by more than 30 %. "
        "Timings of another machine are not compared: exit code 8.");
  check("save-baseline", file(), "add the timings to FILE, for --baseline",
        "Each run adds a sample to every timing of its kind of machine; "
        "the newest 32 stay. Several runs tell their spread.");
}

void add_select_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::select, kCollectives};
  const Adder check = add.in(kOnRanks | kCheck);
  add("algo", some_of("NAME", algorithm_names(), "chosen"), alike<&BenchSpec::algorithms>,
      "algorithms, comma separated",
      "One that cannot do the collective is an error; all means every one that can.");
  add("proto", some_of("NAME", protocol_names(), "chosen"), alike<&BenchSpec::protocols>,
      "protocols, comma separated");
  add.in(kCollectives | kPlan)("channels", integer("N", 1, kernels::kMaxChannels, "chosen"),
                               alike<&BenchSpec::channels>, "parallel copies of the algorithm");
  add.in(kOnRanks)("transport",
                   one_of("NAME", transport_names(), "the best that connects the ranks"),
                   to<&TimedSettings::transport>, "use this transport only", transport_words());
  add("p2p", one_of("HOW", {"auto", "read", "write"}, "auto"), to<&BenchSpec::p2p>,
      "which of two GPUs moves the data", "read: the receiver reads. write: the sender writes.");
  add.in(kOnRanks | kTask | kPlan | kCheck)(
      "net", text("NAME", "ib where both ends have it"), to<&TimedSettings::net>,
      "network below the net transport (ib, socket, a plugin)",
      "For a plugin: the name of its network (of COLLCTL_NET_PLUGIN), or NAME of "
      "libnccl-net-NAME.so.");
  check(
      "integrity", flag(), to<&TimedSettings::integrity>, "data between hosts carries MACs",
      "Over sockets: what is changed, left out, doubled or swapped on the way ends the job with "
      "code 5. A network without them (InfiniBand, RoCE, a plugin) is refused; shared memory and "
      "P2P inside a host are none and stay as they are. window-test: refused where ranks do not "
      "share memory, since one-sided operations carry none. check: what its collectives send; the "
      "suite pairs, like rails, has nothing of a user's to defend.");
  add("recalibrate", flag(), to<&BenchSpec::recalibrate>,
      "measure this job's hosts anew for the expected times",
      "CPU ranks: how long a flag takes from core to core, and data of a few sizes. GPUs of one "
      "host: what operations through memory that all map take between the first and the last. At "
      "most 50 ms, by the first job on a machine (of H100 and H200 over NVLink there are figures "
      "already, these are measured only when asked), kept in $XDG_CACHE_HOME/collctl "
      "(~/.cache/collctl). env and plan show it; COLLCTL_CALIBRATE=0 does without.");
  check("device", one_of("KIND", {"cpu", "cuda", "auto"}, "auto"),
        to<&RankSettings::device_request>, "where ranks compute: cuda, cpu or auto",
        "auto: on GPUs when the hosts have any, else on CPU cores, and the header says why. GPUs "
        "that cannot be used, a CUDA_VISIBLE_DEVICES that names none of them, and hosts of which "
        "only some have GPUs are an error (3). An empty or -1 CUDA_VISIBLE_DEVICES means cores.");
}

}  // namespace collctl::cmd
