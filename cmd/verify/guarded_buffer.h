// GuardedBuffer: memory for the data of one rank with a guard zone before and behind the part in
// use, so that a write outside shows. Owned by BenchRun, the soak and the tests; one thread. Memory
// of the host (mmap), or of a GPU: then data() is an address of the device, and the host looks at
// the contents through pinned blocks, piece by piece, so that buffers of many GiB need little of
// the host's memory. Work on a GPU's memory is finished when the call returns.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "transport/device/device.h"

namespace collctl::cmd {

inline constexpr uint8_t kPoison = 0xA5;
inline constexpr uint64_t kGuardBytes = 4096;

// The path between the host and one GPU's memory: a stream and two pinned blocks, which the buffers
// of a rank share. One thread.
class DeviceBlocks {
 public:
  static constexpr uint64_t kMostBlockBytes = uint64_t(32) << 20;
  // `largest`: bytes of the largest buffer that is looked at; a block is as large, within 1 and 32
  // MiB.
  static Result<std::shared_ptr<DeviceBlocks>> make(transport::DevicePointer device,
                                                    uint64_t largest);

  const transport::DevicePointer& device() const { return device_; }
  uint8_t* block(int which) const { return blocks_[which].data(); }
  uint64_t block_bytes() const { return blocks_[0].bytes(); }  // a multiple of 64 KiB
  Status copy(void* to, const void* from, uint64_t bytes) const {
    return stream_.copy(to, from, bytes);
  }
  Status fill(void* to, uint8_t value, uint64_t bytes) const {
    return stream_.fill(to, value, bytes);
  }
  Status wait() const;

 private:
  transport::DevicePointer device_;
  transport::DeviceStream stream_;
  transport::PinnedMemory blocks_[2];
};

class GuardedBuffer {
 public:
  // Called for each piece of a stretch in order: `at` counts bytes from the stretch's first one,
  // and is a multiple of 64 KiB.
  using Put = std::function<void(uint8_t* piece, uint64_t at, uint64_t bytes)>;
  using Look = std::function<void(const uint8_t* piece, uint64_t at, uint64_t bytes)>;

  // Null: memory of the host. `for_windows`: such as can be registered (runtime/window/memory.h);
  // then its windows are deregistered before it goes or grows, else it stays allocated.
  explicit GuardedBuffer(std::shared_ptr<DeviceBlocks> blocks = nullptr, bool for_windows = false);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;

  // At least `bytes` between the guards; contents are lost when it grows. Error unavailable names
  // the amount, and what is free on the GPU.
  Status reserve(uint64_t bytes);
  // Host memory that somebody who cannot be stopped still uses: it is never given back.
  void keep_allocated();
  // data() lies `bytes` behind a page's beginning from now on. Below kGuardBytes; contents are
  // lost.
  void misalign(uint64_t bytes);
  uint8_t* data() const { return base_ + shift_ + kGuardBytes; }
  uint64_t capacity() const { return capacity_; }
  // All of the allocation, for those who register memory.
  void* allocation() const { return base_; }
  uint64_t allocated_bytes() const { return capacity_ + 3 * kGuardBytes; }

  // Writes [at, at + bytes) of the data. `period` (bytes, at most 1 MiB; 0: none): what is put
  // repeats itself, so that only its beginning is asked for.
  Status write(uint64_t at, uint64_t bytes, uint64_t period, const Put& put);
  Status read(uint64_t at, uint64_t bytes, const Look& look) const;
  Status zero(uint64_t bytes);

  // Puts the guard zones around [0, used); poison() also fills what lies between with kPoison.
  Status set_guards(uint64_t used);
  Status poison(uint64_t used);
  // Bytes of the two guard zones around [0, used) that were changed since.
  Result<uint64_t> damaged(uint64_t used) const;

 private:
  Status reserve_host(uint64_t bytes);
  Status reserve_device(uint64_t bytes);
  Status reserve_for_windows(uint64_t bytes);
  void release();
  Status fill(uint8_t* from, uint8_t value, uint64_t bytes);
  Status look_at(const uint8_t* from, uint64_t bytes, const Look& look) const;

  std::shared_ptr<DeviceBlocks> blocks_;
  bool for_windows_ = false, kept_ = false;
  transport::DeviceMemory memory_;
  uint8_t* base_ = nullptr;
  uint64_t capacity_ = 0, shift_ = 0;
};

}  // namespace collctl::cmd
