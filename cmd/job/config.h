// A rank of ours is told this: by the launcher in the `config` frame, by the job to its threads,
// and how a job's unique id is made. Threads: values.
#pragma once
#include <memory>
#include <string>

#include "base/record.h"
#include "cmd/job/job.h"
#include "cmd/job/token.h"
#include "runtime/bootstrap/bootstrap.h"

namespace collctl::cmd {

struct RankConfig {
  int rank = 0, size = 1;
  Host host;  // the rank's
  int verbosity = 0;
  double start_timeout_s = 60;
  bool one_host = true;            // all ranks are on one: the root may listen on loopback
  std::vector<std::string> hosts;  // by rank, in words; rank 0 alone gets it
  std::string task;                // RankTask::name
  RankSettings settings;
  std::string options;   // the task's
  bool shrinks = false;  // after a loss it waits for a roster

  std::string to_json() const;
  static Result<RankConfig> from_json(const std::string& text);
};

// Survivors of a loss are told this: who goes on, and from where.
struct Roster {
  Continued task;
  double start_timeout_s = 60;
  bool one_host = true;
  std::vector<std::string> hosts = {};  // of the members, in words; the first of them alone gets it
};
void fields(Record& io, Roster& roster);

// The settings with the job's deadlines and verbosity filled in where it leaves them open.
RankSettings completed(const RankSettings& settings, const LaunchOptions& options);

// The settings as a rank gets them that is its host's number `local_rank`: with its GPU. gpus 0:
// not known, the driver will say.
RankSettings for_rank(const RankSettings& settings, int local_rank, int gpus);

// How many ranks, and the cores each is bound to (empty: not bound).
struct LocalPlan {
  int ranks = 0;
  bool must_bind = true;  // where that cannot be done it is an error
  std::vector<std::vector<int>> cores;
};
// `program`: ranks are a program of the user's, of which nobody knows what it computes on.
Result<LocalPlan> plan_local(const LaunchOptions& options, bool program = false);

struct JobRoot {
  runtime::UniqueId id;
  std::unique_ptr<LocalToken> local_token;
  std::unique_ptr<runtime::BootstrapRoot> root;  // lives as long as ranks may check in
};
// A new secret, and the root listening on the interface that SOCKET_IFNAME names; without it on
// loopback when all ranks are on this host, else on the one that NCCL's rules choose.
Result<JobRoot> make_root(bool one_host, std::vector<std::string> hosts);

// The variables that tell a program its place.
struct RankPlace {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1, node = 0;
  std::string master_address;
  uint16_t master_port = 0;
};
std::vector<std::string> place_variables(const RankPlace& place);
// The environment of a rank on this host: the launcher's own without secrets, `exported` (-x) and
// its place. Ours (`ours`) also loses COMM_ID: the launcher passes the id.
Result<std::vector<std::string>> local_environment(const RankPlace& place,
                                                   const std::vector<std::string>& exported,
                                                   bool ours);
// Ranks on other hosts get this of this process's environment: the knobs that are set (secrets and
// COMM_ID left out) and what -x names.
std::vector<std::string> exported_environment(const std::vector<std::string>& exported);

}  // namespace collctl::cmd
