// Stopping measurements that run in this process, from another thread: the control connection said
// "abort", or somebody pressed Ctrl-C in thread mode. Who runs one (bench_rank) opens a scope with
// what aborts it (Communicator::abort), and gives its start-up what calls that off. Threads: any.
#pragma once
#include "base/cancel.h"
#include "base/clock.h"

namespace collctl::cmd {

// From a request to end to the process's end where a thread is in a call that cannot be interrupted
// (base::Uninterruptible).
inline constexpr double kUninterruptibleSeconds = 0.1;

// How long who was asked to end may take for it.
class LeaveBy {
 public:
  explicit LeaveBy(double seconds) : all_(base::Deadline::after_seconds(seconds)) {}
  bool passed() const {
    return all_.passed() || (uninterruptible_.passed() && base::Uninterruptible::any());
  }

 private:
  base::Deadline all_, uninterruptible_ = base::Deadline::after_seconds(kUninterruptibleSeconds);
};

class AbortScope {
 public:
  using Abort = base::Cancel::Listener::Call;
  // When an abort was asked for already, `abort` is called right here; after the destructor it is
  // not called any more.
  explicit AbortScope(Abort abort);

 private:
  base::Cancel::Listener listener_;
};

// Of all start-ups of this process, until clear_abort().
std::shared_ptr<base::Cancel> start_cancel();
// Calls every open scope and every later one, and calls start-ups off.
void abort_running(const Error& why);
// Start-ups alone: what runs already hears of it from its own ranks.
void abort_starts(const Error& why);
void clear_abort();

}  // namespace collctl::cmd
