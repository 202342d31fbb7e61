// A Window is one rank's view of one channel of memory that every rank of a host maps: rank r's
// part lies at base + r * stride on every rank, so pointers need no exchange. The runtime makes it,
// a backend uses it, and nothing else.
//
// Shapes: for each rank and channel two lines and two banks. A bank is bank_bytes of data; pieces
// of operations use the banks in turn. A line holds what the rank says about its bank: `arrived`,
// the number of the rank's last arrival in this bank (arrivals count from 1 over both banks and
// never wrap), and up to kWindowLineBytes of data, so that a tiny piece and the news of it travel
// as one cache line, and a small one as neighbours; such a piece does not touch the bank.
//
// Order: a rank writes its bank (or line), then stores `arrived` (release); who has loaded a number
// at least as great (acquire) may read what was written before it. Only its owner writes a part.
//
// Two banks are enough. Rank r writes bank b for piece k + 2 after it has passed the first arrival
// of piece k + 1, at which every peer arrived only after its last read of piece k (program order,
// released by the arrival). With one bank, r would write for piece k + 1 after the last arrival of
// piece k, which says nothing about reads that follow it: a late peer would read new data.
// Host threads go on in a bank from turn to turn as well, as place_in_bank() says.
// A line is read by the same rule, so it needs no bank more either.
// Ownership: the runtime owns the memory and outlives every use. `arrivals` and `pieces` are this
// rank's own counts, loaded when a block opens the window and stored back when it closes; they are
// the same on all ranks between operations, because all ranks run the same pieces.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::kernels {

inline constexpr int kWindowBanks = 2;
// Farther lines are fetched too late to gain anything (a trial of two ranks, 512 B).
inline constexpr uint64_t kWindowLineBytes = 368;
// As many as a reduction takes sources: ranks of one host, which may be one for each of its cores.
inline constexpr int kMaxWindowRanks = 512;
inline constexpr int kMaxDeviceWindowRanks = 64;  // of kernels, whose blocks keep a pointer to each

// Zeroed at creation. `sleepers` is an eventcount word: 1 when somebody sleeps until `arrived` of
// this line moves. `kind` says how the rank uses the piece, so that ranks which take different
// paths notice it.
struct WindowLine {
  alignas(64) uint64_t arrived;
  uint32_t sleepers;
  uint32_t kind;  // WindowUse
  uint8_t data[kWindowLineBytes];
};
static_assert(sizeof(WindowLine) == 16 + kWindowLineBytes && sizeof(WindowLine) % 128 == 0 &&
              offsetof(WindowLine, data) == 16);

enum class WindowUse : uint32_t { banks, shared };  // shared: of users' buffers (shared_block.h)

// Where a piece of so many bytes begins in its bank at its turn: one that fills little of it goes
// on behind the last one, since what a peer has read a moment ago is slow to be written again (two
// cores of a Xeon, all-reduce of 32 KiB: 8.3 us at one place, 7.2 at four). Together the ranks'
// places fit into caches.
inline constexpr uint64_t kPlaceStep = 1024, kPlacesBytes = 256 << 10;
constexpr uint64_t place_in_bank(uint64_t bytes, uint64_t turn, uint64_t bank_bytes, int nranks) {
  const uint64_t share = kPlacesBytes / uint64_t(nranks);
  const uint64_t room = share < bank_bytes ? share : bank_bytes;
  const uint64_t whole = (bytes + kPlaceStep - 1) / kPlaceStep * kPlaceStep;
  return whole == 0 || whole > room ? 0 : turn % (room / whole) * whole;
}

// Where all ranks of a host map users' windows: rank r's slot begins at base + r x stride.
struct FlatRange {
  uint8_t* base = nullptr;  // null: nothing was registered yet
  uint64_t stride = 0;
};

struct Window {
  uint8_t* base;
  uint64_t stride;      // bytes from one rank's part to the next
  uint64_t lines;       // of this channel, bytes into a rank's part; bank b's is the b-th
  uint64_t banks;       // likewise; bank b begins bank_bytes * b behind
  uint64_t bank_bytes;  // a multiple of 64
  uint64_t arrivals;
  uint64_t pieces;
  int32_t rank, nranks;

  COLL_FN WindowLine* line(int of, uint64_t bank) const {
    return reinterpret_cast<WindowLine*>(base + uint64_t(of) * stride + lines) + bank;
  }
  COLL_FN uint8_t* bank(int of, uint64_t number) const {
    return base + uint64_t(of) * stride + banks + number * bank_bytes;
  }
};
static_assert(sizeof(Window) == 64 && offsetof(Window, arrivals) == 40);

}  // namespace collctl::kernels
