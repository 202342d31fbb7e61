// Tables that kernels of a communicator read in device memory besides the caller's buffers: fifos,
// each with this end's own step, ring orders and pair steps; and how they get there. Private to the
// CUDA executor, which holds its lock around every call.
//
// All of it is written in stream order: the executor puts launches of all streams in one order, so
// what is queued on the next stream overwrites nothing that an earlier kernel still reads.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/contract/fifo.h"
#include "runtime/executor/device_pulse.h"
#include "runtime/links/wire.h"
#include "transport/device/device.h"

namespace collctl::runtime {

// Small pieces of device memory, cut from larger blocks, in sizes of powers of two. A piece that
// was given back is taken again by the next of its size.
class DevicePieces {
 public:
  explicit DevicePieces(transport::DevicePointer device) : device_(std::move(device)) {}
  struct Piece {
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
  };
  // Zero at its first use only. Error: out of memory (unavailable).
  Result<Piece> take(uint64_t bytes);
  void give_back(const Piece& piece);
  uint64_t bytes() const { return held_; }

 private:
  transport::DevicePointer device_;
  std::vector<transport::DeviceMemory> blocks_;
  uint64_t used_ = 0;  // of the last block
  uint64_t held_ = 0;
  std::map<uint64_t, std::vector<uint8_t*>> free_;  // by size
};

// Copies of host memory to the device that need not wait: through a ring of pinned memory. A part
// of the ring is used again when the copies from it are done.
class Uploads {
 public:
  static Result<std::unique_ptr<Uploads>> make(const transport::DevicePointer& device);
  // Polled while an upload waits for the copies before it, in long queues: stop waiting?
  using Aborted = std::function<bool()>;
  // `from` is read before the call returns. Ended by the copies before it, or `aborted` (lost).
  Status upload(const transport::DeviceStream& stream, void* to, const void* from, uint64_t bytes,
                const Aborted& aborted);

 private:
  Uploads() = default;
  struct Part {
    transport::DeviceEvent copied;
    bool in_use = false;  // `copied` was recorded
  };
  Status next_part(const transport::DeviceStream& stream, const Aborted& aborted);
  std::string device_text_;
  transport::PinnedMemory ring_;
  std::vector<Part> parts_;
  size_t part_ = 0;
  uint64_t at_ = 0;  // of the part
};

// The device's copy of the wire's tables: ChannelLinks by channel, for kMaxChannels.
class LinkTables {
 public:
  static Result<LinkTables> make(DevicePieces& pieces, int nranks);
  // Channel 0 has this window, too; before the first launch.
  void use_window(const kernels::Window& window) { host_window_ = window; }
  bool current(const Wire& wire) const { return up_ && links_seen_ == wire.link_count(); }
  // Uploads what the wire has and the device lacks; `pulse` is told of its counters.
  Status update(Wire& wire, DevicePieces& pieces, Uploads& uploads, DevicePulse& pulse,
                const transport::DeviceStream& stream, const Uploads::Aborted& aborted);
  const kernels::ChannelLinks* table() const {
    return reinterpret_cast<const kernels::ChannelLinks*>(table_);
  }
  // By channel, tables in host memory; the fifos lie on the device. Until the next update.
  const kernels::ChannelLinks* host_table() const { return host_table_.data(); }
  // The slot bytes that every fifo of a protocol has at least; 0 where there is none.
  uint32_t least_slot_bytes(kernels::Protocol protocol) const {
    return least_slot_bytes_[size_t(protocol)];
  }

 private:
  struct Channel {
    DevicePieces::Piece memory;            // send pointers, then receive pointers
    std::vector<kernels::Fifo*> pointers;  // the same, as they stand there
  };
  size_t entries() const { return size_t(nranks_) * kernels::kProtocolCount; }
  // Fifos of one side of a channel that are new: their host form, and where their address goes.
  struct Fresh {
    std::vector<kernels::Fifo> fifos;
    std::vector<kernels::Fifo**> places;
    // Each fifo's counter in this rank's own memory: the peer moves it.
    std::vector<const uint64_t*> counters;
  };
  void collect(bool sends, const kernels::ChannelLinks& host, Channel& channel, Fresh& fresh) const;
  Status place(const Fresh& fresh, DevicePieces& pieces, Uploads& uploads, DevicePulse& pulse,
               const transport::DeviceStream& stream, const Uploads::Aborted& aborted);

  int nranks_ = 1;
  uint8_t* table_ = nullptr;
  std::vector<Channel> channels_;
  std::vector<kernels::ChannelLinks> host_table_;
  uint32_t least_slot_bytes_[kernels::kProtocolCount] = {};
  size_t links_seen_ = 0;
  bool up_ = false;                             // the table is on the device
  std::optional<kernels::Window> host_window_;  // until it is there
  kernels::Window* window_ = nullptr;           // on the device
};

}  // namespace collctl::runtime
