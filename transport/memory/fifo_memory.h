// The memory of one connection: a head that says what it is, and for each wanted protocol the
// counters, the slot records and the slots, in one block. Loopback and shm share the block between
// the two ends; the network transport has one block at each end and moves slots between them.
//
// The creator writes the head; whoever maps another's block checks it with
// fifo_memory_check() before using it. Pages are touched only when used. Threads: set-up only.
#pragma once
#include "base/fd.h"
#include "base/result.h"
#include "transport/transport.h"

namespace collctl::transport {

inline constexpr uint32_t kMaxSlots = 4096;
inline constexpr uint32_t kMaxSlotBytes = 1u << 30;

struct FifoPart {
  FifoGeometry geometry;  // slot_bytes 0: not there
  size_t counters = 0;    // byte offsets in the block
  size_t records = 0;
  size_t slots = 0;
};

struct FifoLayout {
  FifoPart parts[kernels::kProtocolCount];
  size_t total_bytes = 0;  // a multiple of the page size
};

constexpr unsigned protocol_bit(kernels::Protocol protocol) {
  return 1u << int(protocol);
}
// Slots: a multiple of 16 bytes each, 128-byte aligned, on a page of their own when large. Those of
// the protocols `elsewhere` (a bit each) are not part of the block. Error usage when a geometry is
// out of bounds or no protocol is wanted.
Result<FifoLayout> fifo_layout(const FifoGeometry (&geometry)[kernels::kProtocolCount],
                               unsigned elsewhere = 0);

// Slots in a GPU's memory that other devices read or write, one protocol's behind the other's: each
// has whole pages of the device, for what has none of them to itself cannot be exported.
struct DeviceSlots {
  unsigned protocols = 0;  // a bit each
  size_t at[kernels::kProtocolCount] = {};
  size_t bytes = 0;
  bool has(kernels::Protocol protocol) const { return (protocols & protocol_bit(protocol)) != 0; }
};
// Device slots for Simple and LL128, as far as wanted. The host packs and unpacks LL's lines.
DeviceSlots device_slots(const FifoGeometry (&geometry)[kernels::kProtocolCount]);
size_t exported_bytes(const FifoGeometry& geometry);

// Zeroed private memory of this process with the head written.
Result<base::Mapping> private_fifo_memory(const FifoLayout& layout);
// Writes the head into a zeroed block.
void fifo_memory_init(void* block, const FifoLayout& layout);
// The block was made for the same layout; else the error says what differs.
Status fifo_memory_check(const void* block, size_t bytes, const FifoLayout& layout);

// One end's view of a part. No thread sleeps in poll on it: bell_fd is -1; none sleeps at all where
// the ranks are GPUs.
kernels::Fifo fifo_end(void* block, const FifoLayout& layout, kernels::Protocol protocol,
                       const LinkSpec& spec);

// Whether the receiving end can read the sender's memory; tried there, which tells the other.
struct Lending {
  bool possible = false;
  std::string why_not = {};  // empty: nobody asked
};
Lending try_lending(const LinkSpec& receiver);
void put_lending(ByteWriter& blob, const Lending& lending);
Lending get_lending(ByteReader& blob);

// A link whose two ends share one block: nothing to progress. `keep` is whatever owns the block.
class MemoryLink : public Link {
 public:
  MemoryLink(void* block, const FifoLayout& layout, const LinkSpec& spec, std::string via,
             std::shared_ptr<void> keep, const Lending& lending);
  kernels::Fifo* fifo(kernels::Protocol protocol) override;
  const std::string& via() const override { return via_; }
  std::string why() const override { return why_; }

 private:
  kernels::Fifo fifos_[kernels::kProtocolCount]{};
  std::string via_, why_;
  std::shared_ptr<void> keep_;
};

}  // namespace collctl::transport
