// Power, clocks, temperatures and what throttles GPUs, by NVML. Threads: one.
#pragma once
#include <string>

#include "base/drivers/nvml.h"
#include "cmd/burn/burn.h"

namespace collctl::cmd {

// Where NVML is not there or does not say, values are 0.
class GpuHeat {
 public:
  // The GPU at this PCI address, now. False: nothing is known of it.
  bool read(const std::string& bus_id, BurnSample& sample) const;

 private:
  const base::drivers::Nvml& table_ = base::drivers::nvml();
  const base::drivers::NvmlSession session_;
};

}  // namespace collctl::cmd
