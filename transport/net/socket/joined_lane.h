// The owner of a socket that both connections of a pair of ranks use (connection.h). Called as a
// LaneOwner; the ends outlive it or are forgotten.
#pragma once
#include "transport/net/socket/lane.h"

namespace collctl::transport {

// Passes data to the connection that receives, and credit to the one that sends.
class JoinedLane : public LaneOwner {
 public:
  JoinedLane(LaneOwner& sends, LaneOwner& receives) : sends_(&sends), receives_(&receives) {}
  // It is gone.
  void forget(const LaneOwner& owner) {
    if (sends_ == &owner) sends_ = nullptr;
    if (receives_ == &owner) receives_ = nullptr;
  }
  Result<uint8_t*> place(int lane, const WireHeader& header) override {
    if (LaneOwner* const owner = owner_of(header)) return owner->place(lane, header);
    if (header.kind == WireKind::credit && header.bytes == 0) return static_cast<uint8_t*>(nullptr);
    return Error(ErrorCode::lost, "data for a connection that this end has closed");
  }
  void arrived(int lane, const WireHeader& header) override {
    if (LaneOwner* const owner = owner_of(header)) owner->arrived(lane, header);
  }
  void sent(const WireHeader& header) override {
    if (header.kind == WireKind::data && sends_ != nullptr) sends_->sent(header);
  }

 private:
  LaneOwner* owner_of(const WireHeader& header) const {
    return header.kind == WireKind::data ? receives_ : sends_;
  }
  LaneOwner *sends_, *receives_;
};

}  // namespace collctl::transport
