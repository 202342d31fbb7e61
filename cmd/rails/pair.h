// All paths between the NICs of two hosts: both ends call try_rails at the same time. First every
// path of either direction is connected and carries a few small messages, all in parallel, so that
// those that hang cost one time-out together; then the good ones stream one after another, so that
// they do not share a wire.
//
// Threads: the caller's, and while paths are connected one for each.
#pragma once
#include <functional>
#include <vector>

#include "cmd/rails/meeting.h"
#include "cmd/rails/path.h"
#include "runtime/links/proxy.h"

namespace collctl::runtime {

struct RailSide {
  RailMeeting* meeting = nullptr;
  const RailHost *mine = nullptr, *theirs = nullptr;
  bool first = false;     // of the two directions the first is that in which this end sends
  bool both_ways = true;  // or only the first
  // Where connections to this rank arrive: by NIC, or one for all of them (RDMA ports).
  std::vector<transport::NetAcceptor*> acceptors;
  base::Secret secret{};
  uint64_t comm_hash = 0;
  RailMemory memory;
  double seconds = 0.02;     // of streaming, each
  double timeout_s = 3;      // of a path that hangs
  double op_timeout_s = 30;  // of a peer that does not move
  int roce_version = 2;
  // Called on both ends at the same step, kRailBeatSeconds after the last one at the earliest.
  std::function<Status()> beat;
};
inline constexpr double kRailBeatSeconds = 1;

// By direction (the first, then the other), by NIC of its sending host, then of the other; the same
// on both ends. Errors are the peer's or the meeting's: then nothing more can be tried.
Result<std::vector<std::vector<RailResult>>> try_rails(const RailSide& side);

}  // namespace collctl::runtime
