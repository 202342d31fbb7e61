#include "base/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace collctl::base {

namespace {

std::atomic<int> g_uninterruptible{0};

}  // namespace

Uninterruptible::Uninterruptible() {
  ++g_uninterruptible;
}

Uninterruptible::~Uninterruptible() {
  --g_uninterruptible;
}

bool Uninterruptible::any() {
  return g_uninterruptible > 0;
}

void Cancel::wake() {
  const uint64_t one = 1;
  while (event_ && ::write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Cancel::call(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (why_) return;
  why_ = why;
  std::atomic_ref<uint32_t>(word_).store(1, std::memory_order_release);
  wake();
  for (const auto* call : listeners_) (*call)(why);
}

std::optional<Error> Cancel::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

int Cancel::fd() {
  const std::lock_guard lock(mutex_);
  if (!event_) {
    event_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (why_) wake();
  }
  return event_.get();
}

Cancel::Listener::Listener(std::shared_ptr<Cancel> of, Call call)
    : of_(std::move(of)), call_(std::move(call)) {
  if (of_ == nullptr) return;
  const std::lock_guard lock(of_->mutex_);
  of_->listeners_.push_back(&call_);
  if (of_->why_) call_(*of_->why_);
}

Cancel::Listener::~Listener() {
  if (of_ == nullptr) return;
  const std::lock_guard lock(of_->mutex_);
  std::erase(of_->listeners_, &call_);
}

}  // namespace collctl::base
