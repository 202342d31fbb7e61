// WindowSpace: the flat range of addresses of one rank, with a slot for each member of its team,
// and what is mapped into it. Made at the first registration of a communicator, used by UserWindows
// on its thread, given back by the destructor.
//
// Slot s lies at base() + s x stride(). Where nothing is mapped an access is a fault: the range is
// reserved, no memory. Errors: unavailable (addresses, mappings or GPU memory run out), lost (a
// peer passed something else than its memory).
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "runtime/window/memory.h"

namespace collctl::runtime {

class WindowSpace {
 public:
  // `device`: for memory of GPUs as this one sees it, else of the host.
  static Result<std::unique_ptr<WindowSpace>> reserve(transport::DevicePointer device, int slots,
                                                      uint64_t stride);
  virtual ~WindowSpace() = default;
  // Segments begin at a multiple of this in a slot.
  static uint64_t alignment_of(uint64_t segment_bytes, bool on_device);
  // All of the own segment, or all of a peer's, at `offset` of a slot.
  virtual Status map(int slot, uint64_t offset, const WindowSegment& own) = 0;
  virtual Status map_fd(int slot, uint64_t offset, int fd, uint64_t bytes, int peer) = 0;
  // The segment of a GPU of another host.
  virtual Status map_fabric(int slot, uint64_t offset, const transport::FabricName& name,
                            uint64_t bytes) = 0;
  virtual Status unmap(int slot, uint64_t offset, uint64_t bytes) = 0;

  uint8_t* base() const { return base_; }
  uint64_t stride() const { return stride_; }

 protected:
  WindowSpace() = default;
  uint8_t* base_ = nullptr;
  uint64_t stride_ = 0;
};

}  // namespace collctl::runtime
