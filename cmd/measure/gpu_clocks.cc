#include "cmd/measure/gpu_clocks.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::cmd {
namespace {

using namespace base::drivers;

// That a GPU is idle (0x01) is left out.
struct ThrottleReason {
  uint64_t bit;
  const char* words;
};
constexpr ThrottleReason kThrottleReasons[] = {
    {0x02, "clocks set by an application"},      {0x04, "power cap"},
    {kThrottledByHardware, "hardware slowdown"}, {0x10, "sync boost"},
    {kThrottledByHeat, "heat (software)"},       {kThrottledByHeatHard, "heat (hardware)"},
    {kThrottledByBrake, "power brake"},          {0x100, "display clocks"},
};

std::string note_of(uint64_t bits, unsigned clock, unsigned most) {
  if (bits == 0) return "";
  std::string text = "throttled: " + throttle_words(bits);
  if (clock != 0 && most != 0) text += format("; SM clock {} of {} MHz", clock, most);
  return text;
}

}  // namespace

std::string throttle_words(uint64_t bits) {
  std::string text;
  for (const ThrottleReason& reason : kThrottleReasons)
    if ((bits & reason.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(reason.words);
  return text;
}

uint64_t throttle_reasons(uint64_t bits) {
  uint64_t known = 0;
  for (const ThrottleReason& reason : kThrottleReasons) known |= bits & reason.bit;
  return known;
}

ClockWatch::ClockWatch(const std::string& bus_id) {
  known_ = session_ && table_.device_by_bus_id != nullptr && table_.throttle_reasons != nullptr &&
           table_.device_by_bus_id(bus_id.c_str(), &device_) == kNvmlSuccess;
  if (!known_) return;
  if (table_.most_clock == nullptr ||
      table_.most_clock(device_, kNvmlClockSm, &most_) != kNvmlSuccess)
    most_ = 0;
  first_ = reasons_now();
  at_first_ = note_of(first_, clock_now(), most_);
}

uint64_t ClockWatch::reasons_now() const {
  unsigned long long bits = 0;
  if (table_.throttle_reasons(device_, &bits) != kNvmlSuccess) return 0;
  return throttle_reasons(bits);
}

unsigned ClockWatch::clock_now() const {
  unsigned clock = 0;
  const bool said =
      table_.clock != nullptr && table_.clock(device_, kNvmlClockSm, &clock) == kNvmlSuccess;
  return said ? clock : 0;
}

void ClockWatch::turn_over() {
  if (!known_) return;
  const uint64_t found = reasons_now() & ~first_;
  if (found == 0) return;
  later_ |= found;
  const unsigned clock = clock_now();
  if (clock != 0) lowest_ = lowest_ == 0 ? clock : std::min(lowest_, clock);
}

Status ClockWatch::closing(RankClosing& mine, BenchClosing&) {
  mine.clocks = note_of(later_, lowest_, most_);
  return {};
}

}  // namespace collctl::cmd
