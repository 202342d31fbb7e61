#include "tests/sim/fiber.h"

#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace collctl::sim {
namespace {

constexpr size_t kStackBytes = 512 << 10;
Fiber* g_entering = nullptr;  // handed to start(), which takes no arguments

// Most runs need as many as the last.
std::vector<std::unique_ptr<char[]>>& spare_stacks() {
  static std::vector<std::unique_ptr<char[]>> stacks;
  return stacks;
}

#if defined(__SANITIZE_ADDRESS__)
void leaves(void** fake, const void* bottom, size_t size) {
  __sanitizer_start_switch_fiber(fake, bottom, size);
}
void arrives(void* fake, const void** bottom, size_t* size) {
  __sanitizer_finish_switch_fiber(fake, bottom, size);
}
#else
void leaves(void**, const void*, size_t) {}
void arrives(void*, const void**, size_t*) {}
#endif

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  if (spare_stacks().empty()) {
    stack_.reset(new char[kStackBytes]);
  } else {
    stack_ = std::move(spare_stacks().back());
    spare_stacks().pop_back();
  }
  if (::getcontext(&own_) != 0) std::abort();
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  ::makecontext(&own_, start, 0);
}

Fiber::~Fiber() {
  spare_stacks().push_back(std::move(stack_));
}

void Fiber::start() {
  Fiber& self = *g_entering;
  arrives(nullptr, &self.outside_bottom_, &self.outside_size_);
  self.body_();
  self.over_ = true;
  // A null place for its own: this stack is not come back to.
  leaves(nullptr, self.outside_bottom_, self.outside_size_);
  ::setcontext(&self.outside_);
  std::abort();
}

void Fiber::resume() {
  g_entering = this;
  void* fake = nullptr;
  leaves(&fake, stack_.get(), kStackBytes);
  ::swapcontext(&outside_, &own_);
  arrives(fake, nullptr, nullptr);
}

void Fiber::give_way() {
  leaves(&fake_stack_, outside_bottom_, outside_size_);
  ::swapcontext(&own_, &outside_);
  arrives(fake_stack_, &outside_bottom_, &outside_size_);
}

}  // namespace collctl::sim
