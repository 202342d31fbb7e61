#include "launcher/local/local.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/log.h"
#include "base/socket_folder.h"
#include "launcher/local/descendants.h"
#include "launcher/local/guard.h"
#include "launcher/local/rank_state.h"

namespace collctl::launcher {
namespace {

constexpr double kExecSeconds = 60;      // fork to exec, all ranks, on a loaded machine
constexpr double kLocalKillSeconds = 5;  // SIGKILL to gone; only uninterruptible sleep takes longer
constexpr int64_t kSweepMs = 1000;       // how often dead strays are reaped
constexpr int64_t kNoPidfdPollMs = 20;   // where the kernel cannot tell us of an exit

// This side's and the child's ends of three pipes and the control socket, the duplicates while they
// are moved, the guard, and what the process has open already.
constexpr uint64_t kFdsPerRank = 6, kFdsSpare = 64;

}  // namespace

struct LocalJob::State {
  std::vector<std::unique_ptr<RankState>> ranks;
  std::unique_ptr<Guard> guard;
  Strays strays;
  rlimit files{};  // as it was: the ranks get it back
  std::optional<Deadline> kill_at;
  Deadline sweep_at = Deadline::after_ms(kSweepMs);
  bool continue_again = false;
  std::vector<pollfd> polled;
  std::vector<char> states;                      // by rank, as of the last look
  uint64_t memory_kills = base::memory_kills();  // that are known of

  Status start(const std::vector<RankProcess>& processes);
  Status check_file_limit(size_t count);
  Result<bool> turn(Deadline deadline, std::span<pollfd> wakes, std::vector<Event>& events);
  bool handle_ranks(std::vector<Event>& events);
  void kill_if_due();
  void sweep();
  void kill_everything();
  bool all_exited() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const auto& r) { return r->exited(); });
  }
};

LocalJob::LocalJob() : state_(std::make_unique<State>()) {}

LocalJob::~LocalJob() {
  state_->kill_everything();
  base::tidy_socket_folders();  // those who were killed have left their sockets
}

Status LocalJob::State::check_file_limit(size_t count) {
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0)
    return base::errno_error(ErrorCode::defect, "read the open-file limit", errno);
  const uint64_t limit = base::raise_open_file_limit();
  const uint64_t needed = count * kFdsPerRank + kFdsSpare;
  if (needed <= limit) return {};
  std::string hint = "raise it (ulimit -Hn, or LimitNOFILE of the service)";
  if (limit >= kFdsSpare + kFdsPerRank)
    hint += format(", or start at most {} ranks", (limit - kFdsSpare) / kFdsPerRank);
  return Error(
      ErrorCode::unavailable,
      format("{} ranks need {} open files in the launcher, the limit is {}", count, needed, limit),
      std::move(hint));
}

Status LocalJob::State::start(const std::vector<RankProcess>& processes) {
  COLL_TRY(check_file_limit(processes.size()));
  COLL_ASSIGN(guard, Guard::start(processes.size()));
  const auto place = [&](size_t rank) {
    return format("start rank {} of {}", rank, processes.size());
  };
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    auto child = spawn(processes[rank], files);
    if (!child) return std::move(child.error()).within(place(rank)).blame(int(rank));
    own_child(child->pid);
    ranks.push_back(std::make_unique<RankState>(int(rank), std::move(*child)));
    COLL_TRY_IN(guard->add(ranks.back()->pid()), "guard process");
  }
  const Deadline deadline = Deadline::after_seconds(kExecSeconds);
  for (const auto& rank : ranks)
    if (auto status = exec_result(rank->child(), deadline); !status)
      return std::move(status.error()).within(place(size_t(rank->rank()))).blame(rank->rank());
  return {};
}

Result<std::unique_ptr<LocalJob>> LocalJob::start(const std::vector<RankProcess>& processes) {
  std::unique_ptr<LocalJob> job(new LocalJob);
  Status status = job->state_->start(processes);
  if (!status) {
    status.error().on(base::this_host());
    return std::move(status.error());  // the job's destructor ends what was started
  }
  return job;
}

int LocalJob::size() const {
  return int(state_->ranks.size());
}

int LocalJob::pid(int rank) const {
  return state_->ranks.at(size_t(rank))->pid();
}

Host LocalJob::host(int) const {
  return base::this_host();
}

void LocalJob::look() {
  state_->states.resize(state_->ranks.size(), 0);
  for (const auto& rank : state_->ranks)
    state_->states[size_t(rank->rank())] = rank->exited() ? 0 : base::process_state(rank->pid());
}

char LocalJob::state(int rank) const {
  return state_->states.empty() ? '?' : state_->states.at(size_t(rank));
}

bool LocalJob::running(int rank) const {
  return !state_->ranks.at(size_t(rank))->exited();
}

int LocalJob::running_count() const {
  return int(std::count_if(state_->ranks.begin(), state_->ranks.end(),
                           [](const auto& r) { return !r->exited(); }));
}

void LocalJob::State::kill_if_due() {
  if (!kill_at || !kill_at->passed()) return;
  for (const auto& rank : ranks) rank->signal_group(SIGKILL);
  strays.signal_all(SIGKILL);
  kill_at.reset();
}

// True when a rank has taken all input that was queued for it: the caller may have more.
bool LocalJob::State::handle_ranks(std::vector<Event>& events) {
  bool fed = false;
  for (const auto& rank : ranks) {
    const bool hungry = rank->stdin_pending() > 0;
    const bool ended = rank->handle(events);
    if (ended && events.back().exit_signal == SIGKILL && base::memory_kills() > memory_kills) {
      ++memory_kills;
      events.back().starved_at = base::cgroup_limits().memory_bytes.value_or(base::kUnlimited);
    }
    fed = fed || (hungry && rank->stdin_pending() == 0);
    if (!ended) continue;
    disown_child(rank->pid());
    // A guard that is gone cannot be told; then PDEATHSIG alone guards the ranks.
    if (rank->group_gone() && !guard->remove(rank->pid()).ok())
      COLL_WARN("the guard process is gone");
  }
  return fed;
}

void LocalJob::State::sweep() {
  static_cast<void>(strays.list());  // reaps the dead ones
  sweep_at = Deadline::after_ms(kSweepMs);
  // Ranks of ours stop in a handler: the first SIGCONT may have come when one was about to.
  if (!std::exchange(continue_again, false)) return;
  for (const auto& rank : ranks)
    if (!rank->exited() && rank->control() != nullptr) rank->signal_group(SIGCONT);
}

// One look at everything. False: nothing more will arrive, the deadline passed or a wake descriptor
// is ready.
Result<bool> LocalJob::State::turn(Deadline deadline, std::span<pollfd> wakes,
                                   std::vector<Event>& events) {
  kill_if_due();
  polled.assign(wakes.begin(), wakes.end());
  bool blind = false;
  for (const auto& rank : ranks) {
    rank->add_interest(polled);
    blind = blind || (!rank->exited() && !rank->child().pidfd);
  }
  Deadline until = deadline.earlier(sweep_at);
  if (kill_at) until = until.earlier(*kill_at);
  if (blind) until = until.earlier(Deadline::after_ms(kNoPidfdPollMs));
  COLL_ASSIGN(const int ready, base::poll_fds(polled, until));
  const bool fed = (ready > 0 || blind) && handle_ranks(events);
  if (sweep_at.passed()) sweep();
  bool woken = false;
  for (size_t i = 0; i < wakes.size(); ++i) {
    wakes[i].revents = polled[i].revents;
    woken = woken || wakes[i].revents != 0;
  }
  return events.empty() && !woken && !fed && !deadline.passed() && !all_exited();
}

Result<std::vector<Event>> LocalJob::wait(Deadline deadline, int wake_fd) {
  return wait(deadline, std::span<const int>(&wake_fd, 1));
}

Result<std::vector<Event>> LocalJob::wait(Deadline deadline, std::span<const int> wake_fds) {
  std::vector<pollfd> wakes;
  for (const int fd : wake_fds) wakes.push_back({fd, POLLIN, 0});  // poll ignores negative ones
  return wait_with(deadline, wakes);
}

Result<std::vector<Event>> LocalJob::wait_with(Deadline deadline, std::span<pollfd> wakes) {
  std::vector<Event> events;
  bool again = true;
  while (again) {
    COLL_ASSIGN(again, state_->turn(deadline, wakes, events));
  }
  return events;
}

Status LocalJob::send(int rank, FrameType type, ByteView payload, Deadline deadline) {
  RankState& state = *state_->ranks.at(size_t(rank));
  if (state.control() == nullptr)
    return Error(ErrorCode::lost, format("rank {} has no control connection", rank)).blame(rank);
  Status sent = state.control()->send(type, payload, deadline);
  if (!sent)
    return std::move(sent.error()).within(format("control frame to rank {}", rank)).blame(rank);
  return {};
}

Status LocalJob::write_stdin(int rank, ByteView data, Deadline deadline) {
  RankState& state = *state_->ranks.at(size_t(rank));
  while (state.stdin_pending() > 0 && state.stdin_pending() + data.size() > kMaxStdinQueue) {
    pollfd p{state.child().stdin_write.get(), POLLOUT, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0)
      return Error(ErrorCode::deadline, format("rank {} does not read its standard input", rank))
          .blame(rank);
    state.flush_stdin();
  }
  return state.queue_stdin(data);
}

size_t LocalJob::stdin_pending(int rank) const {
  return state_->ranks.at(size_t(rank))->stdin_pending();
}

void LocalJob::close_stdin(int rank) {
  state_->ranks.at(size_t(rank))->close_stdin();
}

void LocalJob::signal_all(int signal_number) {
  state_->continue_again = signal_number == SIGCONT;
  for (const auto& rank : state_->ranks)
    if (!rank->exited()) rank->signal_group(signal_number);
}

void LocalJob::kill(int rank) {
  const RankState& state = *state_->ranks.at(size_t(rank));
  if (!state.exited()) state.signal_group(SIGKILL);
}

void LocalJob::end(double grace_s) {
  State& s = *state_;
  const Deadline at = Deadline::after_seconds(std::max(grace_s, 0.0));
  s.kill_at = s.kill_at ? s.kill_at->earlier(at) : at;
  for (const auto& rank : s.ranks) {
    rank->signal_group(SIGTERM);
    rank->signal_group(SIGCONT);  // a stopped rank cannot act on SIGTERM
  }
  s.continue_again = true;
  s.strays.signal_all(SIGTERM);
  s.kill_if_due();
}

void LocalJob::State::kill_everything() {
  for (const auto& rank : ranks) rank->signal_group(SIGKILL);
  const Deadline deadline = Deadline::after_seconds(kLocalKillSeconds);
  std::vector<Event> unheard;
  while (!all_exited() && !deadline.passed()) {
    handle_ranks(unheard);
    unheard.clear();
    if (!all_exited()) base::sleep_until(Deadline::after_ms(1));
  }
  if (!strays.kill_all(deadline) || !all_exited())
    COLL_WARN("some processes of the job do not end even by SIGKILL (uninterruptible sleep)");
  for (const auto& rank : ranks) disown_child(rank->pid());
  guard.reset();
}

}  // namespace collctl::launcher
