#include "cmd/burn/error_watch.h"

#include <map>
#include <tuple>
#include <utility>

namespace collctl::cmd {

namespace {

using base::CounterOf;
using base::DeviceCounter;

constexpr double kWatchSeconds = 5;  // some hundred files and calls of the driver

// The device of a burn-in that a counter belongs to; empty: none.
std::string burnt_device(const DeviceCounter& counter) {
  // That a GPU is slowed down is in its samples.
  if (counter.kind == CounterOf::gpu && counter.name.ends_with("_ns")) return "";
  if (counter.kind == CounterOf::gpu || counter.kind == CounterOf::pci) return counter.device;
  return counter.kind == CounterOf::host && counter.device.starts_with("mc") ? kBurnHost : "";
}

}  // namespace

base::DeviceCounters ErrorWatch::read_host(uint64_t log_from) {
  return base::device_counters(log_from);
}

ErrorWatch::ErrorWatch(Read read)
    : read_(std::move(read)),
      last_(read_(~uint64_t{0})),
      log_from_(last_.log_end),
      next_s_(kWatchSeconds) {}

void ErrorWatch::look(double at_s, bool now) {
  if (at_s < next_s_ && !now) return;
  next_s_ = at_s + kWatchSeconds;
  std::map<std::tuple<CounterOf, std::string, std::string>, uint64_t> before;
  for (const DeviceCounter& each : last_.counters)
    before[{each.kind, each.device, each.name}] = each.value;
  last_ = read_(log_from_);
  for (const DeviceCounter& each : last_.counters) {
    const std::string device = burnt_device(each);
    const uint64_t old = before[{each.kind, each.device, each.name}];
    if (device.empty() || each.name.starts_with("earlier_") || each.value <= old) continue;
    add_event(events_[device], {at_s, each.name, each.value - old});
  }
}

void ErrorWatch::give(std::vector<BurnDevice>& devices) const {
  for (BurnDevice& device : devices)
    if (const auto known = events_.find(device.device); known != events_.end())
      device.events = known->second;
}

}  // namespace collctl::cmd
