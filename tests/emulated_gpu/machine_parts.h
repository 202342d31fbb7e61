// The parts of the machine (machine.h): fibers, warps, blocks, launches.
#pragma once
#include <ucontext.h>

#include "tests/emulated_gpu/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated {

// The sanitizer hears of changes of stack.
inline void leave_stack([[maybe_unused]] void** fake, [[maybe_unused]] const void* to,
                        [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake, to, bytes);
#endif
}
inline void reach_stack([[maybe_unused]] void* fake, [[maybe_unused]] const void** from,
                        [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, from, bytes);
#endif
}

// The C library's longjmp() would have the sanitizer look for the stack's bounds by a system call
// each time, and clear what it knows of all of it. Functions that jump are marked as it does not do
// so there.
using Jump = void* [5];
#define EMULATED_JUMPS __attribute__((noinline, no_sanitize("address")))
[[noreturn]] EMULATED_JUMPS inline void jump(Jump& to) {
  __builtin_longjmp(to, 1);
}

struct Fiber {
  Jump context;
  ucontext_t first;
  uint8_t* stack = nullptr;
  Warp* warp = nullptr;
  int lane = 0;
  bool started = false;
};

struct Met {
  Meeting what = Meeting::sync;
  uint32_t mask = 0, arrived = 0;
  Brought coming, all;
};

struct Warp {
  Block* block = nullptr;
  int number = 0;
  Fiber* lanes[32] = {};
  uint32_t ready = 0;  // lanes that can go on
  uint32_t live = 0;
  bool listed = false;
  uint64_t until = 0;  // held up until this turn
  Met met[32];         // by the lowest lane of the mask
};

struct Barrier {
  int arrived = 0, wanted = 0;
  bool any = false, result = false;
  std::vector<uint32_t> waiting;  // lanes, by warp
};

struct Block {
  Launch* launch = nullptr;
  unsigned number = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  Barrier barriers[16];
  struct Shared {
    const void* which;
    std::unique_ptr<uint8_t[]> memory;
    uint8_t* at;
  };
  std::vector<Shared> shared;
  uint64_t until = 0;
};

struct Launch {
  void* stream = nullptr;
  int blocks = 0, threads = 0, left = 0;  // left: threads that are not done
  std::function<void()> kernel;
  std::vector<std::unique_ptr<Block>> parts;  // while it runs
  uint64_t until = 0;
};

}  // namespace emulated
