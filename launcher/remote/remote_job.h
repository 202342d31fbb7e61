// RemoteJob: the ranks of a job on the hosts of a pool, each host's behind its agent. Events, input
// and signals travel as frames. A host that is lost becomes one `lost` event for each of its ranks
// that had not ended. Threads: one.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launcher/hosts/placement.h"
#include "launcher/local/rank_group.h"
#include "launcher/remote/host_pool.h"

namespace collctl::launcher {

struct RemoteStart {
  JobPlacement placement;                             // hosts by their index in the pool
  std::vector<AgentRank> ranks;                       // by rank of the job
  std::vector<std::vector<std::string>> environment;  // by host, for all its ranks
  std::vector<std::string> defaults;                  // where a host's own files say nothing
  std::string folder, bind_to;
  double heartbeat_s = 15, grace_s = 5;
};

class RemoteJob : public RankGroup {
 public:
  // All hosts that get ranks must be up; the others are dismissed. Returns when every agent has
  // started its ranks; agents that cannot are one error naming hosts and ranks, and nothing is left
  // running. `stop` is asked at every turn, `wake_fd` hastens it: true ends the start (code
  // interrupted).
  static Result<std::unique_ptr<RemoteJob>> start(std::unique_ptr<HostPool> pool,
                                                  const RemoteStart& what, Deadline deadline,
                                                  int wake_fd, const std::function<bool()>& stop);
  ~RemoteJob() override;
  // This process is about to be stopped: the agents wait so long for its next word.
  Status announce_silence(double seconds);
  const HostPool& pool() const;
  // Notes of agents at the start ("node07: there is no folder ...").
  const std::vector<std::string>& notes() const;
  // Standard error of agents since the last call: (host, text).
  std::vector<std::pair<std::string, std::string>> take_talk();

  int size() const override;
  int pid(int rank) const override;
  Host host(int rank) const override;
  bool running(int rank) const override;
  int running_count() const override;
  Result<std::vector<Event>> wait(Deadline deadline, std::span<const int> wake_fds) override;
  Status keep_alive() override;
  Status send(int rank, FrameType type, ByteView payload, Deadline deadline) override;
  Status write_stdin(int rank, ByteView data, Deadline deadline) override;
  size_t stdin_pending(int rank) const override;
  void close_stdin(int rank) override;
  void signal_all(int signal_number) override;
  void kill(int rank) override;
  void end(double grace_s) override;
  void look() override;
  char state(int rank) const override;

 private:
  RemoteJob();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::launcher
