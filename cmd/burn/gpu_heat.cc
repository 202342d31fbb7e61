#include "cmd/burn/gpu_heat.h"

#include "cmd/measure/gpu_clocks.h"

namespace collctl::cmd {

using namespace base::drivers;

bool GpuHeat::read(const std::string& bus_id, BurnSample& sample) const {
  NvmlDevice device{};
  if (!session_ || table_.device_by_bus_id == nullptr ||
      table_.device_by_bus_id(bus_id.c_str(), &device) != kNvmlSuccess)
    return false;
  unsigned value = 0;
  if (table_.power != nullptr && table_.power(device, &value) == kNvmlSuccess)
    sample.power_W = double(value) / 1e3;
  if (table_.clock != nullptr && table_.clock(device, kNvmlClockSm, &value) == kNvmlSuccess)
    sample.clock_MHz = double(value);
  if (table_.temperature != nullptr &&
      table_.temperature(device, kNvmlSensorGpu, &value) == kNvmlSuccess)
    sample.temperature_C = double(value);
  NvmlFieldValue memory{};
  memory.field = kNvmlFieldMemoryTemperature;
  if (table_.field_values != nullptr && table_.field_values(device, 1, &memory) == kNvmlSuccess &&
      memory.result == kNvmlSuccess && memory.value_type == kNvmlUnsignedInt)
    sample.memory_C = double(memory.value.number);
  unsigned long long bits = 0;
  if (table_.throttle_reasons != nullptr && table_.throttle_reasons(device, &bits) == kNvmlSuccess)
    sample.throttled = throttle_reasons(bits);
  return true;
}

}  // namespace collctl::cmd
