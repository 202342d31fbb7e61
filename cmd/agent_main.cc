// The hidden command `__agent`: collctl on a host of a job (launcher/remote/agent.h); with --verify
// HASH only the answer whether this is the binary that was sent.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/version.h"
#include "cmd/check/counters.h"
#include "cmd/doctor/doctor.h"
#include "cmd/job/interrupt.h"
#include "cmd/root_commands.h"
#include "cmd/topo/hosts.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/binary.h"
#include "launcher/remote/probe_service.h"

namespace collctl::cmd {

int verify_main(const std::string& hash, Console& console) {
  auto mine = launcher::file_hash(base::kSelfPath);
  if (!mine) {
    console.print_error(mine.error());
    return int(mine.error().code);
  }
  if (!hash.empty() && mine->rfind(hash, 0) == 0) return 0;
  console.err(format("the file that arrived is not the one that was sent (SHA-256 {})\n", *mine));
  return int(ErrorCode::launch);
}

int agent_main() {
  ::setsid();  // fails for a leader of a group, which then has no terminal of ours either
  ::prctl(PR_SET_NAME, "collctl-agent");
  Interrupts interrupts(false);
  launcher::AgentOptions options;
  options.stop_fd = interrupts.fd();
  options.build = base::kVersion;
  launcher::ProbeService service(base::kVersion);
  options.answer = [&](const std::string& what, const std::string& argument) {
    if (what == kAskTopology) return topology_answer();
    if (what == kAskGpus) return gpus_answer();
    if (what == kAskState) return state_answer();
    if (what == kAskCounters) return counters_answer(argument);
    return service.answer(what, argument);
  };
  options.named = base::call_this_host;
  return launcher::run_agent(options);
}

}  // namespace collctl::cmd
