// Memory of the fake driver: handles (memory files, so that they travel as descriptors between
// processes) and reserved addresses, where pages are mapped without any right until cuMemSetAccess;
// whose memory it is. Plain allocations: cuda_plain.cc.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fake_drivers/cuda_memory.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kPage = 2u << 20;         // granularity
constexpr int kDescriptor = 1, kFabric = 8;  // kinds of handles

struct Handle {
  int ordinal = 0;  // of the device that has the memory
  int fd = -1;
  uint64_t bytes = 0;
  int references = 1;  // the handle itself and its mappings
  bool imported = false;
  int kinds = 0;
};
struct Mapped {
  uint64_t bytes = 0;
  unsigned long long handle = 0;
  std::set<int> access;
};

struct Memory {
  std::map<uintptr_t, Plain> plain;
  std::map<unsigned long long, Handle> handles;
  std::set<unsigned long long> released;  // by their owner; mappings keep them
  unsigned long long next_handle = 1;
  std::map<uintptr_t, uint64_t> reserved;
  std::map<uintptr_t, Mapped> mapped;
};
Memory& memory() {
  static Memory* instance = new Memory();
  return *instance;
}

// The entry whose [key, key + bytes) holds the address.
template <class Map, class Bytes>
auto find_in(Map& map, uintptr_t at, Bytes bytes) {
  auto it = map.upper_bound(at);
  if (it == map.begin()) return map.end();
  --it;
  return at - it->first < bytes(it->second) ? it : map.end();
}
uint64_t plain_bytes(const Plain& p) {
  return p.bytes;
}
uint64_t mapped_bytes(const Mapped& m) {
  return m.bytes;
}

int owner_of_file(int fd) {
  char path[64], target[128] = {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (::readlink(path, target, sizeof target - 1) < 0) return -1;
  int ordinal = -1;
  return std::sscanf(target, "/memfd:fake-gpu-%d", &ordinal) == 1 ? ordinal : -1;
}

void drop(unsigned long long id) {
  Handle& handle = memory().handles.at(id);
  if (--handle.references > 0) return;
  if (!handle.imported) world().contexts[handle.ordinal].used_bytes -= handle.bytes;
  ::close(handle.fd);
  memory().handles.erase(id);
  memory().released.erase(id);
}

}  // namespace

int memory_file(int ordinal, uint64_t bytes) {
  char name[64];
  std::snprintf(name, sizeof name, "fake-gpu-%d", ordinal);
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (::ftruncate(fd, off_t(bytes)) == 0) return fd;
  ::close(fd);
  return -1;
}

bool take_bytes(int ordinal, uint64_t bytes) {
  uint64_t& used = world().contexts[ordinal].used_bytes;
  if (bytes > world().setup.memory_bytes - used) return false;
  used += bytes;
  return true;
}

std::map<uintptr_t, Plain>& plain_memory() {
  return memory().plain;
}

bool may_use(int ordinal, const void* pointer, uint64_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  Memory& m = memory();
  if (const auto plain = find_in(m.plain, at, plain_bytes); plain != m.plain.end())
    return bytes <= plain->second.bytes - (at - plain->first);
  const auto place = find_in(m.reserved, at, [](uint64_t size) { return size; });
  if (place == m.reserved.end()) return true;  // of the host
  const auto mapped = find_in(m.mapped, at, mapped_bytes);
  return mapped != m.mapped.end() && mapped->second.access.contains(ordinal) &&
         bytes <= mapped->second.bytes - (at - mapped->first);
}

bool is_of_device(const void* pointer) {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  Memory& m = memory();
  return find_in(m.plain, at, plain_bytes) != m.plain.end() ||
         find_in(m.reserved, at, [](uint64_t size) { return size; }) != m.reserved.end();
}

int owner_of(const void* pointer) {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  const std::scoped_lock lock(world().mutex);
  Memory& m = memory();
  if (const auto plain = find_in(m.plain, at, plain_bytes); plain != m.plain.end())
    return plain->second.ordinal;
  const auto mapped = find_in(m.mapped, at, mapped_bytes);
  return mapped == m.mapped.end() ? -1 : m.handles.at(mapped->second.handle).ordinal;
}

void count_memory(Counts& counts) {
  const Memory& m = memory();
  for (const auto& [at, plain] : m.plain) ++(plain.imported ? counts.imports : counts.allocations);
  counts.handles = int(m.handles.size());
  counts.reservations = int(m.reserved.size());
  counts.mappings = int(m.mapped.size());
}

}  // namespace fake_cuda

using namespace fake_cuda;

namespace {

struct Location {
  int type, id;
};
struct Allocation {
  int type, handle_types;
  Location location;
  void* win32;
  unsigned char flags[8];
};
struct Access {
  Location location;
  int flags;
};

bool fits(const Allocation* a) {
  const int ordinal = a->location.id - kFirstHandle;
  return a->type == 1 && a->location.type == 1 && ordinal >= 0 && ordinal < world().setup.devices &&
         a->win32 == nullptr;
}

// The memory file that a fabric handle names, in whichever process; -1: it has gone, or is none.
int open_named(const void* name) {
  IpcData data;
  std::memcpy(&data, name, sizeof data);
  if (data.magic != kFabricMagic) return -1;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", data.pid, data.fd);
  return ::open(path, O_RDWR | O_CLOEXEC);
}

}  // namespace

extern "C" {

int cuMemGetAllocationGranularity(size_t* bytes, const Allocation* allocation, int) {
  if (const int code = entry("cuMemGetAllocationGranularity", false); code != kOk) return code;
  if (!fits(allocation)) return kInvalidValue;
  *bytes = kPage;
  return kOk;
}
int cuMemCreate(unsigned long long* id, size_t bytes, const Allocation* allocation,
                unsigned long long flags) {
  if (const int code = entry("cuMemCreate"); code != kOk) return code;
  if (bytes == 0 || bytes % kPage != 0 || flags != 0 || !fits(allocation)) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  const int ordinal = allocation->location.id - kFirstHandle;
  if ((allocation->handle_types & kFabric) != 0) {
    if (!world().setup.fabric) return kNotSupported;
    if (!world().setup.imex) return kNotPermitted;
  }
  if (!take_bytes(ordinal, bytes)) return kOutOfMemory;
  Handle handle;
  handle.kinds = allocation->handle_types;
  handle.ordinal = ordinal;
  handle.bytes = bytes;
  handle.fd = memory_file(ordinal, bytes);
  if (handle.fd < 0) std::abort();
  const unsigned char dirt = 0xa5;
  if (::pwrite(handle.fd, &dirt, 1, 8) != 1) std::abort();
  *id = memory().next_handle++;
  memory().handles[*id] = handle;
  return kOk;
}
int cuMemRelease(unsigned long long id) {
  const std::scoped_lock lock(world().mutex);
  if (!memory().handles.contains(id) || !memory().released.insert(id).second) return kInvalidValue;
  drop(id);
  return kOk;
}
int cuMemExportToShareableHandle(void* to, unsigned long long id, int type, unsigned long long) {
  if (const int code = entry("cuMemExportToShareableHandle"); code != kOk) return code;
  const std::scoped_lock lock(world().mutex);
  const auto found = memory().handles.find(id);
  if (found == memory().handles.end() || (type != kDescriptor && type != kFabric) ||
      (found->second.kinds & type) == 0)
    return kInvalidValue;
  if (type == kFabric) {  // 64 bytes
    const IpcData data{kFabricMagic, found->second.bytes, ::getpid(), found->second.fd,
                       found->second.ordinal};
    std::memset(to, 0, sizeof(IpcBytes));
    std::memcpy(to, &data, sizeof data);
    return kOk;
  }
  const int fd = ::fcntl(found->second.fd, F_DUPFD_CLOEXEC, 0);
  std::memcpy(to, &fd, sizeof fd);
  return fd < 0 ? kInvalidHandle : kOk;
}
int cuMemImportFromShareableHandle(unsigned long long* id, void* descriptor, int type) {
  if (const int code = entry("cuMemImportFromShareableHandle"); code != kOk) return code;
  if (type != kDescriptor && type != kFabric) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  if (type == kFabric && !world().setup.imex) return kNotPermitted;
  const int opened = type == kFabric ? open_named(descriptor) : -1;
  const int fd = type == kFabric ? opened : int(reinterpret_cast<intptr_t>(descriptor));
  struct stat facts {};
  const int ordinal = owner_of_file(fd);
  if (ordinal < 0 || ::fstat(fd, &facts) != 0) {
    if (opened >= 0) ::close(opened);
    return kInvalidValue;
  }
  Handle handle;
  handle.ordinal = ordinal;
  handle.bytes = uint64_t(facts.st_size);
  handle.fd = opened >= 0 ? opened : ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  handle.kinds = type;
  handle.imported = true;
  if (handle.fd < 0) return kInvalidHandle;
  *id = memory().next_handle++;
  memory().handles[*id] = handle;
  return kOk;
}

int cuMemAddressReserve(unsigned long long* at, size_t bytes, size_t, unsigned long long,
                        unsigned long long) {
  if (const int code = entry("cuMemAddressReserve"); code != kOk) return code;
  if (bytes == 0 || bytes % kPage != 0) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  // Aligned as the real one's addresses are.
  auto* raw = static_cast<uint8_t*>(::mmap(nullptr, bytes + kPage, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (raw == MAP_FAILED) return kOutOfMemory;
  const uintptr_t from = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t start = (from + kPage - 1) / kPage * kPage;
  if (start != from) ::munmap(raw, start - from);
  ::munmap(reinterpret_cast<void*>(start + bytes), from + kPage - start);
  memory().reserved[start] = bytes;
  *at = start;
  return kOk;
}
int cuMemAddressFree(unsigned long long at, size_t bytes) {
  const std::scoped_lock lock(world().mutex);
  const auto found = memory().reserved.find(at);
  if (found == memory().reserved.end() || found->second != bytes) return kInvalidValue;
  const auto inside = memory().mapped.lower_bound(at);
  if (inside != memory().mapped.end() && inside->first < at + bytes) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(at), bytes);
  memory().reserved.erase(found);
  return kOk;
}
int cuMemMap(unsigned long long at, size_t bytes, size_t offset, unsigned long long id,
             unsigned long long flags) {
  if (const int code = entry("cuMemMap"); code != kOk) return code;
  const std::scoped_lock lock(world().mutex);
  Memory& m = memory();
  const auto place = find_in(m.reserved, at, [](uint64_t size) { return size; });
  const auto handle = m.handles.find(id);
  if (place == m.reserved.end() || handle == m.handles.end() || m.released.contains(id) ||
      bytes == 0 || bytes % kPage != 0 || at % kPage != 0 || offset != 0 || flags != 0 ||
      bytes > handle->second.bytes || bytes > place->second - (at - place->first))
    return kInvalidValue;
  const auto next = m.mapped.lower_bound(at);
  if (find_in(m.mapped, at, mapped_bytes) != m.mapped.end() ||
      (next != m.mapped.end() && next->first < at + bytes))
    return kInvalidValue;
  void* block = ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                       handle->second.fd, 0);
  if (block == MAP_FAILED) std::abort();
  ++handle->second.references;
  m.mapped[at] = {bytes, id, {}};
  return kOk;
}
int cuMemUnmap(unsigned long long at, size_t bytes) {
  const std::scoped_lock lock(world().mutex);
  const auto found = memory().mapped.find(at);
  if (found == memory().mapped.end() || found->second.bytes != bytes) return kInvalidValue;
  ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  const unsigned long long id = found->second.handle;
  memory().mapped.erase(found);
  drop(id);
  return kOk;
}
int cuMemSetAccess(unsigned long long at, size_t bytes, const Access* access, size_t count) {
  if (const int code = entry("cuMemSetAccess"); code != kOk) return code;
  const std::scoped_lock lock(world().mutex);
  const auto found = memory().mapped.find(at);
  if (found == memory().mapped.end() || found->second.bytes != bytes) return kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    const int ordinal = access[i].location.id - kFirstHandle;
    if (access[i].location.type != 1 || ordinal < 0 || ordinal >= world().setup.devices ||
        access[i].flags != 3)
      return kInvalidValue;
    const int owner = memory().handles.at(found->second.handle).ordinal;
    if (!world().reaches(ordinal, owner)) return kPeerUnsupported;
    found->second.access.insert(ordinal);
  }
  return ::mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE) == 0
             ? kOk
             : kInvalidValue;
}
}
