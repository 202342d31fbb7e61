// LocalJob: ranks as processes of this host. Forks, binds, watches, forwards their output by whole
// lines, ends them. No orphan: every rank gets PDEATHSIG and a process group of its own, the job is
// a subreaper, a guard kills the groups should this process die; end() is SIGTERM, grace, SIGKILL.
// Threads: one, and it must outlive the job (PDEATHSIG follows the thread that forked). One job of
// a process at a time adopts orphans: with several, the first to end kills the others' strays
// too.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/local/rank_group.h"

namespace collctl::launcher {

struct RankProcess {                     // how to start one rank
  std::vector<std::string> argv;         // argv[0] is a path or a name to look up in PATH, unless
  std::string path;                      //   this says what to execute
  std::vector<std::string> environment;  // "NAME=value", complete
  bool control = true;                   // with the control descriptor (kControlFd)
  std::vector<int> cores;                // bind to these; empty: no binding
  bool must_bind = true;                 // else a kernel that forbids it leaves it unbound
  bool null_stdin = true;
};

class LocalJob : public HostRanks {
 public:
  static Result<std::unique_ptr<LocalJob>> start(const std::vector<RankProcess>& ranks);
  ~LocalJob() override;
  int size() const override;
  int pid(int rank) const override;
  Host host(int rank) const override;
  bool running(int rank) const override;
  int running_count() const override;
  Result<std::vector<Event>> wait(Deadline deadline, int wake_fd = -1);
  Result<std::vector<Event>> wait(Deadline deadline, std::span<const int> wake_fds) override;
  Result<std::vector<Event>> wait_with(Deadline deadline, std::span<pollfd> wakes) override;
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
  LocalJob();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::launcher
