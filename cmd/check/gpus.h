// The suite `gpus` in its parts: gpu-test on every host (gpus.cc), and what the reports say
// (gpus_judge.cc, pure). Threads: one.
#pragma once
#include <set>
#include <span>
#include <vector>

#include "cmd/check/check.h"
#include "cmd/gpu_test/gpu_test.h"

namespace collctl::cmd {

struct GpusFindings {
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
  std::set<Host> suspects;  // hosts with a figure that is bad
};
// A figure is bad that has less than `below` of what is usual of its kind on these hosts, or less
// than what is known of its board; half of that on a host that was busy. Kinds are alike boards
// with alike paths between them. A pair that is bad alone is the link between two GPUs, all pairs
// of a GPU are that GPU, all of a host that host. Reports are of hosts with GPUs.
GpusFindings judge_gpus(std::span<const GpuReport> reports, double below, const Floors& floors);
// A figure that was measured again counts where it is better; wrong data stays.
void keep_better(GpuReport& report, const GpuReport& again);

}  // namespace collctl::cmd
