// Ranks without a process: each is told and tells what a rank of ours does (cmd/rank_main), and
// works with the others of its Team. SimRanks are those of one host, as its agent holds them.
// Threads: the world's.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cmd/job/config.h"
#include "launcher/local/local.h"
#include "tests/sim/world.h"

namespace collctl::sim {

class Team;
class SimRanks;

class SimRank : public std::enable_shared_from_this<SimRank> {
 public:
  SimRank(Team& team, std::string host, int number);

  int number() const { return number_; }
  const std::string& host() const { return host_; }
  int pid() const { return 10'000 + number_; }
  std::string name() const;
  bool exited() const { return exited_; }
  bool stopped() const { return stopped_; }
  // Takes part in the communicator of that generation, and has not failed.
  bool works(int generation) const { return !exited_ && !failed_ && generation_ == generation; }
  int generation() const { return generation_; }
  char state() const { return exited_ ? char(0) : stopped_ ? 'T' : 'S'; }

  // --- from outside ---
  void kill(int signal_number);
  void stop();
  void suspend();  // stops it, and its clock with it (base/stop.h)
  void go_on();

  // --- from the agent ---
  void receive(launcher::FrameType type, ByteView payload);

  // --- from the others ---
  void hears_closed(const SimRank& other);
  void hears_notice(const Error& notice);
  void say_phase(const char* phase);
  void say_data();
  void begins_to_wait();  // somebody does not move; until the deadline
  void is_calm() {
    ++wait_;
    waits_ = false;
  }
  void fail(Error error, bool announce);
  void finish();
  // Does this in so long, unless it is gone; while it is stopped that waits.
  void later(int64_t ns, std::function<void()> what);
  Deadline start_by() const { return start_by_; }
  Deadline connect_by() const { return connect_by_; }

  SimRanks* group = nullptr;  // null: its agent has gone, and it with it

 private:
  friend class SimRanks;
  void on_time(int64_t away_ns, std::function<void()> what);
  void handle(launcher::FrameType type, const Bytes& payload);
  void take_config(const std::string& text);
  void take_roster(const std::string& text);
  void begin();
  void check_in();
  void say(launcher::FrameType type, ByteView payload);
  void say_error();
  void end(int code, int signal_number);
  Error own_wait(int peer, const char* how) const;
  std::optional<Error> cannot_reach(int awaited) const;
  void aborted(Error why);
  void told_to_leave(Error why);

  Team& team_;
  std::string host_;
  int number_;
  bool exited_ = false, stopped_ = false, failed_ = false, begun_ = false, has_id_ = false,
       said_done_ = false;
  int generation_ = -1;  // of its communicator; -1: none yet
  int64_t read_at_ = 0;  // the last of what is on its way to it
  int wait_ = 0;         // what waits in vain knows by it that it is over
  bool waits_ = false;
  cmd::RankConfig config_;
  std::vector<int> members_;
  Deadline start_by_ = Deadline::at_ns(0), connect_by_ = start_by_;
  std::optional<Error> error_, refused_;
  // By how much its clock is behind the world's; and when the present suspension began.
  int64_t away_ns_ = 0;
  std::optional<int64_t> away_since_;
  struct Held {
    int64_t due_ns;  // by its own clock
    std::function<void()> what;
  };
  std::vector<Held> held_;  // while stopped
};

class SimRanks : public launcher::HostRanks {
 public:
  SimRanks(Team& team, std::string host, const std::vector<launcher::RankProcess>& processes);
  ~SimRanks() override;  // its ranks are killed with it
  void add(launcher::Event event);

  int size() const override { return int(ranks_.size()); }
  int pid(int rank) const override { return ranks_[size_t(rank)]->pid(); }
  Host host(int) const override { return {HostId::none, host_}; }
  bool running(int rank) const override { return !ranks_[size_t(rank)]->exited(); }
  int running_count() const override;
  Result<std::vector<launcher::Event>> wait(Deadline deadline,
                                            std::span<const int> wake_fds) override;
  Result<std::vector<launcher::Event>> wait_with(Deadline deadline,
                                                 std::span<pollfd> wakes) override;
  Status keep_alive() override { return {}; }
  Status send(int rank, launcher::FrameType type, ByteView payload, Deadline deadline) override;
  Status write_stdin(int rank, ByteView data, Deadline deadline) override;
  size_t stdin_pending(int) const override { return 0; }
  void close_stdin(int) override {}
  void signal_all(int signal_number) override;
  void kill(int rank) override;
  void end(double grace_s) override;
  void look() override;
  char state(int rank) const override;
  int local_of(const SimRank& rank) const;

 private:
  std::string host_;
  std::vector<std::shared_ptr<SimRank>> ranks_;
  std::deque<launcher::Event> events_;
  base::Fd bell_;  // readable: there are events
  std::optional<Deadline> kill_at_;
  std::string states_;
};

}  // namespace collctl::sim
