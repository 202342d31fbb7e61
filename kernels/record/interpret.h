// interpret: runs the schedules of all ranks on symbolic data and says whether they are right. It
// proves the text of an algorithm (order, offsets, sizes, peers, slots), not the memory order of a
// backend. Called by tests and self-checks, one thread, memory bounded by slots and pieces.
//
// One run decides: each fifo end belongs to one part of one rank, a verb waits for conditions that
// no other can undo, so every order of execution ends in the same state (a Kahn network). The
// exceptions are memory that two parts of a rank share (tree split in place): find_race; and
// windows, where what decides is not the order in which this run happens to go but what the
// arrivals say: a read counts only when its reader has waited for an arrival that its writer made
// after writing, a write only when its writer has waited for arrivals that all readers made after
// reading.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/contract/window.h"
#include "kernels/record/schedule.h"

namespace collctl::kernels {

struct Wires {
  uint32_t slot_count = 8;
  uint64_t slot_data_bytes = 1 << 16;  // of a slot, as slot_data_bytes() gives it
  int window_banks = kWindowBanks;     // in use by turns
  uint64_t window_bytes = 1 << 20;     // of a bank
};

struct Proof {
  enum class Outcome : uint8_t { proved, deadlock, wrong };
  Outcome outcome = Outcome::proved;
  std::string what;        // of a deadlock: who waits for whom; of a wrong schedule: where and what
  std::vector<int> cycle;  // of a deadlock: ranks, each waiting for the next
  std::vector<uint64_t> sent_elements;  // by rank, to others
  uint64_t steps = 0;                   // as AlgorithmRow::steps counts them
  uint64_t slices = 0;                  // moved in all
};

// All ranks' schedules of one operation, of one or more channels. Proved means: every element of
// every output that the collective defines holds each wanted contribution exactly once in final
// form and was written once, nothing else was written, nothing is left in a fifo, no rank waits. At
// most 64 ranks.
Proof interpret(std::span<const Schedule> schedules, const Wires& wires);

// Two parts of one rank that touch the same bytes, one of them writing, must do so in one order
// whatever the timing. Tries every such pair by holding one back: empty when all are ordered, else
// the two events in words. Cost: one run per pair.
std::string find_race(std::span<const Schedule> schedules, const Wires& wires);

}  // namespace collctl::kernels
