// Copies into memory that another core has just read. An ordinary store there must first take the
// line away from the other core's cache; on AMD's Zen that moves no more than 2.4 GB/s (measured: 1
// MiB staged in 413 us, by streaming stores in 41 us, and the peer reads it at 20 GB/s either way).
// Streaming stores do not ask for the line. Intel hands lines over faster than memory takes them,
// so there ordinary stores are used. Used by the CPU backend's windows, on the thread that runs the
// work; pure.
#pragma once
#include <cstdint>

namespace collctl::kernels {

// Any alignment; the ranges do not overlap. What was copied is ordered before the next release
// store of this thread, however it was stored.
void stage_copy(void* to, const void* from, uint64_t bytes);

// Whether this machine's long copies stream, and from how many bytes: what a core's store buffer
// holds is taken away from the peer while the core goes on (measured: equal at 3 KiB).
bool streams_to_peers();
inline constexpr uint64_t kStreamedBytes = 3072;

}  // namespace collctl::kernels
