#include "cmd/text/sizes.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/format.h"
#include "base/number_ranges.h"

namespace collctl::cmd {
namespace {

constexpr const char* kUtc = "%Y-%m-%dT%H:%M:%SZ";
constexpr const char* kLocal = "%Y-%m-%dT%H:%M:%S%z";

std::string date(const std::tm& parts, const char* form) {
  char text[40];
  return {text, std::strftime(text, sizeof text, form, &parts)};
}

}  // namespace

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

std::string utc_date(int64_t unix_s) {
  const auto time = std::time_t(unix_s);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return date(parts, kUtc);
}

std::string local_date(int64_t unix_s) {
  const auto time = std::time_t(unix_s);
  std::tm parts{};
  ::localtime_r(&time, &parts);
  std::string text = date(parts, kLocal);
  if (text.size() > 2) text.insert(text.size() - 2, ":");  // +0100
  return text;
}

int64_t unix_of(const std::string& date) {
  std::tm parts{};
  const char* end = ::strptime(date.c_str(), kLocal, &parts);
  if (end == nullptr || *end != 0) return 0;
  const int64_t offset = parts.tm_gmtoff;  // timegm() sets it
  return int64_t(::timegm(&parts)) - offset;
}

std::string rank_ranges(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  return base::number_ranges(ranks, ",");
}

std::string counted(size_t number, const char* what) {
  return format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string plain(std::string text) {
  for (char& c : text)
    if (uint8_t(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

}  // namespace collctl::cmd
