// Memory that RDMA devices may use: registered with each port's device of a connection. Owned by
// the connection; what is registered belongs to the caller and must outlive this.
#pragma once
#include <vector>

#include "transport/device/device.h"
#include "transport/net/ib/devices.h"
#include "transport/transport.h"

namespace collctl::transport {

class IbMemory {
 public:
  enum class Order : uint8_t { strict, relaxed };
  // Memory of the host, for local reading and writing and the peer's writing. One registration for
  // each of `ports`, in their order.
  static Result<IbMemory> host(std::span<IbPort* const> ports, void* address, size_t bytes,
                               Order order);
  // Memory of a GPU: by a DMA-BUF, else as plain memory, which works where a peer memory module
  // does. Error unavailable: neither works; the message has both reasons. `how` says which was
  // used.
  static Result<IbMemory> device(std::span<IbPort* const> ports, const Device& gpu, void* address,
                                 size_t bytes, const IbSettings& settings, Order order,
                                 std::string& how);
  IbMemory() = default;
  IbMemory(IbMemory&&) noexcept = default;
  IbMemory& operator=(IbMemory&&) noexcept;
  ~IbMemory() { release(); }
  uint32_t local_key(size_t rail) const { return regions_[rail]->lkey; }
  uint32_t remote_key(size_t rail) const { return regions_[rail]->rkey; }

 private:
  void release();
  std::vector<base::drivers::VerbsMemory*> regions_;
};

// Zeroed pages of their own. Error: unavailable.
Result<base::Mapping> pages_for_rdma(size_t bytes);
// `needs_flush`, or the settings have it; null: host memory.
bool must_flush(const Device* gpu, const NicGdr& choice, const IbSettings& settings);

// The order that the settings and the library allow for data.
IbMemory::Order data_order(const IbSettings& settings);

}  // namespace collctl::transport
