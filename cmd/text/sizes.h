// How sizes, figures, dates, sets of ranks and words of others are written for people. Pure; any
// thread. Which sizes a bench runs stands in cmd/verify/buffer_shape.h.
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
// Dates as ISO 8601 has them, to the second, out of seconds since 1970: "2026-01-31T08:00:00Z", and
// with the offset of this process's time zone "2026-01-31T09:00:00+01:00".
std::string utc_date(int64_t unix_s);
std::string local_date(int64_t unix_s);
// Back from either; 0: it is none.
int64_t unix_of(const std::string& date);
// "0-3,7"
std::string rank_ranges(std::vector<int> ranks);
// "3 GPUs", "1 GPU"
std::string counted(size_t number, const char* what);
// "a, b, c"
std::string joined(const std::vector<std::string>& words);
// One line, with nothing that a terminal would obey.
std::string plain(std::string text);

}  // namespace collctl::cmd
