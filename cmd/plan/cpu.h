// `plan` for CPU ranks: what a job of so many ranks on each of N machines like this would do. By
// the same functions that a running communicator plans with. Pure but for the knobs; threads:
// values.
#pragma once
#include <optional>

#include "cmd/plan/calibration.h"
#include "cmd/plan/plan.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/planner.h"

namespace collctl::cmd {

struct CpuPlanRow {
  uint64_t bytes = 0;  // what is moved: the asked size in whole elements of every rank
  runtime::CollectiveChoice choice;
  int steps = 0;  // of a pattern of messages; 0: it is none
  double algbw_gbps = 0, busbw_gbps = 0;
};

struct CpuPlan {
  TopoView view;
  PlanSpec spec;
  int ranks_per_node = 0;
  std::optional<ShownCalibration> calibration;         // of this machine, where it is planned for
  runtime::CommShape shape;                            // as rank 0 sees it
  std::vector<std::vector<kernels::TreeLinks>> trees;  // by channel and rank
  std::optional<PlanTuner> tuner;
  std::vector<CpuPlanRow> rows;
};

// Errors: unavailable: nothing is known of the machine's processors, or a tuner plugin cannot be
// used; usage: a knob's value, more
// than 65536 ranks, or nothing left to choose from.
Result<CpuPlan> make_cpu_plan(TopoView view, PlanSpec spec);

std::string cpu_plan_text(const CpuPlan& plan, size_t width = kNoWidth);
// As plan_json, with "device":"cpu".
std::string cpu_plan_json(const CpuPlan& plan);

}  // namespace collctl::cmd
