// Work that runs in this process: stopping it, and what its ranks do at this moment. A function
// that runs a communicator (bench_rank) opens a scope of each kind. Threads: any.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/record.h"
#include "runtime/communicator/communicator.h"

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

// From another thread: the control connection said "abort", or somebody pressed Ctrl-C in thread
// mode. A start-up is called off by start_cancel(), which the scope's owner gives it.
class AbortScope {
 public:
  using Abort = base::Cancel::Listener::Call;
  // When an abort was asked for already, `abort` is called right here; after the destructor it is
  // not called any more.
  explicit AbortScope(Abort abort);

 private:
  base::Cancel::Listener listener_;
};

// The Cancel of all start-ups of this process, until clear_abort().
std::shared_ptr<base::Cancel> start_cancel();
// Calls every open scope and every later one, and calls start-ups off.
void abort_running(const Error& why);
// Start-ups alone: what runs already hears of it from its own ranks.
void abort_starts(const Error& why);
void clear_abort();

// For whoever asks from another thread (`collctl status`, a job that does not end).
struct WaitDoing {
  int peer = -1;
  bool receives = true;  // waits for its data; else for it to take data
  double seconds = 0;
  // Empty: by a kernel made for windows, which does not say; the peer has not begun `number`.
  std::string operation = {}, algorithm = {}, protocol = {};
  uint64_t number = 0;  // of the operation
  int channel = 0;
  uint64_t step = 0, seen = 0, wanted = 0;
};
struct RankDoing {
  int rank = 0;
  uint64_t calls = 0;     // of collectives, so far
  std::string last = {};  // of them
  bool busy = false;      // it is not over
  bool on_gpu = false;
  std::vector<WaitDoing> waits = {};  // the longest first
};
void fields(Record& io, RankDoing& doing);

class DoingScope {
 public:
  explicit DoingScope(const runtime::Communicator& communicator);
  // `communicator` was split off `whole`, in whose place it is asked meanwhile; told by the ranks'
  // numbers there.
  DoingScope(const runtime::Communicator& communicator, const runtime::Communicator& whole);
  ~DoingScope();  // afterwards nobody asks the communicator any more
  DoingScope(const DoingScope&) = delete;
  DoingScope& operator=(const DoingScope&) = delete;

 private:
  const runtime::Communicator& communicator_;
  const runtime::Communicator* const whole_ = nullptr;
};
std::vector<RankDoing> ranks_doing();

}  // namespace collctl::cmd
