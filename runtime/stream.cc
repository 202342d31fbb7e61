// Streams: a queue and one worker thread, started with the first asynchronous submission.
#include "base/check.h"
#include "base/log.h"
#include "base/wait.h"
#include "runtime/communicator_state.h"

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
    // What was numbered must have its turn, or those behind it would wait for ever; after an error
    // or abort it ends at once.
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

void Stream::State::stop() {
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
}

Status Stream::State::wait() {
  std::unique_lock lock(mutex);
  // Ended by the worker: each submission ends by data, abort or its deadline.
  while (
      !base::wait_for(changed, lock, Deadline::after_seconds(60), [&] { return pending == 0; })) {
  }
  return communicator == nullptr ? Status() : communicator->error();
}

Stream::Stream(Communicator& communicator) : state_(std::make_shared<State>()) {
  state_->communicator = communicator.state_.get();
  communicator.state_->streams.push_back(state_);
}

Stream::~Stream() {
  state_->stop();
}

Status Stream::synchronize() {
  return state_->wait();
}

bool Stream::idle() const {
  std::lock_guard lock(state_->mutex);
  return state_->pending == 0;
}

}  // namespace collctl::runtime
