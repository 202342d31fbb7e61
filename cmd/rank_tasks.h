// The table of what ranks can do (cmd/measure/task.h), for a rank that is told by name. Any thread.
#pragma once
#include <string_view>

#include "cmd/measure/task.h"

namespace collctl::cmd {

const RankTask* find_rank_task(std::string_view name);  // null: there is none

}  // namespace collctl::cmd
