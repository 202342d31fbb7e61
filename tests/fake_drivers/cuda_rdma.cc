// The needs of a network's adapters from the fake driver: descriptors of memory ranges, and whose
// memory stands behind an address. The descriptor is a small file that shows it (fake_verbs/gpu.cc
// reads it).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_drivers/cuda_world.h"

using namespace fake_cuda;

extern "C" {

// There only in the fake: its memory is the host's.
int fake_cuda_memory_is_host_memory() {
  return 1;
}

int cuMemGetHandleForAddressRange(void* handle, unsigned long long at, size_t bytes, int type,
                                  unsigned long long flags) {
  constexpr unsigned long long kHostPage = 4096;
  if (const int code = entry("cuMemGetHandleForAddressRange"); code != kOk) return code;
  if (type != 1 || flags != 0 || bytes == 0 || at % kHostPage != 0 || bytes % kHostPage != 0)
    return kInvalidValue;
  const auto* start = reinterpret_cast<const void*>(at);
  const int ordinal = owner_of(start);
  if (ordinal < 0) return kInvalidValue;
  {
    const std::scoped_lock lock(world().mutex);
    if (!may_use(ordinal, start, bytes)) return kInvalidValue;
  }
  const unsigned long long facts[4] = {0x64666275666b6166ull, at, bytes,
                                       static_cast<unsigned long long>(ordinal)};
  const int fd = ::memfd_create("fake-dmabuf", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, facts, sizeof facts) != ssize_t(sizeof facts)) return kInvalidHandle;
  *static_cast<int*>(handle) = fd;
  return kOk;
}

// 2: the kind of memory (1 host, 2 device); 9: the device's ordinal.
int cuPointerGetAttribute(void* value, int attribute, unsigned long long at) {
  const int ordinal = owner_of(reinterpret_cast<const void*>(at));
  if (ordinal < 0 || (attribute != 2 && attribute != 9)) return kInvalidValue;
  if (attribute == 2)
    *static_cast<unsigned*>(value) = 2;
  else
    *static_cast<int*>(value) = ordinal;
  return kOk;
}
}
