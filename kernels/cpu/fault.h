// Injected faults: a rank that drops, doubles or damages what a peer contributed, stalls or dies.
// Called by the CPU backend's blocks, once per receiving slice while a fault is armed.
#pragma once
#include "kernels/cpu/cpu_work.h"

namespace collctl::kernels {

// Counts the slice. When it is the one: dies (exit), stalls until the work is given up (stall; the
// report is written), or returns missing, doubled or corrupt for the caller to apply; else none.
FaultKind apply_fault(CpuWork& work);

// Flips the lowest bit of the first byte.
void flip_a_bit(void* data);

}  // namespace collctl::kernels
