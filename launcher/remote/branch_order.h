// A launcher's order to an agent that is to carry others (--tree-width), and its reports on them:
// the payloads of AgentFrame::branch and AgentFrame::phase. Values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/remote/host_pool.h"

namespace collctl::launcher {

struct BranchOrder {
  static constexpr const char* kRecord = "order of a branch";
  std::vector<HostSpec> hosts;  // of each what says how to reach it
  PoolOptions options;          // what they say of files holds on the carrier's host
};
void fields(Record& io, BranchOrder& record);

struct BranchPhase {
  static constexpr const char* kRecord = "word about a carried host";
  HostPhase phase = HostPhase::waiting;
  bool deeper = false;         // the carrier has it from another that it carries; so has its client
  std::string client;          // HostLink::client()
  std::optional<Error> error;  // with failed; its message is HostLink::cause()
  Host behind = {};            // with waiting: the host that is to carry it, and is not up yet
};
void fields(Record& io, BranchPhase& record);

}  // namespace collctl::launcher
