// Work of a timed loop: something that is queued, again and again, and waited for. OwnTimed is one
// operation (or group) of a communicator; versus.h has another library's. Made by BenchRun for a
// row, used by measure() on the rank's thread.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cmd/verify/row.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

class Timed {
 public:
  virtual ~Timed() = default;
  virtual Status enqueue() = 0;
  virtual Status wait() = 0;  // until everything that was queued is done
  // Time of enqueue() and wait(), where the clock around them, `around_ns`, does not say it.
  virtual int64_t took_ns(int64_t around_ns) const { return around_ns; }
};

// Waits for all that is queued on a GPU's stream by asking it without a pause, as clocks in
// microseconds want it. One thread.
class DeviceWait {
 public:
  static Result<DeviceWait> make(transport::DevicePointer device);
  // Error deadline: in words of `what`.
  Status operator()(void* stream, Deadline deadline, const char* what) const;

 private:
  transport::DeviceEvent event_;
};

// How much is queued at a time: `grouped` times each submission of a row as one; and on GPUs, with
// `graph` > 0, as many such rows as one graph.
struct Batch {
  int grouped = 1, graph = 0;
  int operations() const { return grouped * (graph > 0 ? graph : 1); }
};
// Longest time that an operation of a library without deadlines may take.
double slowest_seconds(uint64_t bytes);
// How this communicator's work is timed. A graph is recorded here.
struct OwnTimedOptions {
  double timeout_s = 30;  // of a wait
  Batch batch = {};
};
Result<std::unique_ptr<Timed>> own_timed(runtime::Communicator& communicator,
                                         runtime::Stream& stream,
                                         std::span<const Submission> submissions,
                                         const OwnTimedOptions& options);

// Plan of each submission. Error: the choices in force cannot serve it; all ranks find the same.
Result<std::vector<runtime::Plan>> plans_of(runtime::Communicator& communicator,
                                            std::span<const Submission> submissions);
// One operation, or a group as one submission. Ranks that compute on the host do it in the caller's
// thread.
runtime::Communicator::Launch launch_mode(const runtime::Communicator& communicator);
Status launch(runtime::Communicator& communicator, runtime::Stream& stream,
              std::span<const runtime::Operation> operations, runtime::Communicator::Launch how);

}  // namespace collctl::cmd
