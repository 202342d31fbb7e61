// What a launcher tells an agent that is to carry others (--tree-width), and what it hears of them:
// the payloads of AgentFrame::branch and AgentFrame::phase. Values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/remote/host_pool.h"

namespace collctl::launcher {

struct BranchOrder {
  std::vector<HostSpec> hosts;  // of each what says how to reach it
  PoolOptions options;          // what they say of files holds on the carrier's host

  Bytes encode() const;
  static Result<BranchOrder> decode(ByteView payload);
};

struct BranchPhase {
  HostPhase phase = HostPhase::waiting;
  bool deeper = false;         // the carrier has it from another that it carries; so has its client
  std::string client;          // HostLink::client()
  std::optional<Error> error;  // with failed; its message is HostLink::cause()
  Host behind = {};            // with waiting: the host that is to carry it, and is not up yet

  Bytes encode() const;  // what stands behind the host's number
  static Result<BranchPhase> decode(ByteView payload);
};

}  // namespace collctl::launcher
