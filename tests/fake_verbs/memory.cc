// Protection domains and registered memory.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/fake_verbs/pair.h"
#include "tests/fake_verbs/refusals.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace fake_verbs {
namespace {

constexpr uint32_t kRemoteBit = 0x80000000u;  // a local key is never also a remote one

uint32_t key_of(int index, uint32_t serial) {
  return uint32_t(index + 1) << 8 | (serial & 0xff);
}

const Device& device_of(const ibv_pd* pd) {
  return world().devices[context_of(pd->context)->device];
}

ibv_mr* add_region(ibv_pd* pd, const GpuMemory& memory, uint64_t bytes, uint64_t iova, int access) {
  const bool by_mover = memory.gpu >= 0 || local().setup().staged;
  if (by_mover) local().need_mover();
  World& w = world();
  auto* domain = reinterpret_cast<Domain*>(pd);
  Locked hold(w.lock);
  for (int i = 0; i < kRegions; ++i) {
    Region& region = w.regions[i];
    if (region.held) continue;
    const uint32_t serial = region.serial.fetch_add(1) + 1;
    region.process = local().process();
    region.device = context_of(pd->context)->device;
    region.domain = domain->number;
    region.access = uint32_t(access);
    region.first = iova;
    region.bytes = bytes;
    region.to_address = int64_t(memory.address - iova);
    region.gpu = memory.gpu;
    region.driver = memory.driver;
    region.by_mover = by_mover;
    region.revoked = false;
    region.held = region.used = true;
    auto* mr = new MemoryRegion{};
    mr->base = {pd->context,
                pd,
                reinterpret_cast<void*>(memory.address),
                bytes,
                uint32_t(i),
                key_of(i, serial),
                key_of(i, serial) | kRemoteBit};
    mr->index = i;
    domain->users.fetch_add(1);
    return &mr->base;
  }
  errno = ENOMEM;
  return nullptr;
}

bool is_mapped(const void* start, size_t bytes) {
  constexpr uint64_t kPage = 4096, kAtOnce = 4096 * kPage;
  std::vector<unsigned char> pages(kAtOnce / kPage);
  const uint64_t end = reinterpret_cast<uint64_t>(start) + bytes;
  for (uint64_t at = reinterpret_cast<uint64_t>(start) / kPage * kPage; at < end; at += kAtOnce)
    if (::mincore(reinterpret_cast<void*>(at), std::min(kAtOnce, end - at), pages.data()) != 0)
      return false;
  return true;
}

bool sensible(ibv_pd* pd, uint64_t first, uint64_t bytes, int access) {
  constexpr int kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_RELAXED_ORDERING;
  if (device_of(pd).broken) {
    errno = EIO;
    return false;
  }
  // Remote rights to change memory need the local one.
  const bool remote_only =
      (access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0;
  if ((access & ~kKnown) != 0 || remote_only || bytes == 0 || first + bytes < first) {
    errno = EINVAL;
    return false;
  }
  if (bytes > device_of(pd).max_region) {
    errno = ENOMEM;
    return false;
  }
  return true;
}

}  // namespace

bool Pinned::pin(uint32_t key, bool remote, const Pair& owner, uint64_t first, uint64_t bytes,
                 uint32_t rights) {
  if (((key & kRemoteBit) != 0) != remote) return false;
  const uint32_t place = (key & ~kRemoteBit) >> 8;
  if (place == 0 || place > uint32_t(kRegions)) return false;
  Region& region = world().regions[place - 1];
  region.pins.fetch_add(1);
  region_ = &region;
  // Pinned first and looked at then: who takes the region away marks first and waits for the pins.
  if (region.used && !region.revoked && (region.serial & 0xff) == (key & 0xff) &&
      region.process == owner.process && region.device == owner.device &&
      region.domain == owner.domain && first >= region.first && bytes <= region.bytes &&
      first - region.first <= region.bytes - bytes && (region.access & rights) == rights)
    return true;
  drop();
  return false;
}

void Pinned::drop() {
  if (region_ != nullptr) region_->pins.fetch_sub(1);
  region_ = nullptr;
}

void copy_words(void* to, const void* from, size_t bytes) {
  [[maybe_unused]] constexpr size_t kLine = 128;
  auto* out = static_cast<uint8_t*>(to);
  const auto* in = static_cast<const uint8_t*>(from);
#ifndef __SANITIZE_THREAD__
  // Large messages: in lines of 128 bytes. A reader that looks into a message before its completion
  // may rely on each line's end, and the message's, coming last.
  if (reinterpret_cast<uint64_t>(out) % 8 == 0)
    for (; bytes > 1024; bytes -= kLine, out += kLine, in += kLine) {
      std::memcpy(out, in, kLine - 8);
      uint64_t end;
      std::memcpy(&end, in + kLine - 8, 8);
      __atomic_store_n(reinterpret_cast<uint64_t*>(out + kLine - 8), end, __ATOMIC_RELEASE);
    }
#endif
  while (bytes > 0 && (reinterpret_cast<uint64_t>(out) % 8 != 0 || bytes < 8)) {
    __atomic_store_n(out++, *in++, __ATOMIC_RELEASE);
    --bytes;
  }
  for (; bytes >= 8; bytes -= 8, out += 8, in += 8) {
    uint64_t word;
    std::memcpy(&word, in, 8);
    __atomic_store_n(reinterpret_cast<uint64_t*>(out), word, __ATOMIC_RELEASE);
  }
  for (; bytes > 0; --bytes) __atomic_store_n(out++, *in++, __ATOMIC_RELEASE);
}

}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (const int error = refused("ibv_alloc_pd"); error != 0) return errno = error, nullptr;
  if (!ours(context, "ibv_alloc_pd")) return errno = EPERM, nullptr;
  auto* domain = new Domain{};
  domain->base.context = context;
  domain->number = world().next_domain.fetch_add(1);
  context_of(context)->users.fetch_add(1);
  my_row().domains.fetch_add(1);
  return &domain->base;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  if (!ours(pd->context, "ibv_dealloc_pd")) return EPERM;
  auto* domain = reinterpret_cast<Domain*>(pd);
  if (domain->users != 0) return EBUSY;
  context_of(pd->context)->users.fetch_sub(1);
  my_row().domains.fetch_sub(1);
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  if (const int error = refused("ibv_reg_mr"); error != 0) return errno = error, nullptr;
  if (!ours(pd->context, "ibv_reg_mr")) return errno = EPERM, nullptr;
  if (!sensible(pd, iova, length, int(access))) return nullptr;
  const GpuMemory memory = memory_behind(addr);
  // Without the GPU vendor's kernel module the address means nothing to an adapter.
  if (memory.gpu >= 0 && !device_of(pd).peermem) return errno = EFAULT, nullptr;
  if (!memory.driver && !is_mapped(addr, length)) return errno = EFAULT, nullptr;
  return add_region(pd, memory, length, iova, int(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return ibv_reg_mr_iova2(pd, addr, length, iova, unsigned(access));
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return ibv_reg_mr_iova2(pd, addr, length, reinterpret_cast<uint64_t>(addr), unsigned(access));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  if (const int error = refused("ibv_reg_dmabuf_mr"); error != 0) return errno = error, nullptr;
  if (!ours(pd->context, "ibv_reg_dmabuf_mr")) return errno = EPERM, nullptr;
  if (!device_of(pd).dmabuf) return errno = EOPNOTSUPP, nullptr;
  if (!sensible(pd, iova, length, access)) return nullptr;
  if ((offset & 4095) != (iova & 4095)) return errno = EINVAL, nullptr;
  const GpuMemory memory = memory_behind(fd, offset, length, iova);
  if (memory.gpu < 0) return errno = EINVAL, nullptr;
  return add_region(pd, memory, length, iova, access);
}

int ibv_dereg_mr(ibv_mr* base) {
  if (!ours(base->context, "ibv_dereg_mr")) return EPERM;
  auto* mr = reinterpret_cast<MemoryRegion*>(base);
  Region& region = world().regions[mr->index];
  region.used = false;
  // Transfers under way finish first. One whose process was killed never reports.
  const uint64_t deadline = now_ns() + 2'000'000'000;
  while (region.pins != 0 && now_ns() < deadline) sched_yield();
  region.pins = 0;
  // Nothing may land there afterwards.
  if (region.by_mover) move_by(region.process, {region.gpu, false, 0}, nullptr, 0, true);
  {
    const Locked hold(world().lock);
    region.held = false;
  }
  reinterpret_cast<Domain*>(base->pd)->users.fetch_sub(1);
  delete mr;
  return 0;
}

}  // extern "C"
