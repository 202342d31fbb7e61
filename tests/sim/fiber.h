// A function with a stack of its own, that gives way and is continued: ucontext, told to the
// address sanitizer. Threads: one.
#pragma once
#include <ucontext.h>

#include <functional>
#include <memory>

namespace collctl::sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // of one that is over, or that nobody continues: what its stack holds is not destroyed
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  // From outside: runs it until it gives way or is over.
  void resume();
  // From inside.
  void give_way();
  bool over() const { return over_; }

 private:
  static void start();

  std::function<void()> body_;
  std::unique_ptr<char[]> stack_;
  ucontext_t own_{}, outside_{};
  void* fake_stack_ = nullptr;  // the sanitizer's
  const void* outside_bottom_ = nullptr;
  size_t outside_size_ = 0;
  bool over_ = false;
};

}  // namespace collctl::sim
