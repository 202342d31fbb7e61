#include "base/host_heat.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/format.h"
#include "base/processors.h"

namespace collctl::base {
namespace {

constexpr int kMostSensors = 256, kMostInputs = 64;
constexpr double kHottest = 200;  // nonsense beyond
// Drivers of hwmon that measure processors: Intel, AMD; of Arm boards the firmware's.
constexpr const char* kProcessorSensors[] = {"coretemp", "k10temp", "zenpower", "scmi_sensors",
                                             "cpu_thermal"};

std::optional<int64_t> number_in(const FileRead& read, const std::string& path) {
  const std::optional<std::string> text = read(path);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end == text->data()) return std::nullopt;
  return value;
}

double hottest(const FileRead& read) {
  double most = 0;
  for (int sensor = 0; sensor < kMostSensors; ++sensor) {
    const std::string folder = format("sys/class/hwmon/hwmon{}", sensor);
    std::string name = read(folder + "/name").value_or("");
    name.resize(std::min(name.size(), name.find('\n')));
    if (std::ranges::find(kProcessorSensors, name) == std::end(kProcessorSensors)) continue;
    for (int input = 1; input <= kMostInputs; ++input) {
      const auto milli = number_in(read, format("{}/temp{}_input", folder, input));
      if (!milli) continue;
      const double value = double(*milli) / 1e3;
      if (value > 0 && value < kHottest) most = std::max(most, value);
    }
  }
  return most;
}

double mean_clock(const FileRead& read) {
  double sum = 0;
  int count = 0;
  for (const int processor :
       parse_number_list(read("sys/devices/system/cpu/online").value_or(""))) {
    const auto kHz =
        number_in(read, format("sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", processor));
    if (!kHz || *kHz <= 0 || *kHz > 100'000'000) continue;
    sum += double(*kHz) / 1e3;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace

HostHeat host_heat(const std::string& root) {
  const FileRead read = read_below(root.empty() ? "/" : root);
  return {hottest(read), mean_clock(read)};
}

}  // namespace collctl::base
