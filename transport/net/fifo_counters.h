// The network's side of a fifo: its counters as whoever moves the slots reads and publishes them.
// Threads: the link's driver; the block is at the other side.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/wait.h"

namespace collctl::transport {

inline uint64_t load_counter(uint64_t* counter) {
  // Pairs with the block's release of the same counter: the slot is written (tail) or read (head).
  return std::atomic_ref<uint64_t>(*counter).load(std::memory_order_acquire);
}

// Publishes a counter and wakes the block if it sleeps on it; a GPU's never does.
inline void publish(uint64_t* counter, uint64_t value, uint32_t* sleepers) {
  std::atomic_ref<uint64_t>(*counter).store(value, std::memory_order_release);
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t> word(*sleepers);
  // Pairs with the sleeper's exchange of 1: it sees the counter, or this sees the 1.
  if (word.fetch_or(0, std::memory_order_acq_rel) == 0) return;
  word.store(0, std::memory_order_release);
  base::futex_wake(sleepers, 1 << 30);
}

inline void arm_word(uint32_t* sleepers) {
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t>(*sleepers).exchange(1, std::memory_order_acq_rel);
}

// Not a store: a publisher that found the word disarmed is one whose counter this thread now sees,
// because each of the two has read what the other wrote.
inline void disarm_word(uint32_t* sleepers) {
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t>(*sleepers).exchange(0, std::memory_order_acq_rel);
}

}  // namespace collctl::transport
