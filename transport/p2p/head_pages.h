// Device memory that can be shared comes in pages of 2 MiB, a sending end needs a few hundred bytes
// of it: many links of a rank have their heads in one page. The page goes when the last of them
// does. Threads: any.
#pragma once
#include <memory>

#include "transport/device/device.h"

namespace collctl::transport {

struct HeadPlace {
  std::shared_ptr<DeviceMemory> page;
  uint64_t page_id = 0;  // random: the same page for whoever maps it
  size_t offset = 0;     // 128-byte aligned, never used before, zeroed
};
// `bytes`: at most a page. Errors as DeviceMemory::make.
Result<HeadPlace> take_heads(const DevicePointer& device, size_t bytes);

// A peer's page as `user` has mapped it already; null when it has not.
std::shared_ptr<DeviceMemory> find_mapped(const Device& user, uint64_t page_id);
void remember_mapped(const Device& user, uint64_t page_id,
                     const std::shared_ptr<DeviceMemory>& page);

}  // namespace collctl::transport
