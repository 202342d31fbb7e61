// A launcher of GPU ranks that has LL128 as the kernels do: lines of 120 bytes and a flag that the
// receiver waits for, one by one, and the torn-store test of them. All else is host_launcher's.
#pragma once
#include "tests/unit/runtime/gpu_ranks.h"

namespace collctl::runtime::testing {

const kernels::cuda::Launcher& line_launcher();
uint64_t line_launches();  // of works by LL128, in this process

}  // namespace collctl::runtime::testing
