// Queues of an RDMA device: a completion queue with its channel, and a reliable-connected queue
// pair with its change of states. Thin: sizes are checked against the device, errors name device,
// port and limit. Owned by one connection; threads: one at a time.
#pragma once
#include <span>
#include <string>

#include "base/clock.h"
#include "transport/net/ib/devices.h"
#include "transport/net/ib/wire_blob.h"

namespace collctl::transport {

class IbCompletions {
 public:
  static Result<IbCompletions> make(IbDevice& device, uint32_t entries);
  IbCompletions() = default;
  IbCompletions(IbCompletions&&) noexcept;
  IbCompletions& operator=(IbCompletions&&) noexcept;
  ~IbCompletions();
  base::drivers::VerbsCq* get() const { return cq_; }
  int fd() const { return channel_->fd; }  // readable after arm(), when something completes
  // How many were taken; negative: the adapter no longer responds (gone() has the words).
  int collect(std::span<base::drivers::VerbsCompletion> into) {
    return cq_->context->poll_cq(cq_, int(into.size()), into.data());
  }
  static Error gone();
  Status arm();
  void take_events();  // after the descriptor was readable

 private:
  base::drivers::VerbsChannel* channel_ = nullptr;
  base::drivers::VerbsCq* cq_ = nullptr;
};

struct IbQueueSizes {
  uint32_t sends = 1, receives = 1, inline_bytes = 0;
};

// The path from a queue pair to its peer.
struct IbPath {
  uint32_t peer_qp = 0;
  uint16_t lid = 0;
  uint8_t mtu = 1;  // the smaller code of both ports
  bool global = false;
  base::drivers::VerbsGid gid{};  // of the peer, when global
  uint8_t gid_index = 0;          // of this port, when global
  // RDMA reads in flight at once: that the peer may have here, that this end may have there.
  uint8_t reads_in = 1, reads_out = 1;
};

// A write of one piece by itself, unsignaled; the caller adds where it goes and its id. Fields that
// a write does not use keep their old values: clearing all takes longer than filling in the rest.
inline void begin_write(base::drivers::VerbsSendWork& work, base::drivers::VerbsPiece& piece) {
  work.next = nullptr;
  work.pieces = &piece;
  work.piece_count = piece.bytes == 0 ? 0 : 1;
  work.operation = base::drivers::kOpWrite;
  work.flags = 0;
  work.immediate = 0;
}

// How long to wait for a retired queue pair: an adapter that is gone returns no receives
// back.
inline constexpr int64_t kMostDrainNs = 1'000'000'000;

class IbQueuePair {
 public:
  // In state INIT: receives may be posted. `access`: what the peer may do (kRemoteWrite, ...).
  // `receives`: where they complete; null: where all else does.
  static Result<IbQueuePair> make(const IbPort& port, IbCompletions& completions,
                                  const IbQueueSizes& sizes, int access, const IbSettings& settings,
                                  IbCompletions* receives = nullptr);
  IbQueuePair() = default;
  IbQueuePair(IbQueuePair&&) noexcept;
  IbQueuePair& operator=(IbQueuePair&&) noexcept;
  ~IbQueuePair();
  uint32_t number() const { return qp_->number; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  // To RTR and RTS. Waits for the peer's address to be resolved (RoCE), at most until the deadline.
  Status connect(const IbPort& port, const IbPath& path, const IbSettings& settings,
                 Deadline deadline);
  // A chain of requests. An error is of the request itself or of the queue's room: a defect here.
  Status post_send(base::drivers::VerbsSendWork* first);
  // This many, each for an announcement without data, with few calls.
  Status post_receives(uint64_t id, uint32_t count);
  // Everything that is posted completes as flushed.
  Status retire();

 private:
  base::drivers::VerbsQp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;
  std::string port_;  // its text, in errors
};

// 256 to 4096 bytes.
constexpr int mtu_bytes(int code) {
  return 128 << code;
}

}  // namespace collctl::transport
