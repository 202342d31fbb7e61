// A request, from another thread, to cancel something. Threads that wait meanwhile look at a word,
// poll a descriptor or are called. Once cancelled it stays so. Threads: any.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace collctl::base {

class Cancel {
 public:
  Cancel() = default;
  Cancel(const Cancel&) = delete;
  Cancel& operator=(const Cancel&) = delete;

  void call(const Error& why);  // the first reason is kept
  std::optional<Error> why() const;
  uint32_t* word() { return &word_; }  // not 0 from then on; for atomic_ref
  // Readable from then on; to be polled, not read. -1: this process has no descriptor left.
  int fd();

  class Listener {
   public:
    using Call = std::function<void(const Error&)>;
    // `call` runs at most once: in the constructor if already cancelled, else in the thread
    // that cancels. It must not use the Cancel. With a null `of` it never runs.
    Listener(std::shared_ptr<Cancel> of, Call call);
    ~Listener();  // after it `call` no longer runs
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    std::shared_ptr<Cancel> of_;
    Call call_;
  };

 private:
  void wake();
  mutable std::mutex mutex_;  // guards all that follows except the word
  std::optional<Error> why_;
  std::vector<const Listener::Call*> listeners_;
  Fd event_;
  alignas(4) uint32_t word_ = 0;
};

// Lives while this thread is in a call that cannot be interrupted (a driver's, an engine's store):
// whoever cancels need not wait for it.
class Uninterruptible {
 public:
  Uninterruptible();
  ~Uninterruptible();
  Uninterruptible(const Uninterruptible&) = delete;
  Uninterruptible& operator=(const Uninterruptible&) = delete;
  static bool any();  // in this process, now
};

}  // namespace collctl::base
