// HostPool: the hosts of a job, brought up at the same time over one poll loop, each with an agent
// that speaks frames (agent_protocol.h). Knows nothing of ranks: RemoteJob and the doctor stand on
// it. Threads: one. The destructor lets the agents go, which ends whatever they still run.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launcher/remote/host_link.h"

namespace collctl::launcher {

struct PoolOptions {
  ChannelOptions ssh;
  StageOptions stage;
  std::map<std::string, std::string> binary_for;  // by machine: a file here, for hosts like that
  int fanout = 64;          // hosts that are being connected to at the same time
  double heartbeat_s = 15;  // a host that sends nothing for this long is lost
  bool always_ssh = false;  // also for names of this host
  // So many hosts are connected to from here; the agents there reach so many further ones each, and
  // so on. 0: all are connected to from here.
  int tree_width = 0;
  bool in_agent = false;  // the pool is one of an agent, which carries its hosts
};

class HostPool {
 public:
  // Nothing is connected yet: turn() does it.
  static Result<std::unique_ptr<HostPool>> make(const std::vector<HostSpec>& hosts,
                                                const PoolOptions& options);
  ~HostPool();
  int size() const;
  HostLink& host(int index);
  const HostLink& host(int index) const;
  // Moves everything once; waits until the deadline for something to move. True when something may
  // have changed; false at the deadline or when a wake descriptor is readable.
  Result<bool> turn(Deadline deadline, std::span<const int> wake_fds);
  // The same in two halves, for a poll loop of somebody else's; progress() is due at the deadline.
  Deadline add_interest(std::vector<pollfd>& fds);
  void progress();
  // No host is still starting: each is up or has failed.
  bool settled() const;
  std::vector<int> failed() const;
  // The host through which this one is reached, or waits to be; nobody: from here.
  Host carrier_of(int index) const;
  // Fails every host that is still starting, naming the phase it is in; `option` set the limit.
  void fail_late_hosts(double after_s, const char* option = "--start-timeout");
  // Only these are needed: the others are dismissed, but for those that carry one that is.
  void keep(const std::vector<int>& hosts);
  // This process will not speak for so long (a person stops it): the agents wait. The next turns
  // say again what holds otherwise.
  Status announce_silence(double seconds);
  // For how long this process did not run, if that was in the last moments and longer than agents
  // wait (a stop, a machine that slept): what they then did is no fault of theirs. 0: nothing such.
  double absence_s() const;
  Error absence_error() const;  // code lost
  // Dismisses all agents and waits for them until the deadline.
  void leave(Deadline deadline);
  // Closes all connections as they are: agents that hear no `leave` end what they run.
  void abandon();
  // One error for all hosts that failed, each with its cause. Code launch.
  Error failure(const std::vector<int>& hosts) const;

 private:
  HostPool();
  struct State;
  std::unique_ptr<State> state_;
};

// "3 hosts WHAT" with each one's error below, the worst one's code, and a hint that all share.
Error one_error(const std::string& what, const std::vector<Error>& errors);

// It names whatever host it is said on.
bool is_loopback_name(const std::string& name);

// "localhost", the host's own name and its addresses (127.0.0.0/8 as well), unless the entry says
// more than that.
bool is_this_host(const HostSpec& spec);

}  // namespace collctl::launcher
