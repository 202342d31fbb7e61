// A job: the ranks of one `run`, started here (processes or threads), watched to their end, and
// what became of them. Used by the command handlers; knows the launcher, and no task of the ranks
// by name; prints nothing (the sink and the caller do).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/measure/task.h"
#include "cmd/text/console.h"
#include "launcher/adopt/adopt.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/hosts/key_value.h"
#include "launcher/hosts/placement.h"
#include "launcher/remote/host_link.h"
#include "launcher/ssh/channel.h"

namespace collctl::cmd {

enum class LauncherKind : uint8_t { ssh, local, adopt };

struct LaunchOptions {
  int ranks = 0;  // 0: one per core here; with hosts: every slot, some known only on the hosts
  LauncherKind launcher = LauncherKind::local;
  bool launcher_named = false;  // by --launcher: no engine's ranks are adopted then
  launcher::HostList hosts;     // ssh: at least one; local: at most one, for its slots
  int per_host = 0;             // -N with hosts; 0: by slots
  launcher::MapBy map_by = launcher::MapBy::slot;
  bool oversubscribe = false;
  int gpus = 0;                // of this host, when its ranks drive them; 0: CPU ranks
  bool gpus_on_hosts = false;  // ranks on other hosts may drive GPUs there
  int allow_missing = 0;       // hosts that may fail before the ranks start
  launcher::ChannelOptions ssh;
  int fanout = 64;     // hosts connected to at the same time
  int tree_width = 0;  // hosts reached from each host of a tree; 0: all from here
  launcher::Staging stage = launcher::Staging::automatic;
  std::string remote_path;              // of the binary on the hosts; HostSpec::path goes first
  std::vector<std::string> binary_for;  // MACHINE=PATH: of binaries here for other hosts
  std::string bind_to;                  // none, core, numa, device; empty: the default
  std::string rank_mode = "process";    // process, thread
  std::vector<std::string> export_env;  // -x NAME, NAME=value or PREFIX*
  double timeout_s = 0;                 // whole job; 0: none
  double start_timeout_s = 60;
  double op_timeout_s = 30;
  double grace_s = 5;
  bool shrink = false;  // --on-loss: a measurement goes on without lost ranks
  bool tag_output = false;
  bool gather = false;              // equal outputs once
  std::string output_dir;           // one file per rank
  std::string stdin_mode = "none";  // none, 0, all
  bool dry_run = false;
  // Where -n may be what nccl-tests means by it: what to write then. Else empty.
  std::string iterations_hint;
  bool ranks_by_gpus = false;  // ranks are those of one process of nccl-tests (-g, -t)
  // --join, or by adopt(): this process is one rank of a job that somebody else started.
  std::string join, token_file;
  int join_rank = -1, join_size = 0;
  int local_ranks = 0;                             // of that job on this host; 0: not told
  int join_local_rank = -1;                        // which of them this is; -1: not told
  bool meet_in_mpi = false;                        // its ranks find each other by MPI (--vs mpi)
  launcher::Rendezvous rendezvous;                 // where its ranks find each other
  std::shared_ptr<launcher::KeyValueStore> store;  // open already: it told rank and size
  bool joins() const { return join_size > 0; }
  int verbosity = 0;
  std::string what;  // the ranks do, in a word, for those who ask the job
  // People see this: while hosts come up a line that is overwritten, and notes. `still` is called
  // once a second while the job runs. May be empty.
  struct Talk {
    std::function<void(const std::string&)> transient, note;
    std::function<void()> still;
  } talk;
};

// A host of a job on hosts, and how far it came.
struct HostEnd {
  Host host;
  std::string phase;   // as launcher::phase_name says
  std::string client;  // how it was reached
  launcher::HostTimes times;
  std::optional<Error> error;
  std::vector<int> ranks;
  // Seconds from the job's start at which all its ranks had come so far; negative: not yet.
  double bootstrapping = -1, running = -1, done = -1;
};

struct RankEnd {
  int rank = -1;
  Host host;
  int pid = 0;
  int exit_code = 0, exit_signal = 0;
  bool ended_by_us = false;    // its end was the job's doing
  uint64_t starved_at = 0;     // as in launcher::Event
  std::string phase;           // the last it announced
  std::optional<Error> error;  // from the rank itself
};

struct JobOutcome {
  int exit_code = 0;           // by the table of exit codes (before the verdict on data is applied)
  std::optional<Error> error;  // the one to print: the root cause, naming rank, host and what to do
  std::vector<RankEnd> ranks;
  std::vector<HostEnd> hosts;  // of a job on hosts
  double seconds = 0;
  // On rank 0 of a joined job: the others end when this goes, after the report is out.
  std::shared_ptr<void> until_reported;
};

// Decides whether this process is one rank of a job that somebody else started: --join, or the
// variables of an engine (launcher/adopt/adopt.h). Then join_rank, join_size and how the ranks find
// each other are filled; joins() says so. With hosts or --launcher ssh or local nothing is adopted;
// with
// --launcher adopt not being such a rank is a usage error. Doing it again changes nothing.
// run_task_job does it too; a caller that must know who prints (rank 0 alone) does it first.
Status adopt(LaunchOptions& options);
// For --vs mpi: lets the ranks of a job that MPI's launcher has started meet by MPI. Error
// unavailable: there is no MPI, or another launcher has started them; it says what to type for
// `command`.
Status adopt_by_mpi(LaunchOptions& options, const std::string& command);
// Tells what the hostfile warns of, and in the shell of an allocation of several hosts, of which a
// job without hosts takes this one alone, how `command` ("check", "run rails") uses all of them.
void note_hosts(const LaunchOptions& options, const std::string& command, Console& console);

// Tells the other ranks of a job that somebody else started that this one cannot take part, when
// it knows so before run_task_job. Takes a few seconds at most; nothing without joins().
void decline_job(const LaunchOptions& options, const Error& why);
template <class T>
Result<T> or_decline(const LaunchOptions& options, Result<T> made) {
  if (!made) decline_job(options, made.error());
  return made;
}

// A task done by ranks of ours. Records reach the sink as they come.
JobOutcome run_task_job(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink);
// Any program as ranks. Their output goes to our stdout and stderr by whole lines.
JobOutcome run_program_job(const LaunchOptions& options, const std::vector<std::string>& program);

}  // namespace collctl::cmd
