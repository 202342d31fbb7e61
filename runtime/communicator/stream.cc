// Streams: a queue and one worker thread, started with the first asynchronous submission.
#include "base/check.h"
#include "base/log.h"
#include "base/wait.h"
#include "runtime/communicator/stream_state.h"

namespace collctl::runtime {

void Stream::State::push(Submission submission) {
  std::lock_guard lock(mutex);
  COLL_CHECK_NOTE(!stopping, "a stream is used after its communicator was closed");
  queue.push_back(std::move(submission));
  ++pending;
  if (!worker.joinable()) worker = std::thread([this] { work(); });
  changed.notify_all();
}

void Stream::State::work() {
  base::log_set_thread_device(communicator->rank);
  std::unique_lock lock(mutex);
  while (true) {
    // Ended by push() or stop(); the deadline only bounds one sleep.
    base::wait_for(changed, lock, Deadline::after_seconds(60),
                   [&] { return stopping || !queue.empty(); });
    // A numbered submission must have its turn, or those behind it would wait for ever; after an
    // error or abort it ends at once.
    if (queue.empty()) {
      if (stopping) return;
      continue;
    }
    Submission submission = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    communicator->run_in_turn(submission);
    lock.lock();
    --pending;
    changed.notify_all();
  }
}

bool Stream::State::stop() {
  if (device_stream.get() != nullptr) return stop_on_gpu();
  std::thread ended;
  {
    std::lock_guard lock(mutex);
    stopping = true;
    changed.notify_all();
    ended = std::move(worker);
  }
  if (ended.joinable()) ended.join();
  std::lock_guard lock(mutex);
  communicator = nullptr;
  return true;
}

Status Stream::State::wait() {
  if (device_error) return *device_error;
  if (device_stream.get() != nullptr) return wait_for_gpu();
  std::unique_lock lock(mutex);
  // Ended by the worker: each submission ends by data, abort or its deadline.
  while (
      !base::wait_for(changed, lock, Deadline::after_seconds(60), [&] { return pending == 0; })) {
  }
  return communicator == nullptr ? Status() : communicator->errors.status();
}

bool Stream::State::stop_on_gpu() {
  if (communicator == nullptr) return true;
  // A graph that nobody ended is dropped.
  if (communicator->gpu->capturing(device_stream))
    (void)communicator->gpu->capture_end(device_stream);
  const bool ended = bool(communicator->gpu->wait(device_stream));
  if (!ended) communicator->gpu_hangs = true;
  communicator->gpu->forget(device_stream);  // its watching thread must not look at it any more
  communicator = nullptr;
  return ended;
}

Status Stream::State::wait_for_gpu() {
  if (communicator == nullptr) return {};
  COLL_TRY(communicator->gpu->wait(device_stream));
  return communicator->errors.status();
}

Status Stream::State::gpu_ready() const {
  if (device_error) return *device_error;
  if (communicator == nullptr || communicator->gpu == nullptr)
    return Error(ErrorCode::usage, "graphs are recorded on streams of GPU ranks only");
  return communicator->errors.status();
}

// An operation not recorded or replayed here is missed by the other ranks, as in submit_to_gpu.
Status Stream::State::or_missed(Status status) const {
  if (status || status.error().code == ErrorCode::usage) return status;
  Error& e = status.error();
  if (e.rank < 0) e.rank = communicator->rank;
  if (e.host.empty()) e.host = communicator->peers[size_t(e.rank)].host;
  communicator->lost_once_running(e, communicator->op_count);
  communicator->errors.fail(e, true);
  return status;
}

Stream::Stream(Communicator& communicator) : state_(std::make_shared<State>()) {
  state_->communicator = communicator.state_.get();
  if (const auto device = communicator.device()) {
    auto made = transport::DeviceStream::make(device);
    if (made)
      state_->device_stream = std::move(*made);
    else
      state_->device_error = std::move(made.error()).blame(communicator.rank());
  }
  communicator.state_->streams.push_back(state_);
}

Stream::~Stream() {
  // A GPU that does not end its kernels has been told as the communicator's error.
  (void)state_->stop();
}

Status Stream::synchronize() {
  return state_->wait();
}

void* Stream::native() const {
  return state_->device_stream.get();
}

Status Stream::capture_begin() {
  COLL_TRY(state_->gpu_ready());
  return state_->or_missed(state_->communicator->gpu->capture_begin(state_->device_stream));
}

Result<transport::DeviceGraph> Stream::capture_end() {
  Status ready = state_->gpu_ready();
  if (!ready && (ready.error().code == ErrorCode::usage || state_->communicator == nullptr))
    return std::move(ready.error());
  // The recording ends whatever has happened to the communicator.
  auto graph = state_->communicator->gpu->capture_end(state_->device_stream);
  COLL_TRY(std::move(ready));
  if (!graph) COLL_TRY(state_->or_missed(std::move(graph.error())));
  return graph;
}

Status Stream::replay(const transport::DeviceGraph& graph) {
  COLL_TRY(state_->gpu_ready());
  return state_->or_missed(state_->communicator->gpu->replay(graph, state_->device_stream));
}

bool Stream::idle() const {
  if (state_->device_stream.get() != nullptr) {
    Communicator::State* const communicator = state_->communicator;
    if (communicator != nullptr && communicator->gpu->capturing(state_->device_stream))
      return false;
    const Result<bool> idle = state_->device_stream.idle();
    return idle && *idle;
  }
  std::lock_guard lock(state_->mutex);
  return state_->pending == 0;
}

}  // namespace collctl::runtime
