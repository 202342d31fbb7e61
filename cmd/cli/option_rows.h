// What the rows of THE table of options (cmd/options.cc) are made with; each folder has those that
// fill its records (cmd/*/option_rows.cc).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cmd/cli/command.h"

namespace collctl::cmd {

inline constexpr uint32_t kCollectives = kBench;
inline constexpr uint32_t kOnRanks = kCollectives | kTimedTask;
inline constexpr uint32_t kLaunch = kOnRanks | kProgram | kTask | kCheck;  // here or on hosts

// Adds rows of one group; most have the same scopes.
struct Adder {
  std::vector<Option>& table;
  Group group;
  uint32_t scopes;
  void operator()(Option option) const {
    option.group = group;
    if (option.scopes == 0) option.scopes = scopes;
    table.push_back(std::move(option));
  }
};

}  // namespace collctl::cmd
