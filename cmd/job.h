// A job: the ranks of one `run`, started here (processes or threads), watched to their end, and
// what became of them. Used by the command handlers; knows the launcher and the bench, prints
// nothing (the sink and the caller do).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/bench.h"
#include "launcher/channel.h"
#include "launcher/hostfile.h"
#include "launcher/placement.h"

namespace collctl::cmd {

enum class LauncherKind : uint8_t { local, ssh, adopt };
enum class Stage : uint8_t { automatic, never, always };

struct LaunchOptions {
  int ranks = 0;  // 0: one per core here; with hosts: every slot, some known only on the hosts
  LauncherKind launcher = LauncherKind::local;
  launcher::HostList hosts;  // ssh: at least one; local: at most one, for its slots
  int per_host = 0;          // -N with hosts; 0: by slots
  launcher::MapBy map_by = launcher::MapBy::slot;
  bool oversubscribe = false;
  int allow_missing = 0;  // hosts that may fail before the ranks start
  launcher::ChannelOptions ssh;
  int fanout = 64;  // hosts connected to at the same time
  Stage stage = Stage::automatic;
  std::string remote_path;              // of the binary on the hosts; HostSpec::path goes first
  std::string bind_to = "none";         // none, core, numa, device
  std::string rank_mode = "process";    // process, thread
  std::vector<std::string> export_env;  // -x NAME, NAME=value or PREFIX*
  double timeout_s = 0;                 // whole job; 0: none
  double start_timeout_s = 60;
  double op_timeout_s = 30;
  double grace_s = 5;
  bool tag_output = false;
  bool gather = false;              // equal outputs once
  std::string output_dir;           // one file per rank
  std::string stdin_mode = "none";  // none, 0, all
  bool dry_run = false;
  // --launcher adopt / --join: this process is one rank of a job that somebody else started.
  std::string join, token_file;
  int join_rank = -1, join_size = 0;
  int verbosity = 0;
};

struct RankEnd {
  int rank = -1;
  std::string host;
  int pid = 0;
  int exit_code = 0, exit_signal = 0;
  std::string phase;           // the last it announced
  std::optional<Error> error;  // what it said itself
};

struct JobOutcome {
  int exit_code = 0;           // by the table of exit codes (before the verdict on data is applied)
  std::optional<Error> error;  // the one to print: the root cause, naming rank, host and what to do
  std::vector<RankEnd> ranks;
  double seconds = 0;
};

// Decides whether this process is one rank of a job that somebody else started: --join, or
// COLLCTL_COMM_ID together with a rank and size in the environment (torchrun's RANK and WORLD_SIZE,
// Open MPI, PMI, Slurm). Then join, join_rank and join_size are filled. `asked` (--launcher adopt):
// not being one is a usage error. run_bench_job does it too; a caller that must know who prints
// (rank 0 alone) does it first.
Status adopt(LaunchOptions& options, bool asked);

// A collective measured by ranks of ours. Rows reach the sink as they come.
JobOutcome run_bench_job(const LaunchOptions& options, const BenchSpec& spec, BenchSink& sink);
// Any program as ranks. Their output goes to our stdout and stderr by whole lines.
JobOutcome run_program_job(const LaunchOptions& options, const std::vector<std::string>& program);
// The hidden command `__rank`: a rank of ours, speaking frames on kControlFd. Returns the exit
// code.
int rank_main();

}  // namespace collctl::cmd
