// Pinned host memory of the fake driver.
#include <cstdlib>
#include <cstring>

#include "tests/fake_drivers/cuda_world.h"

namespace fake_cuda {
namespace {

struct Pinned {
  uint64_t bytes;
  bool allocated;  // here; else registered
};
std::map<uintptr_t, Pinned>& pinned() {  // under the world's mutex
  static auto* instance = new std::map<uintptr_t, Pinned>();
  return *instance;
}

}  // namespace

bool is_pageable(const void* pointer) {
  if (is_of_device(pointer)) return false;
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  auto it = pinned().upper_bound(at);
  return it == pinned().begin() || at - (--it)->first >= it->second.bytes;
}

void count_pinned(Counts& counts) {
  counts.pinned = int(pinned().size());
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

int cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  if (const int code = entry("cuMemHostAlloc"); code != kOk) return code;
  if (bytes == 0) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  if (::posix_memalign(at, 4096, bytes) != 0) return kOutOfMemory;
  std::memset(*at, 0xa5, bytes);  // pinned pages are there when the call returns
  pinned()[reinterpret_cast<uintptr_t>(*at)] = {bytes, true};
  return kOk;
}
int cuMemFreeHost(void* at) {
  const std::scoped_lock lock(world().mutex);
  const auto found = pinned().find(reinterpret_cast<uintptr_t>(at));
  if (found == pinned().end() || !found->second.allocated) return kInvalidValue;
  pinned().erase(found);
  std::free(at);
  return kOk;
}
int cuMemHostRegister_v2(void* at, size_t bytes, unsigned) {
  if (const int code = entry("cuMemHostRegister_v2"); code != kOk) return code;
  if (bytes == 0 || reinterpret_cast<uintptr_t>(at) % 4096 != 0) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  const bool made = pinned().emplace(reinterpret_cast<uintptr_t>(at), Pinned{bytes, false}).second;
  return made ? kOk : kAlreadyRegistered;
}
int cuMemHostUnregister(void* at) {
  const std::scoped_lock lock(world().mutex);
  const auto found = pinned().find(reinterpret_cast<uintptr_t>(at));
  if (found == pinned().end() || found->second.allocated) return kNotRegistered;
  pinned().erase(found);
  return kOk;
}
int cuMemHostGetDevicePointer_v2(unsigned long long* seen, void* at, unsigned) {
  if (const int code = entry("cuMemHostGetDevicePointer_v2"); code != kOk) return code;
  const std::scoped_lock lock(world().mutex);
  if (is_pageable(at)) return kInvalidValue;
  *seen = reinterpret_cast<uintptr_t>(at);
  return kOk;
}
}
