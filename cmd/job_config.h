// What a rank of ours is told: by the launcher in the `config` frame, by the job to its threads,
// and how a job's unique id is made. Threads: values.
#pragma once
#include <memory>
#include <string>

#include "cmd/bench.h"
#include "cmd/job.h"
#include "runtime/bootstrap.h"

namespace collctl::cmd {

struct RankConfig {
  int rank = 0, size = 1;
  int verbosity = 0;
  double start_timeout_s = 60;
  BenchSpec spec;

  std::string to_json() const;
  static Result<RankConfig> from_json(const std::string& text);
};

// The spec with the job's deadlines and verbosity filled in where it leaves them open.
BenchSpec completed(const BenchSpec& spec, const LaunchOptions& options);

// How many ranks, and the cores each is bound to (empty: not bound).
struct LocalPlan {
  int ranks = 0;
  std::vector<std::vector<int>> cores;
};
Result<LocalPlan> plan_local(const LaunchOptions& options);

struct JobRoot {
  runtime::UniqueId id;
  std::unique_ptr<runtime::BootstrapRoot> root;  // lives as long as ranks may check in
};
// For a job whose ranks are all on this host: a new secret, and the root listening on the loopback
// interface, or on the one that SOCKET_IFNAME names.
Result<JobRoot> make_local_root();

// The environment of one rank: the launcher's own without secrets, `exported` (-x) and the
// variables that tell a program its place. Ours (`ours`) also loses COMM_ID: the launcher passes
// the id.
struct RankPlace {
  int rank = 0, size = 1;
  uint16_t master_port = 0;
  bool ours = false;
};
Result<std::vector<std::string>> rank_environment(const RankPlace& place,
                                                  const std::vector<std::string>& exported);
// A free port of the loopback interface, for MASTER_PORT.
Result<uint16_t> free_port();

}  // namespace collctl::cmd
