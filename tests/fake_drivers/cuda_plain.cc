// Plain allocations of the fake driver, and their names for other processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fake_drivers/cuda_memory.h"

using namespace fake_cuda;

extern "C" {

int cuMemAlloc_v2(unsigned long long* at, size_t bytes) {
  if (const int code = entry("cuMemAlloc_v2"); code != kOk) return code;
  if (bytes == 0) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  const int ordinal = current()->ordinal;
  if (!take_bytes(ordinal, bytes)) return kOutOfMemory;
  const int fd = memory_file(ordinal, bytes);
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || block == MAP_FAILED) std::abort();  // the test machine itself is out of memory
  std::memset(block, 0xa5, bytes < 4096 ? bytes : 4096);  // nothing promises zeros
  plain_memory()[reinterpret_cast<uintptr_t>(block)] = {ordinal, fd, bytes, false};
  *at = reinterpret_cast<uintptr_t>(block);
  return kOk;
}
int cuMemFree_v2(unsigned long long at) {
  const std::scoped_lock lock(world().mutex);
  const auto found = plain_memory().find(at);
  if (found == plain_memory().end() || found->second.imported) return kInvalidValue;
  world().contexts[found->second.ordinal].used_bytes -= found->second.bytes;
  ::munmap(reinterpret_cast<void*>(at), found->second.bytes);
  ::close(found->second.fd);
  plain_memory().erase(found);
  return kOk;
}

int cuIpcGetMemHandle(IpcBytes* name, unsigned long long at) {
  if (const int code = entry("cuIpcGetMemHandle"); code != kOk) return code;
  const std::scoped_lock lock(world().mutex);
  const auto found = plain_memory().find(at);
  if (found == plain_memory().end()) return kInvalidValue;
  const IpcData data{kIpcMagic, found->second.bytes, ::getpid(), found->second.fd,
                     found->second.ordinal};
  std::memset(name, 0, sizeof *name);
  std::memcpy(name, &data, sizeof data);
  return kOk;
}
int cuIpcOpenMemHandle_v2(unsigned long long* at, IpcBytes name, unsigned) {
  if (const int code = entry("cuIpcOpenMemHandle_v2"); code != kOk) return code;
  IpcData data;
  std::memcpy(&data, &name, sizeof data);
  if (data.magic != kIpcMagic) return kInvalidValue;
  if (data.pid == ::getpid()) return kInvalidContext;  // as the real one: other processes only
  const std::scoped_lock lock(world().mutex);
  if (!world().reaches(current()->ordinal, data.ordinal)) return kPeerUnsupported;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", data.pid, data.fd);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalidHandle;
  void* block = ::mmap(nullptr, data.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (block == MAP_FAILED) {
    ::close(fd);
    return kInvalidHandle;
  }
  plain_memory()[reinterpret_cast<uintptr_t>(block)] = {data.ordinal, fd, data.bytes, true};
  *at = reinterpret_cast<uintptr_t>(block);
  return kOk;
}
int cuIpcCloseMemHandle(unsigned long long at) {
  const std::scoped_lock lock(world().mutex);
  const auto found = plain_memory().find(at);
  if (found == plain_memory().end() || !found->second.imported) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(at), found->second.bytes);
  ::close(found->second.fd);
  plain_memory().erase(found);
  return kOk;
}
}
