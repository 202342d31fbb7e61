// THE table of what ranks can do.
#include "cmd/rank_tasks.h"

#include "cmd/measure/bench.h"
#include "cmd/rails/rails.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {

const RankTask* find_rank_task(std::string_view name) {
  for (const RankTask* task : {&kMeasureTask, &kWindowTestTask, &kRailsTask})
    if (name == task->name) return task;
  return nullptr;
}

}  // namespace collctl::cmd
