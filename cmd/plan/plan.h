// `plan`: what a job of one rank per GPU would do on N equal nodes, by the same planner that a
// running communicator has. make_job_plan puts the search, the cluster and the planner together
// (plan.cc); the rest turns the result into text and JSON. Pure
// but for the command; threads: values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/plan/calibration.h"
#include "cmd/plan/network.h"
#include "cmd/text/table.h"
#include "cmd/topo/machine_search.h"
#include "cmd/topo/view.h"
#include "cmd/verify/bench_op.h"
#include "kernels/cuda/launch.h"
#include "runtime/plan/planner.h"
#include "runtime/request/choices.h"
#include "topology/cluster/cluster.h"
#include "topology/search/search.h"

namespace collctl::cmd {

inline constexpr uint32_t kFloatBytes = 4;  // what is planned for: elements of float32

struct PlanSpec {
  int nodes = 1;
  BenchOp collective;           // or a pattern of messages
  std::vector<uint64_t> sizes;  // asked for, in bytes
  runtime::Choices choices;     // choices.channels: as requested; 0: as found
  topology::ClusterOptions channels;
  SearchSettings search;
  std::optional<PlanNetwork> plugin;  // of several nodes, when one is named
  // Launcher whose kernels would run: null, this build's. Tests put others there.
  const kernels::cuda::Launcher* launcher = nullptr;
};

struct PlanRow {
  uint64_t bytes = 0;  // what is moved: the asked size in whole elements of every rank
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  int channels = 1, threads = 0;  // threads of a channel's block; 0: as the kernel likes
  double expected_us = 0;
  std::string limited_by;
  const char* source = "model";                      // of the expected time
  std::string unknown = {};                          // and what it was assumed for want of
  std::string why = {};                              // next best and by how much
  int steps = 0;                                     // of a pattern of messages; 0: it is none
  std::optional<runtime::TunedChoice> tuned;         // a tuner was asked
  std::vector<runtime::WeighedChoice> weighed = {};  // all that serve the collective
  double algbw_gbps = 0, busbw_gbps = 0;
};

struct JobPlan {
  TopoView view;  // of one machine; `findings` hold the plan's own as well
  PlanSpec spec;
  std::vector<MachinePart> parts;
  topology::Cluster cluster;  // node k: machine k / parts, part k % parts
  bool staged = false;        // some data goes through host memory on its way to the network
  std::optional<PlanTuner> tuner;
  std::optional<ShownWindows> windows;  // of this machine, where it is planned for
  std::vector<PlanRow> rows;

  const MachinePart& part(int node) const { return parts[size_t(node) % parts.size()]; }
  // Ranks count through the machines; the cluster's through its nodes.
  int world_rank(int cluster_rank) const;
};

// Reads the graph file, if there is one. Errors: unavailable: no GPU, or several nodes without a
// network device, or a tuner plugin that cannot be used; usage: nothing left to choose from, or a
// graph file that is not of this machine; defect: the rings and trees are none.
Result<JobPlan> make_job_plan(TopoView view, PlanSpec spec);

// A row of the table, of ranks on GPUs or on cores.
struct PlanLine {
  uint64_t bytes = 0;
  std::string algorithm, protocol;
  int channels = 1;
  std::string threads;  // empty: nothing to say in any row
  double us = 0, algbw_GBps = 0, busbw_GBps = 0;
  std::string limited_by;
};
std::string plan_table(const std::vector<PlanLine>& lines, size_t width);

// "0 1 2 ... 63": the first sixteen and the last one.
std::string shortened_ranks(const std::vector<int>& ranks, const char* between);
// For people: equal channels once, of many nodes the first two. `verbosity` 1: what was tried.
std::string plan_text(const JobPlan& plan, int verbosity, size_t width = kNoWidth);
// collctl.topo/1 with "cluster" and "choices": everything.
std::string plan_json(const JobPlan& plan);

// The command, and the rows of its options.
std::vector<std::string> planned_operations();
Result<int> plan_command(const ParsedLine& line, Console& console);
void add_plan_options(std::vector<Option>& table);

}  // namespace collctl::cmd
