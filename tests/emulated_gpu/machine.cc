// Threads: how they begin, give way, meet and end.
#include "tests/emulated_gpu/machine.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <stdexcept>

#include "tests/emulated_gpu/include/cuda_runtime.h"
#include "tests/emulated_gpu/machine_parts.h"

namespace emulated {

namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kStacksAtOnce = 256;
constexpr uint8_t kRubbish = 0xc3;

}  // namespace

Machine::Machine() = default;
Machine::~Machine() {
  for (uint8_t* stacks : stacks_) munmap(stacks, kStackBytes * kStacksAtOnce);
}

Machine& machine() {
  static Machine only;
  return only;
}

uint64_t Machine::random() {  // splitmix64
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

Fiber* Machine::take_fiber() {
  if (free_.empty()) {
    void* const memory = mmap(nullptr, kStackBytes * kStacksAtOnce, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the threads' stacks");
    stacks_.push_back(static_cast<uint8_t*>(memory));
    for (size_t i = 0; i < kStacksAtOnce; ++i) {
      fibers_.push_back(std::make_unique<Fiber>());
      Fiber& f = *fibers_.back();
      f.stack = stacks_.back() + i * kStackBytes;
      std::memset(f.stack, kRubbish, 64);
      getcontext(&f.first);
      f.first.uc_stack.ss_sp = f.stack;
      f.first.uc_stack.ss_size = kStackBytes;
      f.first.uc_link = nullptr;
      makecontext(&f.first, &Machine::enter_fiber, 0);
      free_.push_back(&f);
    }
  }
  Fiber* const f = free_.back();
  free_.pop_back();
  return f;
}

void Machine::enter_fiber() {
  machine().enter();
}
// A fiber's whole life: one thread after the other.
void Machine::enter() {
  reach_stack(nullptr, &host_stack_, &host_stack_bytes_);
  for (;;) {
    Fiber& f = *current_;
    f.warp->block->launch->kernel();
    if (f.stack[0] != kRubbish || f.stack[63] != kRubbish)
      forbid("a thread's stack is too small for its kernel");
    finish(*f.warp, f.lane);
    leave();
  }
}

EMULATED_JUMPS void Machine::resume(Warp& warp, int lane) {
  Fiber& f = *warp.lanes[lane];
  current_ = &f;
  threadIdx = {unsigned(warp.number * 32 + lane), 0, 0};
  blockIdx = {warp.block->number, 0, 0};
  blockDim = {unsigned(warp.block->launch->threads), 1, 1};
  gridDim = {unsigned(warp.block->launch->blocks), 1, 1};
  leave_stack(&host_fake_, f.stack, kStackBytes);
  if (__builtin_setjmp(host_) == 0) {
    if (f.started) jump(f.context);
    f.started = true;
    setcontext(&f.first);
  }
  reach_stack(host_fake_, nullptr, nullptr);
}
EMULATED_JUMPS void Machine::leave() {
  void* fake = nullptr;
  leave_stack(&fake, host_stack_, host_stack_bytes_);
  if (__builtin_setjmp(current_->context) == 0) jump(host_);
  reach_stack(fake, nullptr, nullptr);
}
void Machine::give_way() {
  leave();
}
void Machine::block_thread() {
  current_->warp->ready &= ~(1u << current_->lane);
  leave();
}
void Machine::wake(Warp& warp, uint32_t lanes) {
  warp.ready |= lanes & warp.live;
  if (warp.listed || warp.ready == 0) return;
  warp.listed = true;
  ready_.push_back(&warp);
}

void Machine::forbid(const char* what) {
  if (forbidden_.empty())
    forbidden_ = "block " + std::to_string(blockIdx.x) + " thread " + std::to_string(threadIdx.x) +
                 ": " + what;
  block_thread();
}

const Brought& Machine::meet(Meeting what, uint32_t mask, uint64_t a, uint64_t b, uint8_t* to) {
  Warp& warp = *current_->warp;
  const int lane = current_->lane;
  const uint32_t bit = 1u << lane;
  Met& met = warp.met[__builtin_ctz(mask)];
  if ((mask & bit) == 0) forbid("a lane meets others without being in the mask");
  if (met.arrived != 0 && (met.mask != mask || met.what != what))
    forbid("lanes of a warp meet for different things");
  met.mask = mask;
  met.what = what;
  met.coming.a[lane] = a;
  met.coming.b[lane] = b;
  met.coming.to[lane] = to;
  met.arrived |= bit;
  if (met.arrived == mask) {
    met.arrived = 0;
    met.all = met.coming;
    wake(warp, mask);
    look();
  } else {
    block_thread();
  }
  return met.all;  // until this lane comes again
}

bool Machine::barrier(int number, int count, bool waits, bool mine) {
  Warp& warp = *current_->warp;
  Block& block = *warp.block;
  if (number < 0 || number > 15 || count <= 0 || count % 32 != 0)
    forbid("a barrier that does not exist");
  Barrier& bar = block.barriers[number];
  if (bar.arrived != 0 && bar.wanted != count) forbid("threads meet in different numbers");
  bar.wanted = count;
  bar.any |= mine;
  bar.waiting.resize(block.warps.size());
  if (++bar.arrived < count) {
    if (!waits) return false;
    bar.waiting[size_t(warp.number)] |= 1u << current_->lane;
    block_thread();
    return bar.result;
  }
  bar.arrived = 0;
  bar.result = bar.any;
  bar.any = false;
  for (const auto& other : block.warps) {
    wake(*other, bar.waiting[size_t(other->number)]);
    bar.waiting[size_t(other->number)] = 0;
  }
  const bool result = bar.result;
  look();
  return result;
}

void* Machine::shared(const void* which, size_t bytes) {
  Block& block = *current_->warp->block;
  for (const Block::Shared& s : block.shared)
    if (s.which == which) return s.at;
  Block::Shared s{which, std::make_unique<uint8_t[]>(bytes + 128), nullptr};
  std::memset(s.memory.get(), kRubbish, bytes + 128);
  s.at = s.memory.get() + (128 - reinterpret_cast<uintptr_t>(s.memory.get()) % 128);
  block.shared.push_back(std::move(s));
  return block.shared.back().at;
}

void Machine::post(uint8_t* to, const void* data, size_t bytes) {
  if (manners_.in_flight == 0) {
    std::memcpy(to, data, bytes);
    return;
  }
  Posted p{to, uint8_t(bytes), {}, current_->warp->block};
  std::memcpy(p.data, data, bytes);
  posted_.push_back(p);
  while (posted_.size() > manners_.in_flight) deliver(random(posted_.size()));
}

void Machine::arrives_late(const void* begin, size_t bytes) {
  late_[static_cast<const uint8_t*>(begin)] = bytes;
}
void Machine::forget_memory(const void* begin) {
  late_.erase(static_cast<const uint8_t*>(begin));
}
void Machine::store(void* to, const void* data, size_t bytes) {
  auto* const at = static_cast<uint8_t*>(to);
  const auto behind = late_.upper_bound(at);
  if (behind == late_.begin() || at >= std::prev(behind)->first + std::prev(behind)->second)
    std::memcpy(to, data, bytes);
  else
    post(at, data, bytes);
}

}  // namespace emulated
