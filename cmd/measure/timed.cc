#include "cmd/measure/timed.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/env.h"
#include "base/format.h"
#include "base/wait.h"

namespace collctl::cmd {

using runtime::Communicator;
using runtime::Operation;
using runtime::Stream;

Result<DeviceWait> DeviceWait::make(transport::DevicePointer device) {
  DeviceWait wait;
  COLL_ASSIGN(wait.event_, transport::DeviceEvent::make(std::move(device), false));
  return wait;
}

Status DeviceWait::operator()(void* stream, Deadline deadline, const char* what) const {
  COLL_TRY(event_.record(stream));
  // Ended by the device, by its error, or by the deadline, which is looked at now and then.
  for (uint32_t looks = 1;; ++looks) {
    COLL_ASSIGN(const bool done, event_.done());
    if (done) return {};
    if (looks % 256 == 0 && deadline.passed())
      return Error(ErrorCode::deadline, format("{} did not finish in time", what));
  }
}

Communicator::Launch launch_mode(const Communicator& communicator) {
  return communicator.device() ? Communicator::Launch::async : Communicator::Launch::blocking;
}

Status launch(Communicator& communicator, Stream& stream, std::span<const Operation> operations,
              Communicator::Launch how) {
  if (operations.size() == 1) return communicator.start(operations[0], stream, how);
  return communicator.start_all(operations, stream, how);
}

Result<std::vector<runtime::Plan>> plans_of(Communicator& communicator,
                                            std::span<const Submission> submissions) {
  std::vector<runtime::Plan> plans;
  for (const Submission& submission : submissions) {
    COLL_ASSIGN(runtime::Plan plan, communicator.plan_for(submission));
    plans.push_back(std::move(plan));
  }
  return plans;
}

double slowest_seconds(uint64_t bytes) {
  // A slow network's share, and many GiB at most so long.
  constexpr double kBytesPerSecond = 10e6, kLeast = 0.01, kMost = 5;
  return std::min(kLeast + double(bytes) / kBytesPerSecond, kMost);
}

namespace {

constexpr double kLookSeconds = 1;

class OwnTimed : public Timed {
 public:
  OwnTimed(Communicator& communicator, Stream& stream, std::span<const Submission> submissions,
           const OwnTimedOptions& options)
      : communicator_(communicator),
        stream_(stream),
        how_(launch_mode(communicator)),
        timeout_s_(options.timeout_s),
        per_queued_(options.batch.operations()) {
    for (const Submission& submission : submissions) {
      Submission& grouped = submissions_.emplace_back();
      for (int i = 0; i < options.batch.grouped; ++i)
        grouped.insert(grouped.end(), submission.begin(), submission.end());
    }
  }

  Status prepare(int graph) {
    COLL_ASSIGN(pace_us_, base::knob_int(base::KnobId::pace_us));
    if (how_ == Communicator::Launch::blocking) return {};
    COLL_ASSIGN(wait_, DeviceWait::make(communicator_.device()));
    if (graph == 0) return {};
    // Links that are made on first use cannot be made while a graph is recorded.
    COLL_TRY(launch_all());
    COLL_TRY(stream_.synchronize());
    COLL_TRY(stream_.capture_begin());
    Status recorded;
    for (int i = 0; i < graph && recorded; ++i) recorded = launch_all();
    auto recording = stream_.capture_end();
    if (!recorded) return std::move(recorded.error()).within("record a CUDA graph");
    if (!recording) return std::move(recording.error()).within("record a CUDA graph");
    graph_.emplace(std::move(*recording));
    return {};
  }

  Status enqueue() override {
    ++queued_;
    if (pace_us_ > 0) base::sleep_until(Deadline::after_ns(pace_us_ * 1000));
    return graph_ ? stream_.replay(*graph_) : launch_all();
  }

  // The kernels abort by themselves, with a report that names who waits for whom; the deadline
  // here is for a device that does not answer at all. Each operation may take its time.
  Status wait() override {
    if (how_ == Communicator::Launch::async) {
      const double patience_s = timeout_s_ * (2 + double(std::exchange(queued_, 0)) * per_queued_);
      const Deadline deadline = Deadline::after_seconds(patience_s);
      // An error that the communicator has learnt ends the wait as well.
      for (bool done = false; !done;) {
        const Deadline look = Deadline::after_seconds(std::min(patience_s, kLookSeconds));
        Status waited = wait_(stream_.native(), look, "the operation");
        done = waited.ok();
        if (done) break;
        COLL_TRY(communicator_.async_error());
        if (waited.error().code != ErrorCode::deadline || deadline.passed()) return waited;
      }
    }
    return stream_.synchronize();
  }

 private:
  Status launch_all() {
    for (const Submission& submission : submissions_)
      COLL_TRY(launch(communicator_, stream_, submission, how_));
    return {};
  }

  Communicator& communicator_;
  Stream& stream_;
  std::vector<Submission> submissions_;
  Communicator::Launch how_;
  double timeout_s_;
  DeviceWait wait_;
  std::optional<transport::DeviceGraph> graph_;
  uint64_t queued_ = 0;  // since the last wait
  int per_queued_;       // operations
  int64_t pace_us_ = 0;
};

}  // namespace

Result<std::unique_ptr<Timed>> own_timed(Communicator& communicator, Stream& stream,
                                         std::span<const Submission> submissions,
                                         const OwnTimedOptions& options) {
  auto timed = std::make_unique<OwnTimed>(communicator, stream, submissions, options);
  COLL_TRY(timed->prepare(options.batch.graph));
  return std::unique_ptr<Timed>(std::move(timed));
}

}  // namespace collctl::cmd
