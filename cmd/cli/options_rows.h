// The parts of THE table of options: table.cc puts them together. Used by options_*.cc
// only.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cmd/cli/command.h"

namespace collctl::cmd {

inline constexpr uint32_t kCollectives = kBench;
inline constexpr uint32_t kOnRanks = kCollectives | kWindowTest;
inline constexpr uint32_t kLaunch = kOnRanks | kProgram | kRails;  // here or on hosts

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

// Of the table of algorithms, and "all".
std::vector<std::string> algorithm_names();

void add_launch_options(std::vector<Option>& table);
void add_host_options(std::vector<Option>& table);
void add_plan_options(std::vector<Option>& table);
void add_rails_options(std::vector<Option>& table);
void add_measure_options(std::vector<Option>& table);  // cmd/measure/option_rows.cc

}  // namespace collctl::cmd
