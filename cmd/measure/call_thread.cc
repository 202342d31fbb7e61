#include "cmd/measure/call_thread.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/wait.h"

namespace collctl::cmd {
namespace {

constexpr double kIdleSeconds = 60;
constexpr int64_t kHeardMs = 200;  // at what the caller has heard

}  // namespace

struct CallThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<Status()> work;
  std::optional<Status> result;
  bool ends = false;
};

CallThread::CallThread(Error (*hang_of)(const std::string&))
    : hang_of_(hang_of), shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_] { loop(*shared); }).detach();
}

CallThread::~CallThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
}

Status CallThread::run(Deadline deadline, const std::string& what, std::function<Status()> work) {
  return run(std::move(work), what,
             [&] { return deadline.passed() ? Status(hang_of_(what)) : Status(); });
}

Status CallThread::run(std::function<Status()> work, const std::string& what,
                       const std::function<Status()>& patience) {
  if (hangs_) return hang_of_(what);
  std::unique_lock lock(shared_->mutex);
  shared_->work = std::move(work);
  shared_->result.reset();
  shared_->changed.notify_all();
  // Ended by the call's return, or by what is asked.
  while (!base::wait_for(shared_->changed, lock, Deadline::after_ms(kHeardMs),
                         [&] { return shared_->result.has_value(); })) {
    Status may_go_on = patience();
    if (may_go_on) continue;
    hangs_ = true;
    return may_go_on;
  }
  return std::move(*shared_->result);
}

void CallThread::loop(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    // Idle until there is work; ended by the destructor, or by the process.
    while (!base::wait_for(shared.changed, lock, Deadline::after_seconds(kIdleSeconds),
                           [&] { return shared.work || shared.ends; }))
      continue;
    if (!shared.work) return;
    const std::function<Status()> work = std::exchange(shared.work, {});
    lock.unlock();
    Status status = work();
    lock.lock();
    shared.result.emplace(std::move(status));
    shared.changed.notify_all();
  }
}

}  // namespace collctl::cmd
