// All paths from the NICs of one host to those of another, in one direction: both ends call
// try_rails at the same time. First every path is connected and carries a few small messages, all
// in parallel, so that those that hang cost one time-out together; then the good ones stream
// one after another, so that they do not share a wire.
//
// Threads: the caller's, and while paths are connected one for each.
#pragma once
#include <functional>
#include <vector>

#include "cmd/rails/path.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/links/proxy.h"

namespace collctl::runtime {

struct RailSide {
  Bootstrap* bootstrap = nullptr;
  const RailHost *mine = nullptr, *theirs = nullptr;
  bool sends = false;
  // Where connections to this rank arrive: by NIC, or one for all of them (RDMA ports).
  std::vector<transport::NetAcceptor*> acceptors;
  base::Address theirs_at{};  // the peer's acceptor for RDMA ports
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

// By NIC of the sending host, then of the other; the same on both ends. Errors are the peer's or
// the bootstrap's: then nothing more can be tried.
Result<std::vector<RailResult>> try_rails(const RailSide& side);

}  // namespace collctl::runtime
