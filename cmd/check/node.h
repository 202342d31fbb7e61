// The suite `node` in its parts: runs of this program on one host each, many at the same time
// (node_jobs.cc), and what each run's report says (node_judge.cc, pure). Threads: one.
#pragma once
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cmd/check/check.h"
#include "cmd/measure/bench.h"
#include "cmd/memory_test/memory_test.h"
#include "launcher/ssh/child.h"

namespace collctl::cmd {

// Which collectives a check runs at each level, and how large: small sizes, and one at which the
// machine is at its line rate. Values.

std::vector<kernels::Collective> check_collectives(CheckLevel level);
SizeRange level_sizes(CheckLevel level);
// Raises the smallest size so that the steps come to the largest.
void end_at_most(SizeRange& sizes);
// Sizes of a run on one host, as words of a command line; and how long it may take once it has
// started. `longer`: for a repeated measurement.
std::vector<std::string> node_sizes(const CheckOptions& options, bool longer = false);
double node_limit_s(CheckLevel level);
// The same of a run by one way, in all protocols and by all algorithms: short, its times say
// little.
std::vector<std::string> way_sizes(CheckLevel level);
BenchSpec cluster_spec(const CheckOptions& options, const BenchOp& op);

// Figure, unit and basis: bus bandwidth, or the time of a barrier.
void say_speed(const BenchRow& row, Finding& finding);
// "0.1 GB/s at 64 MiB, 12 % of the 0.83 that the model expects (...)"; empty: at least half of it,
// or nothing is expected.
std::string far_below(const BenchRow& row);

inline constexpr size_t kMostNodeReport = 64 << 20;
inline constexpr const char* kBelowFloor = "below-floor";  // reason of a finding

enum class NodeJobKind : uint8_t { collective, window, memory, gpus, burn, nccl };
// Whether one rank of a host does it, however many slots that has.
constexpr bool is_one_rank(NodeJobKind kind) {
  return kind == NodeJobKind::memory || kind == NodeJobKind::gpus || kind == NodeJobKind::burn ||
         kind == NodeJobKind::nccl;
}

// One host, one run of a command.
struct NodeJob {
  Host host = {};
  NodeJobKind kind = NodeJobKind::collective;
  std::string name = {};                // of what is run; of a collective with the transport
  std::vector<std::string> words = {};  // of its own on the command line, the command first
  // A way that this machine may not have: then it is no fault.
  bool optional = false;
  std::unique_ptr<launcher::ChildProcess> child = {};
  std::optional<Deadline> deadline = {};
  std::string output = {}, errors = {};
  std::optional<Error> error = {};
  Limits limits = {};              // that it is held against
  Expectation expect = {};         // floors of copies
  const Floors* floors = nullptr;  // of boards, where nothing is expected; the check's; null: none
  double limit_s = 0;              // how long it may take once it has started; 0: by the level
  std::string not_again = {};      // why it could not be measured again
  int exit_code = 0;
  bool begun = false, over = false;
};

// All of them, one on a host and `at_once` altogether at a time. A signal ends them and the check.
inline constexpr size_t kJobsAtOnce = 16;
void run_jobs(CheckRun& run, std::vector<NodeJob>& jobs, size_t at_once = kJobsAtOnce);
// Why a run left no report that can be read.
Error no_report(const NodeJob& job);

// Result of one run: findings, and speeds that can be compared with the other hosts'.
struct NodeResult {
  struct Speed {
    double GBps = 0;
    std::string device;  // the slowest of several; empty: there is one
  };
  std::vector<Finding> findings;
  std::map<std::string, Speed> speeds;  // by what they are of
  std::string busy;                     // why its times say little
  std::string held_back;                // by its own cgroup's quota: no excuse
  int ranks = 0;
  bool on_gpus = false;
  std::string detour;  // links between its GPUs that are not P2P, and why; empty: none
  std::optional<BenchReport> report;
  bool timed = false;  // it has rows, or is a window-test that came to its verdict
  // It has figures, or what stands in the way is told.
  bool measured() const {
    return timed || !speeds.empty() || std::ranges::any_of(findings, [](const Finding& f) {
             return f.status != FindingStatus::pass;
           });
  }
};

// node_floors.cc. A row of host or GPU against what --expect says of such a model, else what is
// known of boards, PCIe links and memory channels. `judged`: the lines of that file that were held
// against something.
void judge_floor(const NodeJob& job, const MemoryRow& row, const std::vector<std::string>& models,
                 Finding& finding, std::set<size_t>& judged);
// The all-reduce among all GPUs of a host, at a size that says something.
void judge_board(const NodeJob& job, const BenchReport& report, const std::string& busy,
                 Finding& all);

// Why a run left no report that can be read.
Error no_report(const NodeJob& job);
// `job` is over, and not of the kinds gpus and nccl: the suites of these names judge their own.
NodeResult judge_job(const NodeJob& job);

}  // namespace collctl::cmd
