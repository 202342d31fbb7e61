// This build's GPU kernels as one table of calls. A build without nvcc has no_launcher.cc: `built`
// is false and everything is refused with the reason. Any thread.
#pragma once
#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

const Launcher& launcher();

}  // namespace collctl::kernels::cuda
