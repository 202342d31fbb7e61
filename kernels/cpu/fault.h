// Injected faults: a rank that drops, doubles or damages what a peer contributed, stalls or dies.
// Called by the CPU backend's blocks, once per receiving slice while a fault is armed.
#pragma once
#include "kernels/cpu/cpu_work.h"

namespace collctl::kernels {

// Counts the slice. When it is the one: dies (exit), stalls until the work is aborted (stall; the
// report is written), or returns missing, doubled or corrupt for the caller to apply; else none.
FaultKind apply_fault(CpuWork& work);

// A reduction or a copy with the fault: the contribution of the next rank is missing (a copy brings
// zeroes), is added twice, or the result has a wrong bit.
void reduce_with_fault(CpuWork& work, FaultKind fault, const void* const* sources,
                       void* const* destinations, int destination_count, uint64_t n,
                       uint32_t divisor);
void copy_with_fault(CpuWork& work, FaultKind fault, const void* from, void* to, uint64_t n);

// Flips the lowest bit of the first byte.
void flip_a_bit(void* data);

}  // namespace collctl::kernels
