#include "base/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "base/host_files.h"
#include "base/whole_number.h"

namespace collctl::base {
namespace {

using namespace host_files;

constexpr size_t kMostSmbios = 1 << 20, kMostControllers = 256, kMostModules = 256;

// "channel 1 slot 0" or "csrow 2 channel 1": the channel.
int channel_of(const std::string& location) {
  constexpr std::string_view kWord = "channel ";
  const size_t at = location.find(kWord);
  if (at == std::string::npos) return -1;
  const size_t first = at + kWord.size();
  const size_t end = std::min(location.find_first_not_of("0123456789", first), location.size());
  return whole_number(location.substr(first, end - first)).value_or(-1);
}

int channels_with_modules(const fs::path& controllers) {
  std::set<std::pair<std::string, int>> seen;
  for (const fs::path& controller : entries_of(controllers, kMostControllers))
    for (const fs::path& module : entries_of(controller, kMostModules)) {
      const std::string name = module.filename();
      if (!name.starts_with("dimm") && !name.starts_with("rank")) continue;
      const int channel = channel_of(value_of(module / "dimm_location"));
      if (channel < 0 || whole_number(value_of(module / "size")).value_or(0) <= 0) continue;
      seen.emplace(controller.filename(), channel);
    }
  return int(seen.size());
}

// The slowest of the modules that are there. A structure: type, length, handle, more by its type;
// then texts that each end with 0, and one 0 more.
double slowest_module(const std::string& table) {
  constexpr size_t kHead = 4, kSizeAt = 0x0c, kSpeedAt = 0x20;
  constexpr uint8_t kModule = 17, kEnd = 127;
  constexpr uint16_t kUnknown = 0xffff;
  const auto byte = [&](size_t at) { return uint8_t(table[at]); };
  const auto word = [&](size_t at) { return uint16_t(byte(at) | byte(at + 1) << 8); };
  double slowest = 0;
  for (size_t at = 0; at + kHead <= table.size();) {
    const uint8_t type = byte(at);
    const size_t length = byte(at + 1);
    if (type == kEnd || length < kHead || at + length > table.size()) break;
    if (type == kModule && length >= kSpeedAt + 2) {
      const uint16_t size = word(at + kSizeAt), speed = word(at + kSpeedAt);
      const bool there = size != 0 && size != kUnknown;
      if (there && speed != 0 && speed != kUnknown)
        slowest = slowest == 0 ? speed : std::min(slowest, double(speed));
    }
    const size_t end = table.find(std::string_view("\0\0", 2), at + length);
    if (end == std::string::npos) break;
    at = end + 2;
  }
  return slowest;
}

}  // namespace

MemoryChannels memory_channels(const std::string& root) {
  return {.channels = channels_with_modules(root + "/sys/devices/system/edac/mc"),
          .MTps = slowest_module(head_of(root + "/sys/firmware/dmi/tables/DMI", kMostSmbios))};
}

}  // namespace collctl::base
