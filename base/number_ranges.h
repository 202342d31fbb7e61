// Sets of numbers for people. Pure.
#pragma once
#include <string>
#include <vector>

namespace collctl::base {

// "0-3,7", of ascending numbers; and "rank 3", "ranks 0-3, 7".
std::string number_ranges(const std::vector<int>& numbers, const char* separator);

}  // namespace collctl::base
