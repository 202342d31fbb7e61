// THE table of what ranks can do, in the order of help.
#include "cmd/rank_tasks.h"

#include <algorithm>

#include "base/check.h"
#include "cmd/burn/burn.h"
#include "cmd/gpu_test/gpu_test.h"
#include "cmd/measure/bench.h"
#include "cmd/memory_test/memory_test.h"
#include "cmd/nccl_facts/nccl_facts.h"
#include "cmd/rails/rails.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {
namespace {

constexpr const RankTask* kTasks[] = {&kMeasureTask, &kWindowTestTask, &kRailsTask,    &kMemoryTask,
                                      &kGpuTask,     &kBurnTask,       &kNcclFactsTask};
static_assert(std::size(kTasks) <= 16, "each has a bit from kFirstOwn on");

}  // namespace

std::span<const RankTask* const> rank_tasks() {
  return kTasks;
}

const RankTask* find_rank_task(std::string_view name) {
  for (const RankTask* task : kTasks)
    if (name == task->name) return task;
  return nullptr;
}

uint32_t own_scope(const RankTask& task) {
  const auto at = std::ranges::find(kTasks, &task);
  COLL_CHECK(at != std::end(kTasks));
  return kFirstOwn << (at - std::begin(kTasks));
}

}  // namespace collctl::cmd
