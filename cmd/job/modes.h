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
  std::function<Result<std::unique_ptr<Door>>()> open_door;
};
// Ranks as processes, here or on hosts (run.cc).
JobOutcome run_process_job(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
                           const JobGround& ground);
// Ranks as threads of this process (threads.cc); one rank of a foreign job (join.cc).
JobOutcome run_threads(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink);
JobOutcome run_joined(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink);

// The engine's key-value store, by its variables (adopt.cc).
Result<std::unique_ptr<launcher::KeyValueStore>> open_store(launcher::RendezvousKind kind,
                                                            Deadline deadline);

int exit_code_of(const std::optional<Error>& error);
JobOutcome failed_outcome(Error error);
// The log that a rank of ours writes goes to standard error: standard output is the report's.
// `tag`: what stands before each line.
void forward_line(const launcher::Event& event, const std::string& tag);

}  // namespace collctl::cmd
