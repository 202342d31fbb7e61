// A GPU's clocks while a measurement runs, by NVML. One thread's.
#pragma once
#include <cstdint>
#include <string>

#include "base/drivers/nvml.h"
#include "cmd/measure/observer.h"

namespace collctl::cmd {

// Bits of nvmlDeviceGetCurrentClocksThrottleReasons (NVML API reference) that slow a GPU down.
inline constexpr uint64_t kThrottledByHardware = 0x08, kThrottledByHeat = 0x20,
                          kThrottledByHeatHard = 0x40, kThrottledByBrake = 0x80;
// Reasons in words: "power cap, heat (hardware)"; what is no reason is left out.
std::string throttle_words(uint64_t bits);
uint64_t throttle_reasons(uint64_t bits);  // without what is none

// Looks at a GPU now and then, so that what throttled it meanwhile is known afterwards. NVML stays
// open as long as it lives. Where NVML is not there or does not say, nothing is ever found.
class ClockWatch : public Observer {
 public:
  // `bus_id`: PCI address. Looks for the first time.
  explicit ClockWatch(const std::string& bus_id);
  // Why the GPU ran slower than it could at the first look, in words: "throttled: power cap; SM
  // clock 1200 of 1980 MHz". Empty when it did not.
  void tell(HeaderFacts& facts) const override { facts.clocks = at_first_; }
  void turn_over() override;  // looks while the GPU is still as it was
  // Throttling that a later look found and the first did not, with the lowest clock seen so; empty:
  // nothing.
  Status closing(RankClosing& mine, BenchClosing&) override;

 private:
  uint64_t reasons_now() const;
  unsigned clock_now() const;
  const base::drivers::Nvml& table_ = base::drivers::nvml();
  const base::drivers::NvmlSession session_;
  base::drivers::NvmlDevice device_{};
  bool known_ = false;
  uint64_t first_ = 0, later_ = 0;  // bits of reasons
  unsigned lowest_ = 0, most_ = 0;  // MHz; 0: not known
  std::string at_first_;
};

}  // namespace collctl::cmd
