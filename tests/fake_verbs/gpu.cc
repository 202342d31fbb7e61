#include "tests/fake_verbs/gpu.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>

#include "tests/fake_verbs/pair.h"

namespace fake_verbs {
namespace {

using DevicePointer = unsigned long long;
constexpr int kMemoryType = 2, kOrdinal = 9;  // CUpointer_attribute
constexpr unsigned kDeviceMemory = 2;         // CUmemorytype
constexpr unsigned kNonBlocking = 1;          // CUstream_flags

struct Driver {
  int (*attribute)(void*, int, DevicePointer) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*make_stream)(void**, unsigned) = nullptr;
  int (*to_device)(DevicePointer, const void*, size_t, void*) = nullptr;
  int (*to_host)(void*, DevicePointer, size_t, void*) = nullptr;
  int (*wait)(void*) = nullptr;
  bool fake = false;

  template <class F>
  static void find(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library, name));
  }
  explicit Driver(void* library) {
    find(library, attribute, "cuPointerGetAttribute");
    find(library, retain, "cuDevicePrimaryCtxRetain");
    find(library, device, "cuDeviceGet");
    find(library, push, "cuCtxPushCurrent_v2");
    find(library, pop, "cuCtxPopCurrent_v2");
    find(library, make_stream, "cuStreamCreate");
    find(library, to_device, "cuMemcpyHtoDAsync_v2");
    find(library, to_host, "cuMemcpyDtoHAsync_v2");
    find(library, wait, "cuStreamSynchronize");
    fake = ::dlsym(library, "fake_cuda_memory_is_host_memory") != nullptr;
  }
};

// The driver that the program itself has loaded; null: none, so no memory is a GPU's.
const Driver* driver() {
  static std::mutex mutex;
  static const Driver* found = nullptr;
  std::lock_guard hold(mutex);
  if (found == nullptr)
    if (void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))
      found = new Driver(library);
  return found;
}

int ordinal_of(const Driver& cuda, DevicePointer at) {
  unsigned type = 0;
  int ordinal = -1;
  if (cuda.attribute == nullptr || cuda.attribute(&type, kMemoryType, at) != 0) return -1;
  if (type != kDeviceMemory || cuda.attribute(&ordinal, kOrdinal, at) != 0) return -1;
  return ordinal;
}

// A stream of one's own: a kernel that runs on another does not hold it up.
void* stream_of(const Driver& cuda, int gpu) {
  static std::mutex mutex;
  static void* streams[64] = {};
  std::lock_guard hold(mutex);
  if (gpu >= 64) return nullptr;
  if (streams[gpu] == nullptr && cuda.make_stream(&streams[gpu], kNonBlocking) != 0) return nullptr;
  return streams[gpu];
}

// Runs `work` with the GPU's primary context.
template <class Work>
bool with_context(int gpu, Work work) {
  const Driver* cuda = driver();
  int device = 0;
  static void* contexts[64] = {};
  if (cuda == nullptr || gpu >= 64 || cuda->device(&device, gpu) != 0) return false;
  if (contexts[gpu] == nullptr && cuda->retain(&contexts[gpu], device) != 0) return false;
  if (cuda->push(contexts[gpu]) != 0) return false;
  void* stream = stream_of(*cuda, gpu);
  const bool done = stream != nullptr && work(*cuda, stream) == 0 && cuda->wait(stream) == 0;
  void* old = nullptr;
  cuda->pop(&old);
  return done;
}

}  // namespace

GpuMemory memory_behind(const void* at) {
  const auto address = reinterpret_cast<uint64_t>(at);
  const Driver* cuda = driver();
  if (cuda == nullptr) return {-1, false, address};
  const int gpu = ordinal_of(*cuda, address);
  return {gpu, gpu >= 0 && !cuda->fake, address};
}

GpuMemory memory_behind(int fd, uint64_t offset, uint64_t bytes, uint64_t iova) {
  uint64_t facts[4] = {};  // of the fake driver: mark, address, bytes, ordinal
  if (::pread(fd, facts, sizeof facts, 0) == ssize_t(sizeof facts) &&
      facts[0] == 0x64666275666b6166ull) {
    if (offset > facts[2] || bytes > facts[2] - offset) return {};
    return {int(facts[3]), false, facts[1] + offset};
  }
  char path[64], target[64] = {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (::readlink(path, target, sizeof target - 1) < 0 || std::strncmp(target, "/dmabuf:", 8) != 0)
    return {};
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size >= 0 && (offset > uint64_t(size) || bytes > uint64_t(size) - offset)) return {};
  const Driver* cuda = driver();
  const int gpu = cuda != nullptr ? ordinal_of(*cuda, iova) : -1;
  return {gpu, true, iova};
}

bool read_memory(const GpuMemory& from, void* to, size_t bytes) {
  if (bytes == 0) return true;
  if (!from.driver) return copy_words(to, reinterpret_cast<const void*>(from.address), bytes), true;
  return with_context(from.gpu, [&](const Driver& cuda, void* stream) {
    return cuda.to_host(to, from.address, bytes, stream);
  });
}

bool write_memory(const GpuMemory& to, const void* from, size_t bytes) {
  if (bytes == 0) return true;
  if (!to.driver) return copy_words(reinterpret_cast<void*>(to.address), from, bytes), true;
  return with_context(to.gpu, [&](const Driver& cuda, void* stream) {
    return cuda.to_device(to.address, from, bytes, stream);
  });
}

}  // namespace fake_verbs
