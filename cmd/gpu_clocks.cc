#include "cmd/gpu_clocks.h"

#include "base/drivers/nvml.h"
#include "base/format.h"

namespace collctl::cmd {
namespace {

using namespace base::drivers;

// Bits of nvmlDeviceGetCurrentClocksThrottleReasons (NVML API reference). That a GPU is idle (0x01)
// is left out.
struct Reason {
  uint64_t bit;
  const char* words;
};
constexpr Reason kReasons[] = {
    {0x02, "clocks set by an application"},
    {0x04, "power cap"},
    {0x08, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "heat (software)"},
    {0x40, "heat (hardware)"},
    {0x80, "power brake"},
    {0x100, "display clocks"},
};

std::string reasons_of(uint64_t bits) {
  std::string text;
  for (const Reason& reason : kReasons)
    if ((bits & reason.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(reason.words);
  return text;
}

std::string note_of(const Nvml& table, const std::string& bus_id) {
  NvmlDevice device{};
  unsigned long long bits = 0;
  if (table.device_by_bus_id(bus_id.c_str(), &device) != kNvmlSuccess ||
      table.throttle_reasons(device, &bits) != kNvmlSuccess)
    return "";
  const std::string reasons = reasons_of(bits);
  if (reasons.empty()) return "";
  std::string text = "throttled: " + reasons;
  unsigned now = 0, most = 0;
  if (table.clock != nullptr && table.most_clock != nullptr &&
      table.clock(device, kNvmlClockSm, &now) == kNvmlSuccess &&
      table.most_clock(device, kNvmlClockSm, &most) == kNvmlSuccess)
    text += format("; SM clock {} of {} MHz", now, most);
  return text;
}

}  // namespace

std::string clock_note(const std::string& bus_id) {
  const Nvml& table = nvml();
  if (!table.missing.empty() || table.device_by_bus_id == nullptr ||
      table.throttle_reasons == nullptr || table.init() != kNvmlSuccess)
    return "";
  const std::string note = note_of(table, bus_id);
  table.shutdown();
  return note;
}

}  // namespace collctl::cmd
