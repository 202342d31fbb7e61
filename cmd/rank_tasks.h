// The table of what ranks can do (cmd/measure/task.h): for a rank that is told by name, and for the
// tables of commands and options. Any thread.
#pragma once
#include <span>
#include <string_view>

#include "cmd/measure/task.h"

namespace collctl::cmd {

std::span<const RankTask* const> rank_tasks();
const RankTask* find_rank_task(std::string_view name);  // null: there is none
// The scope of the options that no other command has.
uint32_t own_scope(const RankTask& task);

}  // namespace collctl::cmd
