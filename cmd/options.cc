// THE table of options, in the order in which help shows them. Each folder has the rows of the
// records that it fills.
#include "cmd/options.h"

#include "cmd/check/check.h"
#include "cmd/cli/option_rows.h"
#include "cmd/job/options.h"
#include "cmd/measure/options.h"
#include "cmd/plan/plan.h"
#include "cmd/rank_tasks.h"
#include "cmd/report/options.h"
#include "cmd/status/ras.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {

std::vector<Option> make_options() {
  std::vector<Option> table;
  add_launch_options(table);
  add_host_options(table);
  add_size_options(table);
  add_measure_options(table);
  for (const RankTask* task : rank_tasks())
    if (task->add_options != nullptr) task->add_options(table, own_scope(*task));
  add_check_options(table);
  add_select_options(table);
  add_status_options(table);
  add_topo_options(table);
  add_plan_options(table);
  add_output_options(table);
  const Adder general{table, Group::general, kAnywhere};
  general("color", kinds::one_of("WHEN", {"auto", "always", "never"}, "auto"),
          "colours in what is printed",
          "auto: on a terminal, unless NO_COLOR is set. Under mpirun and the like: when the "
          "launcher's own output is a terminal.");
  general("h,help", kinds::flag(), "this; --help all: everything, --help TOPIC: a part");
  return table;
}

}  // namespace collctl::cmd
