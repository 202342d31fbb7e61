// Starting the ranks of a job: here (LocalJob), or on hosts (HostPool, placement, RemoteJob). Used
// by the two kinds of jobs, on their thread; prints nothing, what people should see goes to
// LaunchOptions::talk.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cmd/job/device_choice.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/job.h"
#include "launcher/local/guard.h"
#include "launcher/local/rank_group.h"
#include "launcher/remote/remote_job.h"

namespace collctl::cmd {

struct StartedJob {
  std::unique_ptr<launcher::RankGroup> group;
  launcher::RemoteJob* remote = nullptr;   // the same, when it is on hosts
  std::vector<Host> host_of;               // by rank
  std::vector<std::string> names() const;  // of these hosts, by rank
  std::vector<int> local_rank;             // by rank
  std::vector<int> gpus_of;                // by rank: GPUs of its host; 0: none, or not known
  std::vector<HostGpus> gpus;              // of hosts with ranks of ours, other than this one
  bool one_host = true;                    // all ranks are on one
  bool in_process = false;                 // they are threads, which know their task already
  int only = -1;                           // of all ranks the one that is this process's; -1: all
  std::vector<HostEnd> hosts;              // of a job on hosts: all that were asked for
};

// `program`: null for ranks of ours. The fate of each host stands in `hosts` also on failure.
Result<StartedJob> start_job(const LaunchOptions& options, const std::vector<std::string>* program,
                             Signals& signals, std::vector<HostEnd>& hosts);
// Removes the sockets that a killed launcher of a job on hosts leaves here; its agents end the
// ranks. Null: the job is on this host, or there is none, on which no job depends.
std::unique_ptr<launcher::Guard> launcher_guard(const LaunchOptions& options);

// Whether a rank gets our standard input.
bool reads_stdin(const LaunchOptions& options, int rank);
// A rank has come to a phase or to its end: takes down when a host's ranks are all there.
void note_progress(std::vector<HostEnd>& hosts, const launcher::RankGroup& group, int rank,
                   const std::function<bool(int)>& running, double now_s);
// Brings `hosts` up to date at the end of a job.
void update_hosts(const launcher::HostPool& pool, std::vector<HostEnd>& hosts);
// Hosts that were left out of a job that went well (--allow-missing): code incomplete.
std::optional<Error> left_out(const std::vector<HostEnd>& hosts);
// A note: which hosts got none of the job's ranks, and how to spread these; empty: all have some.
std::string idle_hosts_note(const std::vector<HostEnd>& hosts, int ranks);
// Passes on what agents said on their standard error, with the host before each line.
void forward_talk(launcher::RemoteJob& job, const LaunchOptions& options);

// The options of a pool for these launch options; also for the doctor.
Result<launcher::PoolOptions> pool_options(const LaunchOptions& options);

}  // namespace collctl::cmd
