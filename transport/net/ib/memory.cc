#include "transport/net/ib/memory.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/format.h"
#include "base/host_devices.h"
#include "transport/net/net.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kAccess = kLocalWrite | kRemoteWrite | kRemoteRead;

VerbsMemory* plain(VerbsDomain* domain, void* address, size_t bytes, IbMemory::Order order) {
  const Verbs& api = verbs();
  if (order == IbMemory::Order::relaxed && api.register_memory_at != nullptr)
    return api.register_memory_at(domain, address, bytes, reinterpret_cast<uintptr_t>(address),
                                  unsigned(kAccess | kRelaxedOrdering));
  return api.register_memory(domain, address, bytes, kAccess);
}

}  // namespace

IbMemory& IbMemory::operator=(IbMemory&& other) noexcept {
  std::swap(regions_, other.regions_);
  return *this;
}

void IbMemory::release() {
  for (VerbsMemory* region : regions_) verbs().deregister(region);
  regions_.clear();
}

Result<IbMemory> IbMemory::host(std::span<IbPort* const> ports, void* address, size_t bytes,
                                Order order) {
  IbMemory memory;
  for (const IbPort* port : ports) {
    VerbsMemory* region = plain(port->device->domain(), address, bytes, order);
    if (region == nullptr) {
      Error error = base::errno_error(
          ErrorCode::unavailable,
          format("{}: register {} bytes of memory", port->device->name(), bytes), errno);
      error.hint = "ulimit -l must be unlimited for RDMA (limits.conf, or --ulimit memlock=-1)";
      return error;
    }
    memory.regions_.push_back(region);
  }
  return memory;
}

Result<IbMemory> IbMemory::device(std::span<IbPort* const> ports, const Device& gpu, void* address,
                                  size_t bytes, const IbSettings& settings, Order order,
                                  std::string& how) {
  std::string refused;
  const auto refuse = [&](const std::string& why) {
    refused += (refused.empty() ? "" : "; ") + why;
  };
  if (!settings.dmabuf)
    refuse("no DMA-BUF: COLLCTL_DMABUF_ENABLE is 0");
  else if (verbs().register_dmabuf == nullptr)
    refuse("no DMA-BUF: libibverbs is older than 1.12 (rdma-core 34)");
  else if (auto exported = gpu.export_dmabuf(address, bytes); !exported)
    refuse("no DMA-BUF: " + exported.error().message);
  else {
    IbMemory memory;
    for (const IbPort* port : ports) {
      VerbsMemory* region = verbs().register_dmabuf(port->device->domain(), exported->offset, bytes,
                                                    reinterpret_cast<uintptr_t>(address),
                                                    exported->fd.get(), kAccess);
      if (region == nullptr) {
        refuse(base::errno_error(ErrorCode::unavailable,
                                 "DMA-BUF: " + port->device->name() + " does not support it", errno)
                   .message);
        break;
      }
      memory.regions_.push_back(region);
    }
    how = "DMA-BUF";
    if (memory.regions_.size() == ports.size()) return memory;
  }
  auto memory = host(ports, address, bytes, order);
  const std::string module = base::gpu_peer_memory_module();
  if (memory) {
    how = "peer memory (" + (module.empty() ? "module unknown" : module) + "); " + refused;
    return memory;
  }
  refuse(module.empty() ? "no peer memory module is loaded (modprobe nvidia_peermem)"
                        : module + ": " + memory.error().message);
  return Error(ErrorCode::unavailable, refused);
}

Result<base::Mapping> pages_for_rdma(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return base::errno_error(ErrorCode::unavailable, "memory for RDMA", errno);
  return base::Mapping(at, bytes);
}

bool must_flush(const Device* gpu, const NicGdr& choice, const IbSettings& settings) {
  return gpu != nullptr &&
         (settings.force_flush || needs_flush(gpu->facts().compute_capability, choice));
}

IbMemory::Order data_order(const IbSettings& settings) {
  const bool can = verbs().register_memory_at != nullptr;
  return settings.relaxed_ordering != 0 && can ? IbMemory::Order::relaxed : IbMemory::Order::strict;
}

}  // namespace collctl::transport
