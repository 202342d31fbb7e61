// --plateau: the size at which a machine is at its line rate, and how much of it the time allows.
// Pure but for plateau_facts(). Threads: any.
#pragma once
#include <cstdint>

#include "cmd/measure/buffers.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

struct PlateauFacts {
  uint64_t gpu_bytes = 0;    // free on the rank's GPU; 0: a CPU rank, or not known
  HostMemory memory = {};    // of its host
  uint64_t cache_bytes = 0;  // of all last-level caches of the host; 0: not known
};
PlateauFacts plateau_facts(const runtime::Communicator& whole);

// Bytes of a row, a power of two. GPU ranks: a sixteenth of its memory that is free, so that input
// and output are an eighth, 8 GiB at most. CPU ranks: four times their share of the caches, 32 to
// 256 MiB; a sixteenth of their share of the memory at most.
uint64_t plateau_bytes(const PlateauFacts& facts);

// A row that was measured before: bytes, and nanoseconds of an iteration.
struct RowBefore {
  uint64_t bytes = 0;
  int64_t ns = 0;  // 0: there was none
};
// `wanted`, halved until an iteration is likely to end within a quarter of a second; 0: there is no
// such size above the row before. However many iterations there are: measured again, longer, a row
// has the same size.
uint64_t bytes_in_time(uint64_t wanted, const RowBefore& before);

}  // namespace collctl::cmd
