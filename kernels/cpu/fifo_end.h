// One end of a fifo as a block of host threads has it open, and the words that both sides look at.
// Inline: of a tiny operation this is most of the time.
#pragma once
#include <atomic>

#include "kernels/contract/fifo.h"

namespace collctl::kernels {

inline uint64_t load_counter(uint64_t* counter) {
  return std::atomic_ref<uint64_t>(*counter).load(std::memory_order_acquire);
}
inline void store_counter(uint64_t* counter, uint64_t value) {
  std::atomic_ref<uint64_t>(*counter).store(value, std::memory_order_release);
}

// One end of a fifo while a block has it open. `seen` is the other side's counter at the last look:
// it only grows, so an old value is a safe one.
struct FifoEnd {
  Fifo* fifo = nullptr;
  uint64_t step = 0;
  uint64_t seen = 0;
  uint32_t slot = 0;
  uint32_t due = 0;     // receive, LL: wire bytes that this step has to bring
  uint64_t placed = 0;  // receive: the step behind the last one that has a place

  void open(Fifo* f) {
    fifo = f;
    step = f->step;
    slot = uint32_t(step % f->slot_count);
  }
  uint8_t* data() const { return fifo->slots + uint64_t(slot) * fifo->slot_bytes; }
  void advance() {
    ++step;
    if (++slot == fifo->slot_count) slot = 0;
  }
};

// The producer's record of this step.
inline std::atomic_ref<uint32_t> recorded(const FifoEnd& end) {
  return std::atomic_ref<uint32_t>(end.fifo->records[end.slot].bytes);
}

}  // namespace collctl::kernels
