// Memory of devices: plain, by handles that travel as descriptors, and side by side in one range.
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "transport/device/device.h"
#include "transport/device/driver.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kMostParts = 1024;  // NVLink domains have 72 GPUs and more

CudaAllocation allocation_on(const Device& device, bool fabric) {
  CudaAllocation allocation;
  allocation.handle_types = kCudaFdHandle | (fabric ? kCudaFabricHandle : 0);
  allocation.location.id = device.handle();
  return allocation;
}

// `bytes` in whole pages of what handles can map.
Result<uint64_t> whole_pages(const Device& device, uint64_t bytes) {
  if (!device.facts().fd_handles)
    return Error(ErrorCode::unavailable,
                 format("{} cannot share memory by descriptors (driver or GPU without virtual "
                        "memory management)",
                        device.text()));
  const CudaAllocation allocation = allocation_on(device, device.facts().fabric.has_value());
  size_t page = 0;
  COLL_TRY(driver_status(device, "query its page size",
                         cuda().granularity(&page, &allocation, kCudaGranularityMinimum)));
  if (page == 0 || bytes > UINT64_MAX - page)
    return Error(ErrorCode::usage, format("{}: {} bytes cannot be mapped", device.text(), bytes));
  return (bytes + page - 1) / page * page;
}

// Puts the memory of a handle at `at`, for the device's kernels.
Status put(const Device& device, CudaAddress at, uint64_t bytes, CudaMemoryHandle handle) {
  const Cuda& api = cuda();
  COLL_TRY(driver_status(device, format("map {} bytes", bytes), api.map(at, bytes, 0, handle, 0)));
  CudaAccess access;
  access.location.id = device.handle();
  const int allowed = api.set_access(at, bytes, &access, 1);
  if (allowed != kCudaSuccess) api.unmap(at, bytes);
  return driver_status(device, format("get access to {} bytes", bytes), allowed);
}

// A descriptor is itself the driver's argument, a name is pointed to.
void* as_argument(int fd) {
  return std::bit_cast<void*>(intptr_t(fd));
}

Result<CudaMemoryHandle> import_handle(const Device& user, const void* passed, int type) {
  CudaMemoryHandle handle = 0;
  const bool fabric = type == kCudaFabricHandle;
  const int code = cuda().handle_import(&handle, const_cast<void*>(passed), type);
  if (code == kCudaSuccess) return handle;
  Error error = driver_error(user.text(),
                             fabric ? "import memory of another host by its fabric handle"
                                    : "import memory that a peer passed as a descriptor",
                             code);
  if (fabric && error.hint.empty())
    error.hint =
        "is nvidia-imex running on both hosts, in one domain (nvidia-imex-ctl -N), and does this "
        "process have the same IMEX channel? COLLCTL_MNNVL_ENABLE=0 turns this off";
  return error;
}

// With a name for other hosts where the device has a fabric; a driver that does not give it for
// this memory gives memory for this host.
int create_shared(const Device& device, uint64_t bytes, CudaMemoryHandle& handle, bool& fabric) {
  fabric = device.facts().fabric.has_value();
  CudaAllocation allocation = allocation_on(device, fabric);
  const int made = cuda().handle_create(&handle, bytes, &allocation, 0);
  if (made == kCudaSuccess || made == kCudaOutOfMemory || !fabric) return made;
  COLL_INFO(init, "{} : {} bytes without a fabric handle: {}", device.text(), bytes,
            driver_word(made));
  fabric = false;
  allocation = allocation_on(device, false);
  return cuda().handle_create(&handle, bytes, &allocation, 0);
}

}  // namespace

Result<DeviceMemory> DeviceMemory::make(DevicePointer device, uint64_t bytes, bool shared) {
  COLL_TRY(device->use());
  const Cuda& api = cuda();
  DeviceMemory memory;
  memory.device_ = std::move(device);
  memory.bytes_ = bytes;
  const Device& gpu = *memory.device_;
  if (shared) {
    COLL_ASSIGN(const uint64_t mapped, whole_pages(gpu, bytes == 0 ? 1 : bytes));
    CudaMemoryHandle handle = 0;
    const int made = create_shared(gpu, mapped, handle, memory.fabric_);
    if (made != kCudaSuccess) return memory_error(gpu, "shared memory", mapped, made);
    COLL_TRY(memory.take_handle(handle, mapped));
    memory.held_ = mapped;
  } else {
    CudaAddress at = 0;
    const int made = api.allocate(&at, bytes == 0 ? 1 : bytes);
    if (made != kCudaSuccess) return memory_error(gpu, "memory", bytes, made);
    memory.data_ = pointer_to(at);
    memory.kind_ = Kind::plain;
    memory.held_ = bytes;
  }
  COLL_TRY(gpu.zero(memory.data_, bytes));
  return memory;
}

// Owns the handle from now on, also when it fails.
Status DeviceMemory::take_handle(uint64_t handle, uint64_t mapped) {
  const Cuda& api = cuda();
  kind_ = Kind::mapped;
  handle_ = handle;
  CudaAddress at = 0;
  COLL_TRY(driver_status(*device_, format("reserve {} bytes of addresses", mapped),
                         api.reserve(&at, mapped, 0, 0, 0)));
  if (Status there = put(*device_, at, mapped, handle); !there) {
    api.unreserve(at, mapped);
    return there;
  }
  data_ = pointer_to(at);
  mapped_ = mapped;
  return {};
}

Result<DeviceMemory> DeviceMemory::import_as(DevicePointer user, const void* passed, int type,
                                             uint64_t bytes) {
  COLL_TRY(user->use());
  COLL_ASSIGN(const uint64_t mapped, whole_pages(*user, bytes == 0 ? 1 : bytes));
  COLL_ASSIGN(const CudaMemoryHandle handle, import_handle(*user, passed, type));
  DeviceMemory memory;
  memory.device_ = std::move(user);
  memory.bytes_ = bytes;
  COLL_TRY(memory.take_handle(handle, mapped));
  return memory;
}

Result<DeviceMemory> DeviceMemory::import(DevicePointer user, int fd, uint64_t bytes) {
  return import_as(std::move(user), as_argument(fd), kCudaFdHandle, bytes);
}

Result<DeviceMemory> DeviceMemory::import_fabric(DevicePointer user, const FabricName& name,
                                                 uint64_t bytes) {
  return import_as(std::move(user), &name, kCudaFabricHandle, bytes);
}

Result<DeviceMemory> DeviceMemory::import_ipc(DevicePointer user, const IpcName& name,
                                              uint64_t bytes) {
  COLL_TRY(user->use());
  CudaIpcHandle handle;
  static_assert(sizeof handle == sizeof name);
  std::memcpy(&handle, name.bytes, sizeof handle);
  CudaAddress at = 0;
  COLL_TRY(driver_status(*user, "open memory of another process",
                         cuda().ipc_open(&at, handle, kCudaIpcLazyPeer)));
  DeviceMemory memory;
  memory.device_ = std::move(user);
  memory.bytes_ = bytes;
  memory.data_ = pointer_to(at);
  memory.kind_ = Kind::ipc;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept {
  *this = std::move(other);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(held_, other.held_);
  std::swap(handle_, other.handle_);
  std::swap(kind_, other.kind_);
  std::swap(fabric_, other.fabric_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (kind_ == Kind::none || !device_->use()) return;
  const Cuda& api = cuda();
  const CudaAddress at = address_of(data_);
  switch (kind_) {
    case Kind::plain:
      api.free(at);
      break;
    case Kind::ipc:
      api.ipc_close(at);
      break;
    default:
      if (data_ != nullptr) {
        api.unmap(at, mapped_);
        api.unreserve(at, mapped_);
      }
      api.handle_release(handle_);
  }
}

Result<base::Fd> DeviceMemory::export_fd() const {
  if (kind_ != Kind::mapped)
    return Error(ErrorCode::defect, "cannot export memory that is not shared");
  COLL_TRY(device_->use());
  int fd = -1;
  COLL_TRY(driver_status(*device_, "export memory as a descriptor",
                         cuda().handle_export(&fd, handle_, kCudaFdHandle, 0)));
  return base::Fd(fd);
}

Result<FabricName> DeviceMemory::export_fabric() const {
  if (kind_ != Kind::mapped)
    return Error(ErrorCode::defect, "cannot export memory to other hosts that is not shared");
  if (!fabric_)
    return Error(ErrorCode::unavailable,
                 format("{}: the driver allocated {} bytes of memory that other hosts cannot map "
                        "(no fabric handle)",
                        device_->text(), bytes_),
                 "COLLCTL_MNNVL_ENABLE=0 keeps windows inside hosts");
  COLL_TRY(device_->use());
  FabricName name;
  COLL_TRY(driver_status(*device_, "export memory to other hosts",
                         cuda().handle_export(&name, handle_, kCudaFabricHandle, 0)));
  return name;
}

Result<IpcName> DeviceMemory::export_ipc() const {
  if (kind_ != Kind::plain)
    return Error(ErrorCode::defect, "cannot export memory to other processes that is not plain");
  COLL_TRY(device_->use());
  CudaIpcHandle handle;
  COLL_TRY(driver_status(*device_, "export memory to other processes",
                         cuda().ipc_export(&handle, address_of(data_))));
  IpcName name;
  std::memcpy(name.bytes, &handle, sizeof name);
  return name;
}

Status DeviceMemory::allow(const Device& user) const {
  if (user.handle() == device_->handle()) return {};
  COLL_TRY(user.use());
  if (kind_ == Kind::mapped) {
    CudaAccess access;
    access.location.id = user.handle();
    return driver_status(user, format("get access to memory of {}", device_->text()),
                         cuda().set_access(address_of(data_), mapped_, &access, 1));
  }
  const int code = cuda().enable_peer(device_->context(), 0);
  if (code == kCudaPeerAlreadyEnabled) return {};
  return driver_status(user, format("get access to memory of {}", device_->text()), code);
}

// --- side by side ---

Result<FlatMemory> FlatMemory::reserve(DevicePointer user, int parts, uint64_t stride) {
  if (parts < 1 || parts > kMostParts)
    return Error(ErrorCode::usage,
                 format("memory of {} ranks side by side: expected 1 to {}", parts, kMostParts));
  COLL_TRY(user->use());
  COLL_ASSIGN(const uint64_t step, whole_pages(*user, stride == 0 ? 1 : stride));
  if (step > UINT64_MAX / uint64_t(parts))
    return Error(ErrorCode::usage, format("{} parts of {} bytes: too much", parts, step));
  FlatMemory flat;
  CudaAddress at = 0;
  COLL_TRY(driver_status(*user, format("reserve {} bytes of addresses", step * uint64_t(parts)),
                         cuda().reserve(&at, step * uint64_t(parts), 0, 0, 0)));
  flat.device_ = std::move(user);
  flat.data_ = pointer_to(at);
  flat.stride_ = step;
  flat.parts_ = parts;
  return flat;
}

FlatMemory::FlatMemory(FlatMemory&& other) noexcept {
  *this = std::move(other);
}

FlatMemory& FlatMemory::operator=(FlatMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(stride_, other.stride_);
  std::swap(parts_, other.parts_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

FlatMemory::~FlatMemory() {
  if (data_ == nullptr || !device_->use()) return;
  const Cuda& api = cuda();
  for (const auto& [from, bytes] : mapped_) api.unmap(address_of(data_) + from, bytes);
  api.unreserve(address_of(data_), uint64_t(parts_) * stride_);
}

Status FlatMemory::map_handle(int part, uint64_t offset, uint64_t handle, uint64_t bytes) {
  const uint64_t from = uint64_t(part) * stride_ + offset;
  const auto after = mapped_.lower_bound(from);
  const bool taken =
      (after != mapped_.end() && after->first < from + bytes) ||
      (after != mapped_.begin() && std::prev(after)->first + std::prev(after)->second > from);
  if (part < 0 || part >= parts_ || offset > stride_ || bytes > stride_ - offset || taken)
    return Error(ErrorCode::defect, format("part {} of {} with {} bytes at {} in a stride of {}",
                                           part, parts_, bytes, offset, stride_));
  COLL_TRY(put(*device_, address_of(data_) + from, bytes, handle));
  mapped_[from] = bytes;
  return {};
}

Status FlatMemory::map(int part, const DeviceMemory& own, uint64_t offset) {
  if (own.kind_ != DeviceMemory::Kind::mapped)
    return Error(ErrorCode::defect, "cannot map memory that is not shared");
  COLL_TRY(device_->use());
  return map_handle(part, offset, own.handle_, own.mapped_);
}

Status FlatMemory::map_fd(int part, int fd, uint64_t bytes, uint64_t offset) {
  return map_imported(part, offset, as_argument(fd), kCudaFdHandle, bytes);
}

Status FlatMemory::map_fabric(int part, const FabricName& name, uint64_t bytes, uint64_t offset) {
  return map_imported(part, offset, &name, kCudaFabricHandle, bytes);
}

Status FlatMemory::map_imported(int part, uint64_t offset, const void* passed, int type,
                                uint64_t bytes) {
  COLL_TRY(device_->use());
  COLL_ASSIGN(const uint64_t mapped, whole_pages(*device_, bytes == 0 ? 1 : bytes));
  COLL_ASSIGN(const CudaMemoryHandle handle, import_handle(*device_, passed, type));
  Status there = map_handle(part, offset, handle, mapped);
  cuda().handle_release(handle);  // the mapping keeps the memory
  return there;
}

Status FlatMemory::unmap(int part, uint64_t offset) {
  const auto found = mapped_.find(uint64_t(part) * stride_ + offset);
  if (found == mapped_.end())
    return Error(ErrorCode::defect, format("part {} has nothing mapped at {}", part, offset));
  COLL_TRY(device_->use());
  COLL_TRY(driver_status(*device_, format("unmap {} bytes", found->second),
                         cuda().unmap(address_of(data_) + found->first, found->second)));
  mapped_.erase(found);
  return {};
}

}  // namespace collctl::transport
