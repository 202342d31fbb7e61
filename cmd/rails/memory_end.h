// One end of a stream between memory of two hosts: as many messages at once as a RailPath has, out
// of the memory that is measured or into it. A GPU's memory is read or written by the NIC where
// that takes it, else copied from or to pinned host memory, as links do (transport/net/net_link.h).
// Threads: one at a time; two ends may run beside each other. Connection and memory outlive the
// end.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "cmd/rails/memory.h"
#include "transport/device/device.h"

namespace collctl::runtime {

// Room for the messages of one direction, in host memory or a GPU's; made when first used.
class MemoryArea {
 public:
  // `device` null: host memory. Error unavailable: there is not that much memory.
  static Result<std::unique_ptr<MemoryArea>> make(transport::DevicePointer device,
                                                  uint32_t message_bytes);
  uint32_t message_bytes() const { return message_bytes_; }
  const transport::DevicePointer& device() const { return device_; }  // null: the host
  // The memory that is measured.
  uint8_t* data(uint32_t slot) const { return data_ + size_t(slot) * message_bytes_; }
  size_t bytes() const { return RailPath::memory_bytes(message_bytes_); }
  // For a GPU's: pinned host memory beside it, of the same size.
  uint8_t* beside(uint32_t slot) const { return pinned_.data() + size_t(slot) * message_bytes_; }
  const transport::DeviceStream& stream() const { return stream_; }
  // All of it, whatever was there. Error: the GPU's.
  Status write(const std::vector<uint8_t>& bytes);
  Status read(std::vector<uint8_t>& bytes) const;

 private:
  uint32_t message_bytes_ = 0;
  transport::DevicePointer device_;
  std::vector<uint8_t> host_;
  transport::DeviceMemory memory_;
  transport::PinnedMemory pinned_;
  transport::DeviceStream stream_;
  uint8_t* data_ = nullptr;
};

class MemoryEnd {
 public:
  static constexpr uint32_t kWindow = RailPath::kWindow;
  // `connection` has RailPath::kStream, and nothing was posted. `forbidden`: why the NIC must not
  // touch the GPU's memory; empty: it may. `seed`: of what is sent, alike on both ends.
  MemoryEnd(transport::NetConnection& connection, MemoryArea& area, bool sends,
            std::string forbidden, uint8_t seed)
      : connection_(connection),
        area_(area),
        sends_(sends),
        seed_(seed),
        forbidden_(std::move(forbidden)) {}
  // Registers the memory; a receiver posts its receives.
  Status prepare(Deadline deadline);
  const MemoryUse& use() const { return use_; }
  // The sender's memory gets what is sent, the receiver's something else all over.
  Status fill();
  // So many messages of so many bytes. Error: deadline, or the network's.
  Status run(uint64_t count, uint32_t bytes, Deadline deadline);
  // The rate of the last run, at a receiver: from the first message's arrival to the last's.
  double GBps() const { return GBps_; }
  // At a receiver: each message that arrived since fill(), of at least kWindow, begins with so many
  // bytes as they were sent, and nothing lies behind them. Error bad_data.
  Status compare(uint32_t bytes) const;

 private:
  bool is_direct() const { return area_.device() == nullptr || use_.way == MemoryWay::direct; }
  uint8_t* wire(uint32_t slot) const { return is_direct() ? area_.data(slot) : area_.beside(slot); }
  uint8_t pattern(size_t slot, size_t at) const;
  Status send(uint64_t end, uint32_t bytes, Deadline deadline);
  Status receive(uint64_t end, uint32_t bytes, Deadline deadline);
  Result<bool> is_copied(uint64_t number) const;
  Status copy(uint64_t number, uint32_t bytes);
  Result<bool> post(uint64_t number, uint32_t bytes);
  Result<bool> post_receives();
  void count_arrival(uint64_t first, uint32_t bytes);

  transport::NetConnection& connection_;
  MemoryArea& area_;
  bool sends_;
  uint8_t seed_;
  std::string forbidden_;
  MemoryUse use_;
  uint64_t memory_ = 0;  // registered
  // Messages so far: slot n % kWindow.
  uint64_t copied_ = 0, posted_ = 0, arrived_ = 0, done_ = 0;
  std::array<transport::NetRequest, kWindow> requests_{};
  std::array<transport::DeviceEvent, kWindow> copies_;
  int64_t first_ns_ = 0;
  double GBps_ = 0;
};

}  // namespace collctl::runtime
