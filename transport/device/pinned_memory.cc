// Host memory that devices use.
#include <cstring>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/numa.h"
#include "transport/device/device.h"
#include "transport/device/driver.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

Error pin_error(const Device& device, std::string_view what, uint64_t bytes, int code) {
  Error error =
      driver_error(device.text(), format("{} {} bytes of host memory", what, bytes), code);
  if (code == kCudaOutOfMemory)
    error.hint =
        "the host or the container is short of memory (free -m); smaller "
        "buffers (COLLCTL_BUFFSIZE) need less";
  return error;
}

}  // namespace

Result<PinnedMemory> PinnedMemory::make(DevicePointer device, uint64_t bytes) {
  COLL_TRY(device->use());
  const uint64_t size = bytes == 0 ? 1 : bytes;
  void* at = nullptr;
  int made = kCudaSuccess;
  {
    const base::PreferredNode near(base::pci_numa_node(device->facts().bus_id));
    made = cuda().host_allocate(&at, size, kCudaHostPortable | kCudaHostMapped);
  }
  if (made != kCudaSuccess) return pin_error(*device, "allocate and pin", size, made);
  PinnedMemory memory;
  memory.device_ = std::move(device);
  memory.data_ = static_cast<uint8_t*>(at);
  memory.bytes_ = bytes;
  std::memset(at, 0, size);
  return memory;
}

Result<PinnedMemory> PinnedMemory::over(const DevicePointer& device, void* at, uint64_t bytes) {
  COLL_TRY(device->use());
  const Cuda& api = cuda();
  PinnedMemory memory;
  const int pinned = api.host_register(at, bytes, kCudaHostPortable | kCudaHostMapped);
  // Another rank of this process may have pinned it: then it is pinned for all.
  if (pinned != kCudaSuccess && pinned != kCudaAlreadyRegistered)
    return pin_error(*device, "pin", bytes, pinned);
  memory.over_ = true;
  memory.registered_ = pinned == kCudaSuccess;
  memory.device_ = device;
  memory.data_ = static_cast<uint8_t*>(at);
  memory.bytes_ = bytes;
  CudaAddress seen = 0;
  COLL_TRY(
      driver_status(*device, "find the address of pinned memory", api.host_address(&seen, at, 0)));
  if (seen != address_of(at))
    return Error(
        ErrorCode::unavailable,
        format("{} sees host memory at a different address than the host", device->text()),
        "this platform lacks unified addresses for pinned memory; use --transport p2p or net");
  return memory;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept {
  *this = std::move(other);
}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(registered_, other.registered_);
  std::swap(over_, other.over_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr || !device_->use()) return;
  if (!over_)
    cuda().host_free(data_);
  else if (registered_)
    cuda().host_unregister(data_);
}

}  // namespace collctl::transport
