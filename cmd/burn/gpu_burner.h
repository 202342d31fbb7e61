// The burn-in of one GPU. Called on a thread of its own.
#pragma once
#include "cmd/burn/burn.h"
#include "transport/device/device.h"

namespace collctl::cmd {

// Until run.until; what comes of it, errors as well, is in `out`.
void burn_gpu(const BurnRun& run, int ordinal, const transport::DevicePointer& device,
              BurnDevice& out);

}  // namespace collctl::cmd
