// GuardedBuffer: memory for the data of one rank with a guard zone before and behind the part in
// use, so that a write outside shows. Owned by bench_rank and the diagnosis; one thread. The pages
// are the kernel's own (mmap), page aligned, given back by the destructor.
#pragma once
#include <cstdint>

#include "base/result.h"

namespace collctl::cmd {

inline constexpr uint8_t kPoison = 0xA5;
inline constexpr uint64_t kGuardBytes = 4096;

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;

  // At least `bytes` between the guards; contents are lost when it grows. Error unavailable names
  // the amount.
  Status reserve(uint64_t bytes);
  uint8_t* data() const { return base_ + kGuardBytes; }
  uint64_t capacity() const { return capacity_; }

  // Puts the guard zones around [0, used); poison() also fills what lies between with kPoison.
  void set_guards(uint64_t used);
  void poison(uint64_t used);
  // Bytes of the two guard zones around [0, used) that were changed since.
  uint64_t damaged(uint64_t used) const;

 private:
  uint8_t* base_ = nullptr;
  uint64_t capacity_ = 0;
};

}  // namespace collctl::cmd
