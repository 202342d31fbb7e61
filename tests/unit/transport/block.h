// A small stand-in for a block: puts steps into a fifo and takes them out, with the memory order
// and the sleeping of the contract (kernels/contract/fifo.h), and a deadline on every wait.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/bell.h"
#include "base/wait.h"
#include "tests/unit/transport/rig.h"

namespace collctl::test {

inline uint64_t load64(const uint64_t* at) {
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(at)).load(std::memory_order_acquire);
}

// How the stand-in waits: by itself, or driving the engine as block threads do. A GPU's does
// neither sleep nor drive.
struct Waiting {
  runtime::ProxyEngine* assist = nullptr;
};

template <class Ready>
bool wait_ready(const Fifo& fifo, uint32_t* sleepers, Deadline deadline, Waiting how, Ready ready) {
  for (int spins = 0; !ready(); ++spins) {
    if (deadline.passed()) return false;
    if (how.assist != nullptr) {
      if (how.assist->assist() || spins < 20) continue;
      if (ready()) return true;
      how.assist->assist_sleep(Deadline::after_ms(20).earlier(deadline).at());
      continue;
    }
    if (spins < 20) {
      base::yield_thread();
      continue;
    }
    if (sleepers == nullptr) {
      // time is what is tested: no more than how often a GPU looks
      base::sleep_until(Deadline::after_ns(20'000));
      continue;
    }
    std::atomic_ref<uint32_t> word(*sleepers);
    word.exchange(1, std::memory_order_acq_rel);
    if (ready()) {
      word.exchange(0, std::memory_order_acq_rel);
      return true;
    }
    base::futex_wait(sleepers, 1, Deadline::after_ms(20).earlier(deadline));
  }
  (void)fifo;
  return true;
}

inline void publish(uint64_t* counter, uint64_t value, uint32_t* sleepers, int bell_fd) {
  std::atomic_ref<uint64_t>(*counter).store(value, std::memory_order_release);
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t> word(*sleepers);
  if (word.fetch_or(0, std::memory_order_acq_rel) == 0) return;
  word.exchange(0, std::memory_order_acq_rel);
  if (bell_fd >= 0)
    base::ring_bell(bell_fd);
  else
    base::futex_wake(sleepers, 1 << 30);
}

// Data bytes that fit in one slot.
inline uint32_t capacity(const Fifo& fifo) {
  return fifo.protocol == Protocol::ll ? fifo.slot_bytes / 2 : fifo.slot_bytes;
}

// Puts the next step; false when no slot became free until the deadline. LL takes multiples of 8.
inline bool put(Fifo& fifo, ByteView data, Deadline deadline, Waiting how = {}) {
  const uint64_t step = fifo.step;
  if (!wait_ready(fifo, fifo.producer_sleeps, deadline, how,
                  [&] { return load64(fifo.head) + fifo.slot_count > step; }))
    return false;
  const uint32_t index = uint32_t(step % fifo.slot_count);
  uint8_t* slot = fifo.slots + size_t(index) * fifo.slot_bytes;
  if (fifo.protocol == Protocol::ll) {
    for (size_t i = 0; i < data.size() / 4; ++i) {
      uint32_t word;
      std::memcpy(&word, data.data() + 4 * i, 4);
      std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(slot + 8 * i))
          .store(uint64_t(uint32_t(step + 1)) << 32 | word, std::memory_order_relaxed);
    }
    fifo.records[index] = {.bytes = uint32_t(data.size() * 2), .mark = uint32_t(step + 1)};
  } else {
    if (!data.empty()) std::memcpy(slot, data.data(), data.size());
    fifo.records[index].bytes = uint32_t(data.size());
  }
  fifo.step = step + 1;
  publish(fifo.tail, step + 1, fifo.consumer_sleeps, fifo.bell_fd);
  return true;
}

// Takes the next step of `to.size()` bytes; false when it did not come until the deadline.
inline bool take(Fifo& fifo, std::span<uint8_t> to, Deadline deadline, Waiting how = {}) {
  const uint64_t step = fifo.step;
  const uint32_t index = uint32_t(step % fifo.slot_count);
  uint8_t* slot = fifo.slots + size_t(index) * fifo.slot_bytes;
  if (fifo.protocol == Protocol::ll) {
    for (size_t i = 0; i < to.size() / 4; ++i) {
      auto* half = reinterpret_cast<uint64_t*>(slot + 8 * i);
      uint64_t seen = 0;
      if (!wait_ready(fifo, fifo.consumer_sleeps, deadline, how, [&] {
            seen = load64(half);
            return uint32_t(seen >> 32) == uint32_t(step + 1);
          }))
        return false;
      const uint32_t word = uint32_t(seen);
      std::memcpy(to.data() + 4 * i, &word, 4);
    }
  } else {
    if (!wait_ready(fifo, fifo.consumer_sleeps, deadline, how,
                    [&] { return load64(fifo.tail) > step; }))
      return false;
    if (!to.empty()) std::memcpy(to.data(), slot, to.size());
  }
  fifo.step = step + 1;
  publish(fifo.head, step + 1, fifo.producer_sleeps, fifo.bell_fd);
  return true;
}

// Bytes that tell step and position.
// Byte i is step * 131 + i * 7 + i / 256 * 3 + 1. A block of 256 is a piece of the ramp 0, 7, 14,
// ...: the one that begins with `first` lies at first * 183, for 7 * 183 = 1 modulo 256. (A loop
// over bytes takes its time without optimizer.)
inline void pattern(std::vector<uint8_t>& to, size_t bytes, uint64_t step) {
  static const std::array<uint8_t, 512> ramp = [] {
    std::array<uint8_t, 512> made{};
    for (size_t k = 0; k < made.size(); ++k) made[k] = uint8_t(k * 7);
    return made;
  }();
  to.resize(bytes);
  for (size_t at = 0; at < bytes; at += 256) {
    const auto first = uint8_t(step * 131 + at / 256 * 3 + 1);
    std::memcpy(to.data() + at, ramp.data() + uint8_t(first * 183),
                std::min<size_t>(256, bytes - at));
  }
}

}  // namespace collctl::test
