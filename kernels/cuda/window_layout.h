// How the window kernels use a rank's part of peer memory (PeerMemory in launch.h): counters, lines
// of both line protocols, staging. Host and device; offsets in bytes from the begin of a part, the
// same on all ranks. Everything starts as zeros.
//
//   counters   for each block and peer: chunks that arrived, chunks that the peer took, the last
//              epoch at whose end it was met; and this rank's own counts of them
//   ll         2 banks x (n-1) senders x lines of 16 bytes, 8 of them data
//   ll128      2 banks x (n-1) senders x lines of 128 bytes, 120 of them data
//   stage      for each block and sender kStageSlots slots; a second set for two-shot's results
//
// A sender has its own place at each receiver: place_of(). Who writes where follows from that
// alone.
//
// Epochs: every launch of a window kernel is one epoch, counted from 1 by each block in `epoch`;
// the bank is its parity, its number is in every line. Two banks are enough: a rank writes bank e %
// 2 again at e + 2, which it starts after it has ended e + 1 (launches of a communicator follow one
// another), and in e + 1 it heard from every other rank, which had ended e by then: through that
// rank's data, or, where not everybody hears from everybody (a broadcast), by meeting at the end.
#pragma once
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::kernels::cuda {

inline constexpr int kWindowBlocks = 128;  // most that a launch has
inline constexpr int kStageSlots = 4;
inline constexpr uint64_t kLlBankBytes = 256 * 1024;  // wire bytes of one sender: 128 KiB of data
inline constexpr uint64_t kLl128Total = 20u << 20;    // wire bytes of all senders in one bank
inline constexpr uint64_t kStageTotal = 32u << 20;    // of all senders

// 64 bytes, so that what two ranks write never shares a sector.
struct alignas(64) PeerCounters {
  uint64_t arrived[2];  // written by the peer: chunks it has put into my stage, even and odd ones
  uint64_t taken;       // written by the peer: of my chunks, how many it has taken out
  uint64_t confirmed;   // written by the peer: the last epoch at whose end it came to meet
  uint64_t result_arrived, result_taken;  // the same for two-shot's results
  uint64_t reserved[2];
};
// This rank's own side; nobody else looks.
struct alignas(64) OwnCounters {
  uint64_t sent, received, result_sent, result_received;
  uint64_t reserved[4];
};
static_assert(sizeof(PeerCounters) == 64 && sizeof(OwnCounters) == 64);

struct WindowLayout {
  uint64_t epochs, claim, peers, own, ll, ll128, stage, results, total;
  uint64_t ll128_bank_bytes;  // wire bytes of one sender
  uint32_t slot_bytes;        // of a stage
};

COLL_FN constexpr uint64_t align_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

COLL_FN constexpr WindowLayout window_layout(int nranks) {
  WindowLayout l{};
  const uint64_t senders = nranks > 1 ? uint64_t(nranks - 1) : 1;
  l.ll128_bank_bytes = kLl128Total / senders / 4096 * 4096;
  const uint64_t slot = kStageTotal / (senders * kWindowBlocks * kStageSlots) / 1024 * 1024;
  l.slot_bytes = uint32_t(slot);
  l.epochs = 0;
  l.claim = kWindowBlocks * sizeof(uint64_t);  // of the report of a failure: there is but one
  l.peers = align_up(l.claim + sizeof(uint32_t), 1024);
  l.own = l.peers + kWindowBlocks * senders * sizeof(PeerCounters);
  l.ll = align_up(l.own + kWindowBlocks * senders * sizeof(OwnCounters), 4096);
  l.ll128 = l.ll + 2 * senders * kLlBankBytes;
  l.stage = l.ll128 + 2 * senders * l.ll128_bank_bytes;
  l.results = l.stage + senders * kWindowBlocks * kStageSlots * slot;
  l.total = l.results + senders * kWindowBlocks * kStageSlots * slot;
  return l;
}

// The most data bytes that one rank can send to another in one launch by lines.
COLL_FN constexpr uint64_t ll_capacity() {
  return kLlBankBytes / 2;
}
COLL_FN constexpr uint64_t ll128_capacity(int nranks) {
  return window_layout(nranks).ll128_bank_bytes / 128 * 120;
}

// The place of `sender` at `receiver`: 0 .. nranks - 2.
COLL_FN constexpr int place_of(int sender, int receiver, int nranks) {
  const int behind = sender - receiver - 1;
  return behind < 0 ? behind + nranks : behind;
}

}  // namespace collctl::kernels::cuda
