// Moving the bytes of a message between memory of processes: by hand inside one, by the kernel
// between two, by a mover where only its own process can touch it.
#pragma once
#include <array>

#include "tests/fake_verbs/pair.h"

namespace fake_verbs {

struct Piece {
  uint64_t address = 0, bytes = 0;
  bool by_mover = false, driver = false;
  int gpu = -1;
};
// Where one side's bytes lie: pieces in one process, each held by its key.
struct Memory {
  int process = -1;
  std::array<Piece, kMaxPieces> piece;
  std::array<Pinned, kMaxPieces> pinned;
  int pieces = 0;
  uint64_t bytes = 0;
};

Piece piece_of(const Pinned& pinned, uint64_t first, uint64_t bytes);
// Memory of this process.
Memory plain_memory(uint8_t* at, uint64_t bytes);

// Bytes [first, first + bytes) of one side; its keys are held by the whole.
Memory part(const Memory& whole, uint64_t first, uint64_t bytes);

// One side is of this process. False: the other process is gone.
struct TransferFaults {
  bool corrupt = false;  // the first byte arrives wrong
  uint64_t tear_ns = 0;  // ends of the first 128-byte lines arrive so long before the rest
};
bool transfer(const Memory& from, const Memory& to, uint64_t bytes, const TransferFaults& faults);

}  // namespace fake_verbs
