// A measurement and its results: plain records with JSON forms, because they travel between the
// launcher's process and the ranks. Made by `run` and the collective commands; executed by
// bench_rank; judged by cmd/judge, printed by cmd/report. Units are in the names. Threads: values.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cmd/cli/bind.h"
#include "cmd/measure/groups.h"
#include "cmd/measure/nccl_watch.h"
#include "cmd/measure/task.h"
#include "cmd/verify/bench_op.h"
#include "cmd/verify/buffer_shape.h"
#include "cmd/verify/diagnose.h"
#include "kernels/contract/types.h"

namespace collctl::cmd {

// Ranks whose time counts as an operation's; by the numbers of nccl-tests.
enum class TimeOf : uint8_t { rank0, mean, fastest, slowest };
inline constexpr const char* kTimeOfNames[] = {"rank 0", "the mean of all ranks",
                                               "the fastest rank", "the slowest rank"};

// The library that --vs measures beside us.
enum class Rival : uint8_t { nccl, mpi };
inline constexpr const char* kRivalNames[] = {"nccl", "mpi"};

enum class InPlace : uint8_t { out_of_place, in_place, both };
inline constexpr uint64_t kMostBytesOfSoak = 4u << 20;
inline constexpr uint64_t kMostBytesOnGpus = 128u << 20;  // --max-bytes unless it is given

struct BenchSpec : TimedSettings, SizeRange {
  using Bases = OptionsOf<TimedSettings, SizeRange>;
  BenchOp collective;
  int warmup = 5;
  bool sync_each = false;  // --sync each: a barrier before every iteration, percentiles
  std::vector<kernels::DataType> types{kernels::DataType::float32};
  std::vector<kernels::RedOp> ops{kernels::RedOp::sum};
  std::vector<int> roots{0};  // -1 alone: all
  bool check = true;
  InPlace in_place = InPlace::both;
  std::vector<std::string> algorithms;  // empty: chosen; "all" was expanded already
  std::vector<std::string> protocols;
  int channels = 0;
  std::string p2p;  // "", auto, read, write
  bool recalibrate = false;
  bool max_bytes_given = false;  // else it depends on the ranks' kind
  bool plateau = false;          // then a row that is large enough for the machine's line rate
  bool stragglers = false;       // count who waits for whom
  bool trace = false;            // tell every timed operation of every rank
  bool window = false;           // buffers lie in registered windows
  int misalign = 0;              // bytes, of buffers
  int cuda_graph = 0;            // submissions of a graph; 0: no graph
  int grouped = 1;               // operations of a submission
  TimeOf time_of = TimeOf::slowest;
  SplitRule split;                  // into groups that work at the same time
  std::vector<std::string> versus;  // variants of the installed library; empty: none
  Rival rival = Rival::nccl;        // which one
  bool versus_best = false;         // whichever of them this NCCL can do; else each was named
  bool versus_as_is = false;        // as the site has it set, its multicast included
  bool versus_watched = false;      // its results are checked, its log and its RAS read
  bool soak = false;                // random operations instead of the collective
  uint64_t soak_seed = 1;
  int soak_operations = 1000;
  bool expects = true;  // its rows have an expected time; not so those of old reports
};
// Its own fields alone: the settings travel beside them.
void fields(Record& io, BenchSpec& spec);
// The spec when it is known where the ranks compute. An error when it asks CPU ranks for what only
// GPUs can: usage where the line wants CPU ranks, else unavailable.
Result<BenchSpec> settled(const BenchSpec& spec, bool on_gpus, const std::string& reason = "");

// A root that no rank of a job (or group) of `ranks` is: an error of code usage.
Status check_root(int root, int ranks, const char* of = "the job");
// Whether the collective works with so many ranks, and each root is one of them: in every group of
// the spec, where the groups can be known. Error: usage.
Status check_ranks_and_roots(const BenchSpec& spec, int ranks);
Status check_groups(const BenchSpec& spec, const Groups& groups);

struct VersusTiming {  // what another library took for the same
  std::string name;    // "nccl 2.28.9"
  std::string variant;
  double time_us = 0;
  int64_t wrong = -1;   // elements, as Timing's; -1: not checked
  int wrong_rank = -1;  // the first that has some
};

struct Timing {  // of one row, one of the two placements
  bool measured = false;
  double time_us = 0;  // of whom TimeOf says; mean of block or of iterations
  double fastest_us = 0, mean_us = 0, slowest_us = 0;     // over the ranks; likewise
  double p50_us = 0, p99_us = 0, min_us = 0, max_us = 0;  // with sync_each
  bool unsteady = false;  // with sync_each: its halves' medians are far apart
  double algbw_GBps = 0, busbw_GBps = 0;
  int64_t wrong = -1;  // -1: not checked
  int slowest_rank = -1;
  std::vector<VersusTiming> versus = {};  // with --vs; the first is the best of them
  double ratio() const {                  // theirs / ours; 0: there is none
    return versus.empty() || time_us <= 0 ? 0 : versus[0].time_us / time_us;
  }
};

// Expected time and bandwidth of a row's operation, by what it was planned with
// (runtime/plan/plan.h).
struct RowExpected {
  double time_us = 0, busbw_GBps = 0;
  std::string limited_by;  // the link, or what else takes most of it
  // "model", "bound" of its paths where no model knows the machine, or "assumed".
  std::string source;
  std::string unknown = {};  // in words: what had to be assumed
  double efficiency(const Timing& timing) const {
    return timing.time_us > 0 ? time_us / timing.time_us : 0;
  }
};

// A tuner plugin's part in a row's choice.
struct RowTuned {
  bool followed = false;            // the choice is the tuner's
  std::string wish;                 // "Ring/LL, 2 channels"; empty: it left the choice to us
  std::string algorithm, protocol;  // what would have been chosen without it
  int channels = 0;
  double time_us = 0;  // by the model
};

struct BenchRow {
  uint64_t bytes = 0, count = 0;
  kernels::DataType type{};
  kernels::RedOp op{};
  bool has_op = true;  // data movement only: "none" in tables
  int root = -1;
  std::string algorithm = {}, protocol = {};
  int channels = 0;
  bool direct = false;  // from buffer to buffer, which lie in windows
  const char* path() const { return direct ? "direct" : "staged"; }
  Timing out_of_place = {}, in_place = {};
  std::optional<RowExpected> expected = {};
  // The expectation that the row is held against; null: there is none, or an assumption.
  const RowExpected* standard() const {
    return expected && expected->source != "assumed" ? &*expected : nullptr;
  }
  std::optional<RowTuned> tuned = {};
  int group = -1, group_ranks = 0;  // with --split: which, and of how many ranks
  int ranks = 0;        // that measured it, where others were lost before; 0: as many as began
  uint64_t warmup = 0;  // operations before the first timed one of a placement, the most
  uint64_t number = 0;  // among all that may be asked for, in the order of measuring
  bool slowest_group = false;  // of those that measured this at the same time
  const Timing& first_timing() const { return out_of_place.measured ? out_of_place : in_place; }
};

// --trace: what ranks did in a row, one event an operation.
struct TraceEvent {
  struct Wait {
    int peer = 0;
    double recv_us = 0, send_us = 0;  // for its data; for it to take data
  };
  int rank = 0;
  bool in_place = false;
  uint32_t iteration = 0;
  double start_us = 0, elapsed_us = 0;  // by rank 0's clock, after its first event
  std::vector<Wait> waits = {};
};
struct BenchTrace {
  std::vector<TraceEvent> events;
  uint64_t left_out = 0;  // operations that a row had no room for
};

struct GpuLine {  // one for each of a host's ranks
  std::string name, bus_id;
  uint64_t held_bytes = 0;  // by the communicator
  std::string note;         // what throttles it, and its clock; empty: nothing does
};
struct HostLine {
  Host host;
  std::vector<int> ranks, devices, pids;
  std::string own_name = {};            // as its kernel calls it, where that is another name
  std::vector<GpuLine> gpus = {};       // of GPU ranks
  std::string machine = {};             // its processors
  std::vector<std::string> cores = {};  // of each CPU rank: where it may run ("0-3,8")
  bool bound = false;                   // not each of them wherever the others may
  double wakeup_us =
      0;  // until a sleeping thread runs again: the slowest of its ranks; 0: not measured
};
struct LinkLine {
  int channel, from, to;
  std::string via;
  std::string why = {};  // in words, where there was a choice (GPU memory and NICs)
  std::string from_nic = {}, to_nic = {};  // of the two ends, where the topology chose them
  int relay = -1;                          // the rank whose GPU sends it for its sender (PXN)
};

// --window: the measurement's buffers, and who maps whose.
struct WindowsLine {
  uint64_t bytes = 0;                   // registered by each rank
  std::vector<std::vector<int>> teams;  // ranks that map each other's
  std::string note = {};                // why nothing moves directly between them; empty: it may
};

struct TunerLine {
  std::string name, library;
  int version = 0;
};

struct BenchHeader {
  std::string version, device = "cpu";
  std::string device_reason;  // why the ranks are there
  BenchOp collective;
  int ranks = 0;
  std::vector<HostLine> hosts;
  std::vector<LinkLine> links;
  double init_seconds = 0;
  double launch_seconds = 0;  // before that: hosts reached, ranks started; 0: not known
  std::string note;           // e.g. "4 ranks share 2 cores"
  int cuda_graph = 0, grouped = 1;
  TimeOf time_of = TimeOf::slowest;
  bool soak = false;                        // random operations, not the collective
  std::string versus;                       // "nccl 2.28.9: default, ring"; empty: none
  std::optional<WindowsLine> windows = {};  // with --window
  std::string split = {};                   // --split, as it was given; empty: none
  std::vector<GroupLine> groups = {};       // by number
  std::optional<TunerLine> tuner = {};      // with a tuner plugin
};

// Cost of a communicator for a rank and its GPU. Memory by what is free on the GPU before and
// after; the driver's context is there before, and does not count.
struct StartCost {
  double seconds = 0;         // from its making to the end of its first collective
  uint64_t taken_bytes = 0;   // meanwhile: buffers, and the code of kernels; 0: not known
  uint64_t buffer_bytes = 0;  // buffers that it holds at the end of the run; 0: not known
};
struct ThrottledGpu {
  Host host;
  std::string bus_id;
  int rank = -1, device = -1;
  std::string why;  // what throttled it during the run, and its lowest clock then
};
struct BusyHost {  // others than the ranks had its processors during the run
  Host host;
  std::string why;
  bool own_limit = false;  // nothing but its own cgroup's quota: the host's fault, no excuse
};
// --stragglers: how a rank's time went while operations were timed: whom it waited for, and when it
// did not wait because the others waited for it. Counted by the works and kernels themselves
// (kernels/contract/waits.h) and by the network's links.
struct PeerWaits {
  int peer = 0;
  double recv_us = 0;      // waited for its data
  double send_us = 0;      // waited for it, or the network, to take data
  double carrying_us = 0;  // the network carried data to it
  uint64_t waits = 0;
};
struct RankWaits {
  int rank = 0;
  Host host;
  double elapsed_us = 0;  // in timed operations
  double waited_us = 0;   // of it
  double away_us = 0;     // of the rest: without a processor although it could have gone on
  std::vector<PeerWaits> peers;
  // Time that it took for itself while the others may have waited for it.
  double own_us() const { return elapsed_us > waited_us ? elapsed_us - waited_us : 0; }
};
struct LeftOut {  // a variant of another library that could not be measured
  std::string variant, reason;
};
// Results that are known when the last row is done. CPU ranks: only if a list has an entry.
struct BenchClosing {
  std::vector<BusyHost> busy;
  std::vector<ThrottledGpu> throttled;  // that were not so before
  std::vector<LeftOut> left_out;
  std::vector<RankWaits> waits;      // with --stragglers
  std::string other, other_variant;  // whose cost `other_cost` is: "nccl 2.28.9", "default"
  bool costs = false;                // the two costs count; each the largest of all ranks'
  StartCost own_cost, other_cost;
  std::vector<NcclOnHost> nccl;  // with versus_watched
};

// A record of a measurement. As text it is a JSON object with a "record" field: header, row,
// closing, fault, trace.
using BenchRecord = std::variant<BenchHeader, BenchRow, BenchClosing, DataFault, BenchTrace>;
std::string encode_record(const BenchRecord& record);
Result<BenchRecord> decode_record(const std::string& text);
// Where they go in the launcher's process: a header, with each row its trace, faults, and after the
// last row the closing.
class BenchSink : public TaskSink {
 public:
  virtual void on(BenchRecord record) = 0;
  Status record(const std::string& json) final;
};
// A rank's own end of that: its records go where `on` puts them, what is for people to the task.
struct BenchOut {
  TaskSink& task;
  std::function<Status(const BenchRecord&)> on;
  bool every_rank = false;  // makes records whatever its number
};
// A record that is to be a header.
Result<BenchHeader> read_header(const std::string& text);

// One rank of a measurement, in this thread: init the communicator, run every size, check, gather;
// rank 0 feeds the sink. `continued`: the others were lost; what is left is measured, told by the
// ranks' numbers in the job, and no header. Returns ok even when data was wrong (the rows and
// faults say so); an error is a failure to run.
Status bench_rank(const BenchSpec& spec, const runtime::UniqueId& id, int rank, int size,
                  TaskSink& sink, const Continued* continued = nullptr);
// The row of the table of tasks (cmd/rank_tasks.cc) for collectives and the soak.
extern const RankTask kMeasureTask;
TaskSpec task_of(const BenchSpec& spec);
Result<BenchSpec> bench_of(const TaskSpec& task);

}  // namespace collctl::cmd
