#include "runtime/window/space.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/format.h"
#include "base/host_facts.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kLargePage = 2 << 20;
constexpr const char* kStrideHint =
    "COLLCTL_WINDOW_STRIDE sets the bytes of address space of each rank";

Error no_addresses(uint64_t bytes, int error) {
  Error e = base::errno_error(ErrorCode::unavailable,
                              format("reserve {} bytes of addresses for windows", bytes), error);
  e.hint = kStrideHint;
  return e;
}

class HostSpace : public WindowSpace {
 public:
  static Result<std::unique_ptr<WindowSpace>> reserve(int slots, uint64_t stride) {
    const uint64_t bytes = uint64_t(slots) * stride;
    void* at =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return no_addresses(bytes, errno);
    std::unique_ptr<HostSpace> space(new HostSpace);
    space->range_ = base::Mapping(at, bytes);
    space->base_ = static_cast<uint8_t*>(at);
    space->stride_ = stride;
    return Result<std::unique_ptr<WindowSpace>>(std::move(space));
  }

  Status map(int slot, uint64_t offset, const WindowSegment& own) override {
    COLL_ASSIGN(const base::Fd fd, own.export_fd());
    return put(slot, offset, fd.get(), own.bytes());
  }
  Status map_fd(int slot, uint64_t offset, int fd, uint64_t bytes, int peer) override {
    COLL_TRY(check_shared_file(fd, bytes, peer));
    return put(slot, offset, fd, bytes);
  }
  Status map_fabric(int, uint64_t, const transport::FabricName&, uint64_t) override {
    return Error(ErrorCode::defect, "memory of another host for CPU ranks");
  }
  // Addresses stay reserved.
  Status unmap(int slot, uint64_t offset, uint64_t bytes) override {
    void* at = ::mmap(address(slot, offset), bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at != MAP_FAILED) return {};
    return base::errno_error(ErrorCode::unavailable, format("unmap {} bytes of a window", bytes),
                             errno);
  }

 private:
  HostSpace() = default;
  uint8_t* address(int slot, uint64_t offset) const {
    return base_ + uint64_t(slot) * stride_ + offset;
  }
  Status put(int slot, uint64_t offset, int fd, uint64_t bytes) {
    // With its page tables: operations take no page faults later.
    void* at = ::mmap(address(slot, offset), bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0);
    if (at != MAP_FAILED) return {};
    const int why = errno;
    Error e =
        base::errno_error(ErrorCode::unavailable, format("map {} bytes of a window", bytes), why);
    if (why == ENOMEM) e.hint = "vm.max_map_count limits how many mappings a process may have";
    return e;
  }
  base::Mapping range_;
};

class DeviceSpace : public WindowSpace {
 public:
  static Result<std::unique_ptr<WindowSpace>> reserve(transport::DevicePointer device, int slots,
                                                      uint64_t stride) {
    auto flat = transport::FlatMemory::reserve(std::move(device), slots, stride);
    if (!flat) {
      if (flat.error().hint.empty()) flat.error().hint = kStrideHint;
      return std::move(flat.error());
    }
    std::unique_ptr<DeviceSpace> space(new DeviceSpace);
    space->flat_ = std::move(*flat);
    space->base_ = space->flat_.data();
    space->stride_ = space->flat_.stride();
    return Result<std::unique_ptr<WindowSpace>>(std::move(space));
  }
  Status map(int slot, uint64_t offset, const WindowSegment& own) override {
    return flat_.map(slot, own.device_memory(), offset);
  }
  Status map_fd(int slot, uint64_t offset, int fd, uint64_t bytes, int) override {
    return flat_.map_fd(slot, fd, bytes, offset);
  }
  Status map_fabric(int slot, uint64_t offset, const transport::FabricName& name,
                    uint64_t bytes) override {
    return flat_.map_fabric(slot, name, bytes, offset);
  }
  Status unmap(int slot, uint64_t offset, uint64_t) override { return flat_.unmap(slot, offset); }

 private:
  DeviceSpace() = default;
  transport::FlatMemory flat_;
};

}  // namespace

uint64_t WindowSpace::alignment_of(uint64_t segment_bytes, bool on_device) {
  return on_device || segment_bytes >= kLargePage ? kLargePage : base::page_bytes();
}

Result<std::unique_ptr<WindowSpace>> WindowSpace::reserve(transport::DevicePointer device,
                                                          int slots, uint64_t stride) {
  if (slots < 1 || stride == 0 || stride > UINT64_MAX / 2 / uint64_t(slots))
    return Error(ErrorCode::usage,
                 format("windows of {} ranks with {} bytes of addresses each", slots, stride));
  if (device != nullptr) return DeviceSpace::reserve(std::move(device), slots, stride);
  return HostSpace::reserve(slots, stride);
}

}  // namespace collctl::runtime
