// The order of a communicator's submissions. Every one gets a number when it is started; they run
// one after the other in that order, whichever stream they are on, because they share the channels'
// fifos. Nothing is in flight when all numbers are done: then the starting thread may run the next
// submission itself.
//
// Threads: what is said to be the starting thread's is one thread's at a time; the rest is any's.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "base/result.h"

namespace collctl::runtime {

class Turns {
 public:
  explicit Turns(int rank) : rank_(rank) {}

  // The starting thread's; any other's for a report.
  bool idle() const {
    return done_.load(std::memory_order_acquire) == issued_.load(std::memory_order_relaxed);
  }
  // Around a submission that runs here at once, because all is idle.
  void begin_here() { issue(); }
  void end_here() {
    done_.store(issued_.load(std::memory_order_relaxed), std::memory_order_release);
  }
  // The number of one that another thread runs. `may_connect`: it may still use the bootstrap, to
  // connect links; until connected() is called.
  uint64_t take(bool may_connect);
  Status drain(Deadline deadline);  // until all are done
  // Until nothing in flight may use the bootstrap, whose calls are one thread's at a time.
  Status wait_until_connected(Deadline deadline);

  // Called by the thread that runs the submission.
  void wait_for(uint64_t number);
  void connected();
  void end(uint64_t number);

 private:
  // One thread writes: no read-modify-write that the bus would see.
  uint64_t issue() {
    const uint64_t number = issued_.load(std::memory_order_relaxed) + 1;
    issued_.store(number, std::memory_order_relaxed);
    return number;
  }

  const int rank_;
  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  int connecting_ = 0;  // submissions in flight that may connect; under mutex_
};

}  // namespace collctl::runtime
