// Stopping measurements that run in this process, from another thread: the control connection said
// "abort", or somebody pressed Ctrl-C in thread mode. Who runs one (bench_rank) opens a scope with
// what aborts it (Communicator::abort). Threads: any.
#pragma once
#include <functional>

#include "base/result.h"

namespace collctl::cmd {

class AbortScope {
 public:
  using Abort = std::function<void(const Error&)>;
  // When an abort was asked for already, `abort` is called right here.
  explicit AbortScope(Abort abort);
  ~AbortScope();  // after it `abort` is not called any more
  AbortScope(const AbortScope&) = delete;
  AbortScope& operator=(const AbortScope&) = delete;

 private:
  Abort abort_;
};

// Calls every open scope, and every later one until clear_abort().
void abort_running(const Error& why);
void clear_abort();

}  // namespace collctl::cmd
