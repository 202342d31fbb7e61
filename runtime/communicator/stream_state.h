// State of a Stream: CPU ranks have a queue and one worker, GPU ranks the GPU's own queue. Private
// to runtime/communicator. Threads: push, wait and stop are the thread's that uses the
// communicator, work() is the worker; what they share is guarded.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/communicator/state.h"

namespace collctl::runtime {

struct Submission {
  Plan plan;
  uint64_t number = 0;  // of its turn
  uint64_t first_op = 0;
  bool wired = false;
};

struct Stream::State {
  Communicator::State* communicator = nullptr;  // null once it is gone
  // GPU ranks: the queue is the GPU's, the members below are not used.
  transport::DeviceStream device_stream;
  std::optional<Error> device_error;  // it could not be made

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Submission> queue;
  uint64_t pending = 0;  // queued or running
  bool stopping = false;
  std::thread worker;

  void push(Submission submission);
  void work();
  // Runs what is queued (aborts it if the abort word is raised), ends the worker. False: a GPU
  // does not end its kernels.
  bool stop();
  Status wait();
  bool stop_on_gpu();
  Status wait_for_gpu();
  Status gpu_ready() const;
  Status or_missed(Status status) const;
};

}  // namespace collctl::runtime
