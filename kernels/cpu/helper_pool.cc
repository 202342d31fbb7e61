// HelperPool of launch.h: threads started when first needed, each taking one task at a time.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/wait.h"
#include "kernels/cpu/launch.h"

namespace collctl::kernels {
namespace {

// Waits here are ended by a notification; the deadline only makes them look again.
constexpr double kLookAgainSeconds = 3600;

}  // namespace

struct HelperPool::Ticket::Shared {
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
};

struct HelperPool::State {
  struct Task {
    std::function<void()> run;
    std::shared_ptr<Ticket::Shared> ticket;
  };

  std::mutex mutex;
  std::condition_variable work_changed;
  std::deque<Task> tasks;
  std::vector<std::thread> threads;
  size_t idle = 0;
  bool stopping = false;

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      ++idle;
      // Ended by run() or by the destructor.
      while (!base::wait_for(work_changed, lock, Deadline::after_seconds(kLookAgainSeconds),
                             [&] { return stopping || !tasks.empty(); })) {
      }
      --idle;
      if (tasks.empty()) return;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task.run();
      {
        const std::lock_guard done(task.ticket->mutex);
        task.ticket->done = true;
        task.ticket->done_changed.notify_all();
      }
      task = {};
      lock.lock();
    }
  }
};

HelperPool::HelperPool() : state_(std::make_unique<State>()) {}

HelperPool::~HelperPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

HelperPool::Ticket HelperPool::run(std::function<void()> task) {
  Ticket ticket;
  ticket.shared = std::make_shared<Ticket::Shared>();
  const std::lock_guard lock(state_->mutex);
  state_->tasks.push_back({std::move(task), ticket.shared});
  if (state_->tasks.size() > state_->idle) {
    try {
      state_->threads.emplace_back([state = state_.get()] { state->serve(); });
    } catch (const std::system_error&) {
      // At the limit of threads a task waits for a busy helper; its peers' timeouts bound that.
      // Without any helper it cannot run: the caller hears what std::thread says.
      if (state_->threads.empty()) {
        state_->tasks.pop_back();
        throw;
      }
    }
  }
  state_->work_changed.notify_one();
  return ticket;
}

void HelperPool::Ticket::wait() {
  std::unique_lock lock(shared->mutex);
  // Ended by the helper that finishes the task.
  while (!base::wait_for(shared->done_changed, lock, Deadline::after_seconds(kLookAgainSeconds),
                         [&] { return shared->done; })) {
  }
}

}  // namespace collctl::kernels
