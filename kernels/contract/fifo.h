// A Fifo is one END of a one-way connection between two ranks for one channel and one protocol: a
// ring of slots and two step counters. A transport makes it, a backend (GPU block, host thread,
// recorder) uses it, and nothing else.
//
// Shapes: slot_count slots of slot_bytes each; step s lives in slot s % slot_count; counters count
// steps since the connection was made and never wrap. The producer may write step s when *head +
// slot_count > s and then publishes *tail = s + 1; the consumer may read step s when *tail > s and
// then frees it by *head = s + 1. One verb moves one chunk; a chunk is cut into slices and each
// slice takes exactly one step. Simple: data from the slot's first byte; records[slot].bytes has
// how many (a proxy needs it). LL: lines of 16 bytes {data lo, flag, data hi, flag}, flag =
// uint32(step + 1); tail is not used to announce data
//     unless kFifoProxyReads is set, head frees slots as always. Then tail, record (with the flag
//     beside the bytes) and lines come in any order: the proxy waits for the flags of all.
//     Host threads and proxies write records for LL as well, before the lines: whoever has seen a
//     line may ask there how many there are.
// Simple with kFifoLends or kFifoSendsLent: a record of kSlotLends means that the slot holds a Lent
// instead of data. The producer keeps that memory as it is until the slot is freed; when it gives
// up before, it writes kSlotTakenBack, and what was read meanwhile is void. Simple with
// kFifoPlaces: the consumer may post where it wants the data of a step (Place) as long as that has
// not come; a record with kSlotPlaced means that it lies there and not in the slot. Ownership: the
// Link that made it owns all memory and outlives every use. `step` is this end's own count, loaded
// when a block opens the fifo and stored back when it closes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/contract/types.h"
#include "kernels/contract/window.h"

namespace collctl::kernels {

// Zeroed at creation. Two cache lines, one written by each side; `sleepers` words are eventcounts:
// 1 while a thread sleeps (futex or poll) until the counter of the same line moves.
struct FifoCounters {
  alignas(64) uint64_t tail;
  uint32_t consumer_sleeps;
  uint32_t reserved0;
  alignas(64) uint64_t head;
  uint32_t producer_sleeps;
  uint32_t reserved1;
};
static_assert(sizeof(FifoCounters) == 128);

// Where a producer's data lies in the memory of its process.
struct Lent {
  uint64_t address;
  uint64_t bytes;
};
inline constexpr uint32_t kSlotLends = 1u << 31, kSlotTakenBack = kSlotLends | 1;

// Where a consumer wants a step's data: memory of its process, of just as many bytes as will come.
struct Place {
  uint64_t step;  // + 1; 0: none. Written last, with release
  uint64_t address;
  uint64_t bytes;
};
inline constexpr uint32_t kSlotPlaced = 1u << 30;

struct alignas(8) SlotRecord {
  uint32_t bytes;  // of the slot that are in use, or kSlotLends (wire bytes: for LL, 16 x lines)
  uint32_t mark;   // kFifoReduces: the work's reduction_code(); LL for a proxy: the lines' flag
};
static_assert(sizeof(SlotRecord) == 8);

// The code of a slot's reduction in the network. Never 0: a record that nobody has written.
COLL_FN uint32_t reduction_code(DataType type, RedOp op) {
  return (static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(op)) + 1;
}

inline constexpr uint8_t kFifoProxyReads =
    1;  // a proxy consumes: publish tail and records for LL too
inline constexpr uint8_t kFifoProxyWrites = 2;  // a proxy produces
// The proxy's network reduces: the record has what (kernels/algo/collnet.h).
inline constexpr uint8_t kFifoReduces = 4;
// The consumer can read the memory of the producer's process (base/peer_memory.h).
inline constexpr uint8_t kFifoLends = 8;
// At the producer: the proxy sends out of any memory of this process. A Lent is one slice, and
// arrives as one that was copied into its slot.
inline constexpr uint8_t kFifoSendsLent = 16;
// At the consumer: the proxy receives where it wants the data.
inline constexpr uint8_t kFifoPlaces = 32;

struct Fifo {
  uint8_t* slots;
  uint64_t* tail;
  uint64_t* head;
  uint32_t* consumer_sleeps;  // null on paths where no side sleeps (GPU)
  uint32_t* producer_sleeps;
  SlotRecord* records;
  uint64_t step;
  uint32_t slot_bytes;
  uint32_t slot_count;
  int32_t peer;     // rank at the other end
  int32_t bell_fd;  // eventfd to write when the other side sleeps in poll; -1: wake the futex word
                    // instead
  uint16_t channel;
  Protocol protocol;
  uint8_t flags;
  int32_t process;  // kFifoLends, at the consumer: the producer's
  union {
    uint64_t seen;  // GPU: the other side's counter as it was last read, which is behind PCIe
    Place* places;  // kFifoPlaces: by slot
  };
};
static_assert(sizeof(Fifo) == 88 && offsetof(Fifo, step) == 48);

// The connections of one channel of a communicator: pointers by peer and protocol, null where no
// connection is.
struct ChannelLinks {
  Fifo** send;  // [peer * kProtocolCount + protocol]
  Fifo** recv;
  Window* window = nullptr;  // null where not all ranks map one
};

}  // namespace collctl::kernels
