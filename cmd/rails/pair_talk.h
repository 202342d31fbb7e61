// The two ends of a pair of hosts in step with each other: what they tell each other over the
// meeting, and the paths that they make between two of their NICs. Used by try_rails() and
// try_memories(). Threads: one.
#pragma once
#include <memory>

#include "cmd/rails/pair.h"

namespace collctl::runtime {

class PairTalk {
 public:
  explicit PairTalk(const RailSide& side) : side_(side) {}
  // A peer that lives is heard of after each step, which may take its whole time and `more_s`; what
  // has passed since then counts. The first end says when the next beat is due. Errors: as the
  // meeting's; lost: the peer's words are malformed.
  Result<Bytes> swap(Bytes mine, double more_s = 0);
  Error unreadable() const;

 private:
  const RailSide& side_;
  int64_t heard_ns_ = now_ns(), beat_ns_ = now_ns();  // of the peer, of all
};

// The part that distinguishes a path from others of its pair of hosts, and what its messages lie
// in.
struct PathPlan {
  uint32_t purpose = 0, number = 0;
  RailMemory memory = {};
  std::shared_ptr<transport::Device> device = {};  // whose memory it may be; null: none
  transport::NicGdr gdr = {};
};
// This end's, from a NIC of one host (by its index) to one of the other.
std::unique_ptr<RailPath> make_path(const RailSide& side, bool sends, size_t mine, size_t theirs,
                                    const PathPlan& plan);

}  // namespace collctl::runtime
