#include "transport/device/device.h"

#include <algorithm>
#include <cctype>

#include "base/bus_id.h"
#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/device/driver.h"
#include "transport/device/wait.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr double kZeroSeconds = 30;  // far more than any memory takes

Error no_such_device(int ordinal, int count) {
  if (count == 0)
    return {
        ErrorCode::unavailable, "this process sees no GPU",
        "nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES and the container's settings hide them"};
  return {ErrorCode::unavailable,
          count == 1 ? format("there is no GPU {}: this process sees one, GPU 0", ordinal)
                     : format("there is no GPU {}: this process sees {}, GPU 0 to {}", ordinal,
                              count, count - 1),
          "CUDA_VISIBLE_DEVICES, devices= and the container's settings say which GPUs there are"};
}

}  // namespace

MemoryHandle memory_handle(const PeerInfo& self, const PeerInfo& peer, const DeviceFacts& facts) {
  if (self.process_hash == peer.process_hash) return MemoryHandle::pointer;
  return facts.fd_handles ? MemoryHandle::descriptor : MemoryHandle::ipc;
}

Result<int> Device::count() {
  COLL_TRY(start_driver());
  int count = 0;
  const int code = cuda().device_count(&count);
  if (code == kCudaNoDevice || code == 3) return 0;  // 3: cuInit found none
  if (code != kCudaSuccess) return driver_error("the CUDA driver", "count GPUs", code);
  return count;
}

Result<std::shared_ptr<Device>> Device::open(int ordinal) {
  auto opened = open_now(ordinal);
  if (opened) {
    COLL_TRY((*opened)->look_for_fabric());
    return opened;
  }
  Error& error = opened.error();
  if (error.code == ErrorCode::lost)
    error.code = ErrorCode::unavailable;  // it has not worked for us yet
  // CPU ranks do not need the driver, so the hint offers them for every driver error.
  error.hint += format("{}--device cpu runs on cores", error.hint.empty() ? "" : "; ");
  return opened;
}

Result<std::shared_ptr<Device>> Device::open_now(int ordinal) {
  COLL_ASSIGN(const int devices, count());
  if (ordinal < 0 || ordinal >= devices) return no_such_device(ordinal, devices);
  std::shared_ptr<Device> device(new Device());
  device->facts_.ordinal = ordinal;
  const Cuda& api = cuda();
  COLL_TRY(driver_status(*device, "open", api.device(&device->handle_, ordinal)));
  COLL_TRY(device->read_facts());
  const int retained = api.retain_context(&device->context_, device->handle_);
  if (retained != kCudaSuccess) device->context_ = nullptr;
  COLL_TRY(driver_status(*device, "create a context", retained));
  COLL_TRY(device->use());
  COLL_TRY(driver_status(*device, "create a stream",
                         api.stream_create(&device->setup_stream_, kCudaStreamNonBlocking)));
  return device;
}

Status Device::read_facts() {
  const Cuda& api = cuda();
  char text[256] = {};
  COLL_TRY(driver_status(*this, "query its bus", api.bus_id(text, sizeof text, handle_)));
  facts_.bus_id = text;
  std::transform(facts_.bus_id.begin(), facts_.bus_id.end(), facts_.bus_id.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  facts_.bus_number = base::bus_number(facts_.bus_id).value_or(-1);
  if (api.uuid != nullptr && api.uuid(facts_.uuid.data(), handle_) != kCudaSuccess)
    facts_.uuid = {};
  char name[256] = {};
  COLL_TRY(driver_status(*this, "query its name", api.device_name(name, sizeof name - 1, handle_)));
  facts_.name = name;
  int major = 0, minor = 0;
  COLL_TRY(
      driver_status(*this, "query its properties", api.attribute(&major, kCudaMajor, handle_)));
  COLL_TRY(
      driver_status(*this, "query its properties", api.attribute(&minor, kCudaMinor, handle_)));
  facts_.compute_capability = 10 * major + minor;
  COLL_TRY(driver_status(*this, "query its size",
                         api.attribute(&facts_.multiprocessors, kCudaMultiprocessors, handle_)));
  size_t bytes = 0;
  COLL_TRY(driver_status(*this, "query its memory", api.device_memory(&bytes, handle_)));
  facts_.memory_bytes = bytes;
  // A driver that does not know these attributes cannot do it either.
  int virtual_memory = 0, fd_handles = 0;
  facts_.fd_handles = api.has_handles() &&
                      api.attribute(&virtual_memory, kCudaVirtualMemory, handle_) == kCudaSuccess &&
                      api.attribute(&fd_handles, kCudaFdHandles, handle_) == kCudaSuccess &&
                      virtual_memory != 0 && fd_handles != 0;
  return {};
}

// Only where it is wanted an absent one is an error.
Status Device::look_for_fabric() {
  constexpr int kOff = 0, kRequired = 1;
  COLL_ASSIGN(const int64_t wanted, base::knob_int(base::KnobId::mnnvl_enable));
  if (wanted == kOff) return {};
  FoundFabric found = find_fabric(*this);
  facts_.fabric = found.place;
  if (found.place) return {};
  if (wanted == kRequired)
    return Error(ErrorCode::unavailable,
                 format("{}: COLLCTL_MNNVL_ENABLE is 1, but its memory cannot be shared with other "
                        "hosts: {}",
                        text(), found.why_not),
                 "NVLink between hosts needs nvidia-fabricmanager or the NVLink switches' "
                 "software, and nvidia-imex with a channel for this process; 2 uses it where it "
                 "works");
  COLL_INFO(init, "{} : cannot share memory with other hosts over NVLink: {}", text(),
            found.why_not);
  return {};
}

Device::~Device() {
  if (context_ == nullptr) return;
  const Cuda& api = cuda();
  if (setup_stream_ != nullptr && api.set_context(context_) == kCudaSuccess)
    api.stream_destroy(setup_stream_);
  api.release_context(handle_);
}

std::string Device::text() const {
  return facts_.bus_id.empty() ? format("GPU {}", facts_.ordinal)
                               : format("GPU {} ({})", facts_.ordinal, facts_.bus_id);
}

Status Device::use() const {
  return driver_status(*this, "use its context", cuda().set_context(context_));
}

uint64_t Device::free_bytes() const {
  size_t left = 0, total = 0;
  if (!use() || cuda().memory_info(&left, &total) != kCudaSuccess) return 0;
  return left;
}

Result<bool> Device::reaches_handle(int other, const std::string& other_text) const {
  int yes = 0;
  COLL_TRY(driver_status(*this, format("query whether it reaches {}", other_text),
                         cuda().can_access(&yes, handle_, other)));
  if (yes != 0) return true;
  return Error(ErrorCode::unavailable,
               format("{} cannot access the memory of {}", text(), other_text),
               "GPU peer access needs NVLink, or PCI Express without ACS redirection between them "
               "(nvidia-smi topo -p2p rw), and no MIG");
}

Result<bool> Device::reaches(const Device& other) const {
  if (other.handle_ == handle_) return true;
  return reaches_handle(other.handle_, other.text());
}

Result<bool> Device::reaches(const PeerInfo& peer) const {
  if (peer.bus_id == facts_.bus_number) {
    constexpr std::array<uint8_t, 16> kUnknown{};
    const auto theirs = std::to_array(peer.device_uuid);
    if (theirs == facts_.uuid || theirs == kUnknown || facts_.uuid == kUnknown) return true;
    return Error(
        ErrorCode::unavailable,
        format("{} and that of rank {} are instances of one GPU (MIG), which cannot access "
               "each other's memory",
               text(), peer.rank),
        "MIG instances communicate through host memory; without MIG (nvidia-smi -mig 0) "
        "one rank has the whole GPU");
  }
  const std::string bus = base::bus_text(peer.bus_id);
  int other = 0;
  if (cuda().device_by_bus_id(&other, bus.c_str()) != kCudaSuccess) return true;
  return reaches_handle(other, format("the GPU at {}", bus));
}

Status Device::alive() const {
  COLL_TRY(use());
  const std::scoped_lock lock(setup_mutex_);
  const int code = cuda().stream_query(setup_stream_);
  if (code == kCudaSuccess || code == kCudaNotReady) return {};
  Error error = driver_error(text(), "has stopped working", code);
  error.code = ErrorCode::lost;
  return error;
}

Status Device::zero(void* at, uint64_t bytes) const {
  if (bytes == 0) return {};
  COLL_TRY(use());
  const std::scoped_lock lock(setup_mutex_);
  COLL_TRY(driver_status(*this, format("zero {} bytes", bytes),
                         cuda().fill(address_of(at), 0, bytes, setup_stream_)));
  return wait_for_stream(*this, setup_stream_, Deadline::after_seconds(kZeroSeconds));
}

Result<Device::DmaBuf> Device::export_dmabuf(const void* address, size_t bytes) const {
  COLL_TRY(use());
  int can = 0;
  if (cuda().range_handle == nullptr)
    return Error(ErrorCode::unavailable, "the CUDA driver is older than 11.7");
  COLL_TRY(
      driver_status(*this, "query DMA-BUF support", cuda().attribute(&can, kCudaDmaBuf, handle_)));
  if (can == 0)
    return Error(
        ErrorCode::unavailable,
        format("{} lacks it (the driver's open kernel modules and Linux 5.12 are needed)", text()));
  DmaBuf exported;
  int fd = -1;
  Status done =
      driver_status(*this, format("export {} bytes as DMA-BUF", bytes),
                    cuda().range_handle(&fd, address_of(address), bytes, kCudaDmaBufDescriptor, 0));
  if (!done) {
    done.error().code = ErrorCode::unavailable;  // the GPU works without
    return std::move(done.error());
  }
  exported.fd = base::Fd(fd);
  return exported;
}

}  // namespace collctl::transport
