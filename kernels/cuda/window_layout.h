// How the window kernels use a rank's part of peer memory (PeerMemory in launch.h): counters, lines
// of both line protocols, staging. Host and device; offsets in bytes from the begin of a part, the
// same on all ranks. Everything starts as zeros. In host memory (In::host), which GPUs reach by PCI
// Express, there are no lines of 128 bytes and fewer slots, and what a rank has for itself lies in
// its GPU's memory instead (PeerMemory::own): a look at it would take a microsecond each.
//
//              For the rank itself:
//   messages   the launches with messages so far: to see whether the device makes progress
//   epochs     the other launches so far, for each block
//   own        for each block this rank's own counts; tickets of the store kernels
//              Written by others, or for them:
//   peers      for each block and peer: the last epoch at which it arrived; the last one it
//              closed, and what it announced of its buffers at the begin of that one (direct.cuh)
//   ll         2 banks x (n-1) senders x lines of 16 bytes, 8 of them data
//   ll128      2 banks x (n-1) senders x lines of 128 bytes, 120 of them data
//   message    LL128 as above, for messages alone; and for each peer and block the last message by
//              lines that it has taken
//   stage      for each sender a ring of slots, and beside them counts (store.cuh); a second
//              set for two-shot's results
//
// A sender has its own place at each receiver: place_of(). This alone decides which rank writes
// where.
//
// Epochs: every launch of a window kernel but of messages is one epoch, counted from 1 by each
// block in `epoch`; the bank is its parity, its number is in every line. Two banks are enough: a
// rank writes bank e % 2 again at e + 2, which it starts after it has ended e + 1 (launches of a
// communicator follow one another), and in e + 1 it heard from every other rank, which had ended e
// by then: through that rank's data, or, where not every rank hears from every other (a broadcast),
// by its announced arrival.
#pragma once
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

inline constexpr int kWindowBlocks = 128;  // most that a launch has
// Wire bytes of one sender: 144 KiB of data, so that two-shot of 4 ranks has 256 KiB; between two
// ranks, where one-shot sends no more, 256 KiB.
COLL_FN constexpr uint64_t ll_bank_bytes(int nranks) {
  return (nranks <= 2 ? 512 : 288) * 1024;
}
inline constexpr uint64_t kLl128Total = 20u << 20;   // wire bytes of all senders in one bank
inline constexpr uint64_t kMessageTotal = 5u << 20;  // likewise, of messages
inline constexpr uint32_t kSlotBytes = 32 * 1024;    // of a stage
inline constexpr uint32_t kMostSlots = 512;          // of all senders, about
inline constexpr uint32_t kMostHostSlots = 256;      // likewise: the processor's cache holds them
inline constexpr uint32_t kMessageSlots = 128;  // of a sender: they hold what a link has in flight

// A pair of 16 bytes, which are stored and seen in one: the number comes with its value.
struct alignas(16) Announced {
  uint64_t value, epoch;
};
// 64 bytes, so that what two ranks write never shares a sector. All written by the peer.
struct alignas(64) PeerCounters {
  uint64_t arrived;  // the last epoch with a barrier that it has begun
  uint64_t closed;   // the last direct one between users' buffers that it has ended
  // At the start of the last direct epoch between users' buffers (direct.cuh): where its
  // input and its output are, how many bytes there are.
  Announced announced[3];
};
static_assert(sizeof(PeerCounters) == 64);
enum class StoreRole : uint8_t { give, sum, take };
inline constexpr int kStoreRoles = 3;
// Counts for each peer: chunks sent and received, results likewise, messages by lines likewise.
inline constexpr int kCounts = 6;
enum Count { kSent, kReceived, kResultSent, kResultReceived, kLinesSent, kLinesReceived };
inline constexpr int kMostPeers = 127;

// The record that each block keeps of all launches before; private to it. Followed by what belongs
// to more peers: place_of(peer, this rank).
struct OwnBlock {
  uint64_t drawn[kStoreRoles + 1];  // tickets by role; at the end chunks
  struct Peer {
    uint64_t count[kCounts];
  } peers[1];
};
// State that the groups of all blocks share.
struct StoreState {
  struct alignas(128) Tickets {  // atomics of different roles do not share a line
    uint64_t drawn;
  } tickets[kStoreRoles];
  alignas(
      128) uint64_t given[kMostSlots];  // by slot: the last chunk that was read out of the input
};

struct WindowLayout {
  uint64_t messages, epochs, claim, peers, own, store, ll, ll128, total;
  uint64_t arrived, taken, result_arrived, result_taken;  // counts, one for each sender and slot
  uint64_t stage, results;                                // slots
  uint64_t ll128_bank_bytes;                              // wire bytes of one sender
  uint64_t message_taken, message_lines, message_bank_bytes;
  uint32_t own_bytes;  // of each block
  uint32_t slots;      // of one sender: a power of two
};

COLL_FN constexpr uint64_t align_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

// Where the memory is that all ranks map.
enum class In : uint8_t { gpu, host };

COLL_FN constexpr WindowLayout window_layout(int nranks, In in = In::gpu) {
  WindowLayout l{};
  const bool host = in == In::host;
  const uint64_t senders = nranks > 1 ? uint64_t(nranks - 1) : 1;
  l.ll128_bank_bytes = host ? 0 : kLl128Total / senders / 4096 * 4096;
  const uint32_t most = host ? kMostHostSlots : kMostSlots;
  l.slots = most;
  while (l.slots > 16 && l.slots * senders > 2 * most) l.slots /= 2;
  l.messages = 0;
  l.epochs = 128;
  l.claim =
      l.epochs + kWindowBlocks * sizeof(uint64_t);  // of the report of a failure: there is but one
  l.own = align_up(l.claim + sizeof(uint32_t), 1024);
  l.own_bytes = uint32_t(align_up(sizeof(OwnBlock) + (senders - 1) * sizeof(OwnBlock::Peer), 64));
  l.store = align_up(l.own + kWindowBlocks * l.own_bytes, 128);
  l.peers = align_up(l.store + sizeof(StoreState), 1024);
  const uint64_t counts = align_up(senders * l.slots * sizeof(uint64_t), 128);
  l.arrived = align_up(l.peers + kWindowBlocks * senders * sizeof(PeerCounters), 128);
  l.taken = l.arrived + counts;
  l.result_arrived = l.taken + counts;
  l.result_taken = l.result_arrived + counts;
  l.ll = align_up(l.result_taken + counts, 4096);
  l.ll128 = l.ll + 2 * senders * ll_bank_bytes(nranks);
  l.message_bank_bytes = host ? 0 : kMessageTotal / senders / 4096 * 4096;
  l.message_lines = l.ll128 + 2 * senders * l.ll128_bank_bytes;
  l.message_taken = l.message_lines + 2 * senders * l.message_bank_bytes;
  l.stage = align_up(l.message_taken + senders * kWindowBlocks * sizeof(uint64_t), 4096);
  l.results = l.stage + senders * l.slots * kSlotBytes;
  l.total = l.results + senders * l.slots * kSlotBytes;
  return l;
}

constexpr WindowLayout layout_of(const PeerMemory& memory) {
  return window_layout(memory.nranks, memory.own != nullptr ? In::host : In::gpu);
}

// The most data bytes that one rank can send to another in one launch by lines.
COLL_FN constexpr uint64_t ll_capacity(int nranks) {
  return ll_bank_bytes(nranks) / 2;
}
COLL_FN constexpr uint64_t ll128_capacity(int nranks) {
  return window_layout(nranks).ll128_bank_bytes / 128 * 120;
}

// Likewise of a message.
COLL_FN constexpr uint64_t message_capacity(int nranks) {
  return window_layout(nranks).message_bank_bytes / 128 * 120;
}

// The place of `sender` at `receiver`: 0 .. nranks - 2.
COLL_FN constexpr int place_of(int sender, int receiver, int nranks) {
  const int behind = sender - receiver - 1;
  return behind < 0 ? behind + nranks : behind;
}

// The second flag of a line of LL.
COLL_FN constexpr uint32_t second_flag(uint64_t epoch) {
  return uint32_t(epoch) + uint32_t(epoch >> 32) * 0x9e3779b9u;
}
// The epoch's part of an announced word (direct.cuh).
inline constexpr int kEpochBits = 44;
inline constexpr uint64_t kEpochMask = (uint64_t(1) << kEpochBits) - 1;

}  // namespace collctl::kernels::cuda
