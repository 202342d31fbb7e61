// Moves bytes to and from memory that only its own process can touch, or whose writes have to be
// held back: a GPU's. Each process with such memory has a mover, a thread that takes jobs from
// every process.
//
// Writes into a GPU's memory are held back, as on their way over PCIe, until a read from that GPU
// pushes them there, or until Setup::hold_us has passed. A look at the data before needs a flush.
#pragma once
#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "tests/fake_verbs/gpu.h"
#include "tests/fake_verbs/world.h"

namespace fake_verbs {

class Mover {
 public:
  Mover(int process, uint64_t hold_ns);
  ~Mover();

 private:
  struct Held {
    uint64_t due_ns;
    GpuMemory to;
    std::vector<uint8_t> data;
  };
  void run();
  Job* next_job();
  bool carry_out(Job& job);
  bool land(int gpu);   // everything that is held for it
  uint64_t land_due();  // returns when the next one is due
  bool land_first();

  const int process_;
  const uint64_t hold_ns_;
  std::atomic<bool> stop_{false};
  std::deque<Held> held_;
  uint64_t held_bytes_ = 0;
  std::thread thread_;
};

// Between `data` and memory of a process, by its mover; waits for it. False: that process is gone,
// or its driver refused.
bool move_by(int process, const GpuMemory& memory, void* data, uint64_t bytes, bool read);

}  // namespace fake_verbs
