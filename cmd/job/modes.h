// The parts of a job that its files share: the other ways to run one, and small common things. Used
// by cmd/job only.
#pragma once
#include <functional>

#include "cmd/job/interrupt.h"
#include "cmd/job/job.h"
#include "cmd/job/status_door.h"
#include "launcher/local/local.h"

namespace collctl::cmd {

// A job takes these from the process that launches it; the simulation (tests/sim) has others.
struct JobGround {
  Signals& signals;
  std::function<Result<std::unique_ptr<Door>>()> open_door;  // null: nobody can ask
};
inline Result<std::unique_ptr<Door>> no_door() {
  return std::unique_ptr<Door>();
}
struct StartedJob;
using StartRanks = std::function<Result<StartedJob>(std::vector<HostEnd>& hosts)>;
// A task on the ranks that `start` starts (run.cc).
JobOutcome run_ranks(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
                     const JobGround& ground, const StartRanks& start);
// One rank of a foreign job (join.cc).
JobOutcome run_joined(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink);

// The engine's key-value store, by its variables (adopt.cc).
Result<std::unique_ptr<launcher::KeyValueStore>> open_store(launcher::RendezvousKind kind,
                                                            Deadline deadline);

int exit_code_of(const std::optional<Error>& error);
JobOutcome failed_outcome(Error error);

}  // namespace collctl::cmd
