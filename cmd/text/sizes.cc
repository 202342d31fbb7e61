#include "cmd/text/sizes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "base/format.h"
#include "base/number_ranges.h"

namespace collctl::cmd {
std::string human_bytes(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  double value = double(bytes);
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  if (value == double(uint64_t(value))) return format("{} {}", uint64_t(value), units[unit]);
  return format("{:.1f} {}", value, units[unit]);
}

std::string option_bytes(uint64_t bytes) {
  const char* letters[] = {"", "K", "M", "G", "T"};
  int unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return format("{}{}", bytes, letters[unit]);
}

std::string four_digits(double value) {
  // The borders lie where rounding to fewer decimals would show a fifth digit.
  if (value > 0 && value < 0.09995) return format("{:.4f}", value);
  if (value < 9.9995) return format("{:.3f}", value);
  if (value < 99.995) return format("{:.2f}", value);
  if (value < 999.95) return format("{:.1f}", value);
  return format("{:.0f}", value);
}

std::string duration_text(double seconds) {
  const auto whole = int64_t(std::llround(seconds));
  if (whole < 60) return format("{} s", whole);
  const int64_t large = whole < 3600 ? whole / 60 : whole / 3600;
  const int64_t rest = whole < 3600 ? whole % 60 : whole / 60 % 60;
  const std::string text = format("{} {}", large, whole < 3600 ? "min" : "h");
  return rest == 0 ? text : format("{} {} {}", text, rest, whole < 3600 ? "s" : "min");
}

Result<double> parse_duration(const std::string& text) {
  constexpr double kMost = 366 * 86400.0;
  constexpr struct {
    char letter;
    double seconds;
  } kUnits[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
  const Error wrong(ErrorCode::usage,
                    format("'{}' is no duration: expected 90s, 15m, 2h or 1h30m", text));
  double seconds = 0;
  size_t unit = 0;  // units get smaller from left to right
  for (size_t at = 0; at < text.size(); ++unit) {
    const size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    const std::string digits = text.substr(at, end - at);
    char* rest = nullptr;
    const double number = std::strtod(digits.c_str(), &rest);
    if (digits.empty() || *rest != 0) return wrong;
    if (end == text.size() && at > 0) return wrong;  // 1h30: of what?
    const char letter = end == text.size() ? 's' : text[end];
    while (unit < std::size(kUnits) && kUnits[unit].letter != letter) ++unit;
    if (unit == std::size(kUnits)) return wrong;
    seconds += number * kUnits[unit].seconds;
    at = end + 1;
  }
  if (!(seconds > 0 && seconds <= kMost)) return wrong;
  return seconds;
}

std::string rank_ranges(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return base::number_ranges(ranks, ",");
}

}  // namespace collctl::cmd
