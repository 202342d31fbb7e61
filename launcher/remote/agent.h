// The agent: collctl on each host of a job, started through SSH, speaking agent_protocol.h over two
// descriptors. It starts the ranks of its host (LocalJob), forwards their output, frames and ends,
// and is their guard: when the launcher's end closes, or nothing is heard from it for too long, it
// ends them all and exits. Threads: the calling one only.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/local/local.h"
#include "launcher/ssh/channel.h"

namespace collctl::launcher {

struct AgentOptions {
  int in_fd = 0, out_fd = 1;
  int stop_fd = -1;   // readable: end everything (a signal arrived)
  std::string build;  // version of this binary
  // Requests of the launcher that do not concern ranks: the doctor's. Called on the
  // agent's thread; it should take a few seconds at most.
  std::function<Result<std::string>(const std::string& what, const std::string& argument)> answer;
  // This host as the job has it; told before anything else. Empty: nobody wants to know.
  std::function<void(const Host& host)> named;
  // How ranks are started; empty: as processes (LocalJob).
  std::function<Result<std::unique_ptr<HostRanks>>(const std::vector<RankProcess>&)> start;
  OpenChannel open;  // how hosts of a branch are reached: ChannelOptions::open
};

// Runs until the launcher dismisses it, or is gone. Returns the exit code.
int run_agent(const AgentOptions& options);

}  // namespace collctl::launcher
