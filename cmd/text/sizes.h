// How sizes, figures, sets of ranks and words of others are written for people. Pure; any thread.
// Which sizes a bench runs stands in cmd/verify/buffer_shape.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::cmd {

// "512 B", "64 KiB", "1.5 MiB": for people.
std::string human_bytes(uint64_t bytes);
// "64K", "3M", "1000": the form that options take.
std::string option_bytes(uint64_t bytes);
// Four digits at any magnitude: 0.0003, 0.712, 98.76, 9876, 2000000.
std::string four_digits(double value);
// "45 s", "34 min", "2 h 5 min"
std::string duration_text(double seconds);
// "0-3,7"
std::string rank_ranges(std::vector<int> ranks);
// "3 GPUs", "1 GPU"
std::string counted(size_t number, const char* what);
// "a, b, c"
std::string joined(const std::vector<std::string>& words);
// One line, with nothing that a terminal would obey.
std::string plain(std::string text);

}  // namespace collctl::cmd
