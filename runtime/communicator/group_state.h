// Operations collected by a thread's open group. Private to runtime/communicator. Threads: each has
// its own.
#pragma once
#include <memory>
#include <vector>

#include "runtime/communicator/stream_state.h"

namespace collctl::runtime {

struct Group::Collected {
  struct Batch {
    Communicator::State* communicator;
    std::shared_ptr<Stream::State> stream;
    std::vector<Operation> operations;
    bool blocking = false;
  };
  int depth = 0;
  std::vector<Batch> batches;
  static Collected& mine();
  bool open() const { return depth > 0; }
  Status add(Communicator::State& communicator, const std::shared_ptr<Stream::State>& stream,
             std::span<const Operation> operations, bool blocking);
  Status submit(bool wait);
  static Status submit_all(const std::vector<Batch>& all);
};

}  // namespace collctl::runtime
