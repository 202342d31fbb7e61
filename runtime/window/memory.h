// Memory that can be registered as a window: users allocate it here, because only memory with a
// handle can be given to other ranks (memfd for CPU ranks, cuMem for GPU ranks). One registry for
// the process: a segment may be registered with several communicators.
//
// Threads: any. Errors: unavailable when there is no such memory left, usage for misuse (the text
// says which: freed already, never allocated here, still registered). Ownership: the caller's, from
// allocate to free; a registration holds the memory, so it is never pulled away under a peer.
#pragma once
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/device/device.h"

namespace collctl::runtime {

// Zeroed; begins on a page of its own. bytes > 0. `device`: of this GPU, else of the host.
Result<void*> allocate_window_memory(uint64_t bytes, transport::DevicePointer device = nullptr);
// `address` as allocate gave it. Refused while a window lies in it.
Status free_window_memory(void* address);

struct WindowMemoryUsage {
  uint64_t segments = 0, bytes = 0;  // of this process, in whole pages
};
WindowMemoryUsage window_memory_usage();

// One allocation. The registry's and the registrations'.
class WindowSegment {
 public:
  ~WindowSegment();
  uint64_t id() const { return id_; }  // never used twice in this process
  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }  // in whole pages: what peers map
  const transport::DevicePointer& device() const { return device_; }  // null: of the host
  const transport::DeviceMemory& device_memory() const { return memory_; }
  // A descriptor for peers: the caller's.
  Result<base::Fd> export_fd() const;

 private:
  friend Result<void*> allocate_window_memory(uint64_t, transport::DevicePointer);
  friend Status free_window_memory(void*);
  friend class WindowHold;
  friend struct SegmentRegistry;
  WindowSegment() = default;
  uint64_t id_ = 0;
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  transport::DevicePointer device_;
  base::Mapping mapping_;  // of the host
  base::Fd fd_;
  transport::DeviceMemory memory_;  // of the device
  int holds_ = 0;                   // under the registry's mutex
};

// A registration's hold on the segment that a range lies in.
class WindowHold {
 public:
  // Errors (usage): memory that was not allocated here, or was freed; a range that ends beyond its
  // allocation.
  static Result<WindowHold> of(const void* address, uint64_t bytes);
  WindowHold() = default;
  WindowHold(WindowHold&&) noexcept = default;
  WindowHold& operator=(WindowHold&&) noexcept;
  ~WindowHold();
  const WindowSegment& segment() const { return *segment_; }

 private:
  void release();
  std::shared_ptr<WindowSegment> segment_;
};

}  // namespace collctl::runtime
