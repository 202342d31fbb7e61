// A network link whose data another GPU of the host sends (PXN): the GPU that is next to the
// network device, one NVLink away. The memory of the connection lies with the rank that relays:
// counters and LL's lines in memory that both processes map, Simple's and LL128's slots in its
// GPU's memory, which the device reads, or with the rest where the network does not reach GPUs. The
// kernels of the rank whose data it is write there as they do to a link of their own; the relay's
// NetLink, over the same memory, gives it to the network. Nothing is copied on the way.
//
// Threads: set-up as in transport.h; then each side's driver.
#pragma once
#include "transport/device/device.h"
#include "transport/memory/fifo_memory.h"

namespace collctl::transport {

// Owned by the relay's NetLink; by a rank of the same process, whose data it is, as well.
class RelayMemory {
 public:
  // For `spec`: receiving from the rank whose data it is. Errors: unavailable: no memory, or that
  // rank cannot reach this GPU.
  static Result<std::shared_ptr<RelayMemory>> make(const LinkSpec& spec, const Services& services,
                                                   bool on_device, Deadline deadline);
  // At that rank: what the relay's endpoint has described, and pushed.
  static Result<std::shared_ptr<RelayMemory>> take(const LinkSpec& spec, const Services& services,
                                                   ByteView blob, Deadline deadline);

  const FifoLayout& layout() const { return layout_; }
  void* block() const { return mapping_.get(); }
  size_t block_bytes() const { return mapping_.size(); }
  kernels::FifoCounters& counters(int protocol) const;
  const DeviceMemory& slots() const { return slots_; }  // none: all are in the block
  const DeviceSlots& on_device() const { return on_device_; }
  // Rung when the other rank has published something while the relay's driver sleeps.
  int bell() const { return bell_.get(); }

 private:
  friend class RelayOffer;
  Status import(const LinkSpec& spec, const Services& services, ByteView blob, Deadline deadline);

  FifoLayout layout_;
  base::Fd file_;  // of the block, at the relay
  base::Mapping mapping_;
  PinnedMemory pinned_;
  DeviceMemory slots_;
  DeviceSlots on_device_;
  base::Fd bell_;
};

// At the relay: offers the memory, which can be taken as long as this lives. Has no link to make.
Result<std::unique_ptr<Endpoint>> offer_relay(const LinkSpec& spec, const Services& services,
                                              std::shared_ptr<RelayMemory> memory);
// At the rank whose data it is: `spec`: sending to the relay. Its link's driver has nothing to move
// and only wakes the relay's.
Result<std::unique_ptr<Endpoint>> open_relayed(const LinkSpec& spec, const Services& services);

}  // namespace collctl::transport
