// Calls of a library that fail once because a test wants it: of the drivers that stand in for
// others. Any thread; of one process.
#pragma once
#include <map>
#include <mutex>
#include <string>

namespace collctl::test {

class Refusals {
 public:
  // Counts the call; the code that it is to fail with, else 0.
  int refused(const char* function) {
    const std::lock_guard lock(mutex_);
    const int before = calls_[function]++;
    return function_ == function && after_ == before ? code_ : 0;
  }
  // The call of this function after `after` others since clear(). An empty name: none.
  void fail(const std::string& function, int code, int after) {
    const std::lock_guard lock(mutex_);
    function_ = function;
    code_ = code;
    after_ = after;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
    function_.clear();
  }
  // How often each function was called since clear().
  std::map<std::string, int> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
  std::string function_;
  int code_ = 0, after_ = 0;
};

}  // namespace collctl::test
