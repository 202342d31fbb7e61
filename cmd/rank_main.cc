// The hidden command `__rank`: one rank of a task, told what to do over the control
// connection, telling what it finds over it. The main thread works; a second one listens to the
// launcher.
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/rank_env.h"
#include "base/stop.h"
#include "base/thrown.h"
#include "cmd/job/config.h"
#include "cmd/job/relay.h"
#include "cmd/measure/running.h"
#include "cmd/rank_tasks.h"
#include "cmd/root_commands.h"
#include "launcher/local/control.h"

namespace collctl::cmd {
namespace {

using launcher::FrameChannel;
using launcher::FrameType;

constexpr double kRankSendSeconds = 30;  // the launcher reads unless its own output is blocked
constexpr double kLeastStartSeconds = 0.5;
// From "abort" to the end, if the measurement does not end: longer than a rank looks at what lies
// between it and one that has gone (base::unacknowledged_s), shorter than the launcher waits.
constexpr double kYieldSeconds = 1.2;

// Listens to the launcher until stop(): hands out the unique id and the roster, breaks off what
// runs on `halt`, ends this rank on `abort` or when the launcher is gone.
class LauncherWatch {
 public:
  LauncherWatch(FrameChannel& channel, int rank)
      : channel_(channel), rank_(rank), relay_(channel) {}
  ~LauncherWatch() { stop(); }

  Status start() {
    wake_ = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return base::errno_error(ErrorCode::unavailable, "eventfd", errno);
    thread_ = std::thread([this] { listen(); });
    return {};
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

  // The launcher's first word after the configuration or roster; ended by it, or by the deadline.
  // `first`: whose id it is.
  Result<runtime::UniqueId> wait_for_id(int first, Deadline deadline) {
    std::unique_lock lock(mutex_);
    base::wait_for(changed_, lock, deadline, [&] { return !id_.empty() || refused_ || halted_; });
    if (refused_) return Error(*refused_);
    if (halted_) return Error(*halted_);
    if (id_.empty())
      return Error(ErrorCode::deadline,
                   format("the launcher did not pass on rank {}'s unique id in time", first))
          .blame(first);
    return runtime::UniqueId::from_hex(id_);
  }

  RankRelay& relay() { return relay_; }

  bool refused() const {
    const std::lock_guard lock(mutex_);
    return refused_.has_value();
  }

  // The ranks that go on after a loss: this rank has left the communicator, and the others may take
  // as long as their deadlines let them.
  Result<Roster> wait_for_roster(Deadline deadline) {
    std::unique_lock lock(mutex_);
    base::wait_for(changed_, lock, deadline, [&] { return roster_.has_value() || refused_; });
    if (refused_) return Error(*refused_);
    if (!roster_) return Error(ErrorCode::deadline, "the launcher did not say in time who goes on");
    return *std::exchange(roster_, std::nullopt);
  }

 private:
  // An id or a halt passed on before belongs to the communicator that broke.
  Status take_roster(const std::string& text) {
    COLL_ASSIGN(Roster roster, record_of<Roster>(text, "roster from the launcher"));
    clear_abort();
    const std::lock_guard lock(mutex_);
    id_.clear();
    halted_.reset();
    roster_ = std::move(roster);
    changed_.notify_all();
    return {};
  }

  // Leaves what runs, or is about to; what comes next the launcher says.
  void halt(const Error& why) {
    {
      const std::lock_guard lock(mutex_);
      halted_ = why;
      changed_.notify_all();
    }
    relay_.end(why);
    abort_running(why);
  }

  void listen() {
    while (true) {
      auto frame = channel_.poll_frame();
      if (!frame) return launcher_gone();
      if (*frame) {
        if ((*frame)->type == FrameType::id) {
          const std::lock_guard lock(mutex_);
          id_ = (*frame)->text();
          changed_.notify_all();
        }
        if ((*frame)->type == FrameType::relay)
          if (Status taken = relay_.arrived((*frame)->payload); !taken) return fail(taken.error());
        if ((*frame)->type == FrameType::ask) say_what_it_does();
        if ((*frame)->type == FrameType::halt) halt(launcher::decode_error((*frame)->payload));
        if ((*frame)->type == FrameType::roster)
          if (Status taken = take_roster((*frame)->text()); !taken) return fail(taken.error());
        if ((*frame)->type == FrameType::abort)
          return fail(launcher::decode_error((*frame)->payload));
        continue;
      }
      pollfd fds[] = {{channel_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      // Ends with a frame, the launcher's end or stop(); the hour only bounds one wait.
      if (!base::poll_fds(fds, Deadline::after_seconds(3600)) || fds[1].revents != 0) return;
    }
  }

  void say_what_it_does() {
    const std::vector<RankDoing> all = ranks_doing();
    // Without a communicator its phase says all there is.
    const RankDoing doing = all.empty() ? RankDoing{.rank = rank_} : all[0];
    // A launcher that does not take it is not one that needs it.
    static_cast<void>(channel_.send_text(FrameType::doing, json_of(doing),
                                         Deadline::after_seconds(kRankSendSeconds)));
  }

  bool stopped_within(double seconds) {
    std::unique_lock lock(mutex_);
    return base::wait_for(changed_, lock, Deadline::after_seconds(seconds),
                          [&] { return stopping_; });
  }

  void fail(Error why) {
    {
      const std::lock_guard lock(mutex_);
      refused_ = why;
      changed_.notify_all();
    }
    relay_.end(why);
    abort_running(why);
    if (stopped_within(kUninterruptibleSeconds)) return;
    if (!base::Uninterruptible::any() && stopped_within(kYieldSeconds)) return;
    Error error = std::move(why).within("aborted by the launcher");
    // Fails only when the launcher is gone as well: then nobody is left to be told.
    static_cast<void>(
        channel_.send(FrameType::error, launcher::encode_error(error), Deadline::after_ms(200)));
    ::raise(SIGTERM);
  }

  void launcher_gone() {
    if (!stopped_within(0.05)) ::raise(SIGTERM);
  }

  FrameChannel& channel_;
  int rank_;
  LauncherRelay relay_;
  base::Fd wake_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::string id_;
  std::optional<Roster> roster_;
  std::optional<Error> refused_, halted_;
};

// A communicator broke, as far as this rank can see; with --on-loss shrink others may form a new
// one.
bool is_a_loss(const Error& error) {
  return error.code == ErrorCode::lost || error.code == ErrorCode::deadline ||
         error.code == ErrorCode::interrupted;
}

// Finds the others and does the task, or what is left of it.
Status take_part(const RankConfig& config, TaskSpec& spec, const Continued* continued,
                 FrameChannel& channel, LauncherWatch& watch, FrameSink& sink) {
  const int64_t began_ns = now_ns();
  JobRoot root;
  if (config.rank == 0) {
    COLL_ASSIGN(root, make_root(config.one_host, config.hosts));
    COLL_TRY(channel.send_text(FrameType::id, root.id.to_hex(),
                               Deadline::after_seconds(kRankSendSeconds)));
  } else {
    const int first = continued != nullptr ? continued->members[0] : 0;
    COLL_ASSIGN(root.id, watch.wait_for_id(first, Deadline::after_seconds(config.start_timeout_s)));
  }
  // The start-up time began in the launcher; some of it went by while rank 0's id was awaited.
  if (spec.settings.start_left_s > 0)
    spec.settings.start_left_s =
        std::max(spec.settings.start_left_s - base::seconds_since(began_ns), kLeastStartSeconds);
  sink.phase(config.rank, "bootstrap");
  // Those that go on after a loss have other numbers than the job.
  RankRelay* const relay = continued == nullptr ? &watch.relay() : nullptr;
  COLL_TRY(run_task({spec, root.id, config.rank, config.size, sink, continued, relay}));
  return sink.status();
}

Status work(FrameChannel& channel, const RankConfig& config) {
  base::call_this_host(config.host);
  TaskSpec spec{find_rank_task(config.task), config.settings, config.options};
  if (spec.task == nullptr)
    return Error(ErrorCode::defect,
                 format("the launcher asks for the unknown task {}", config.task));
  COLL_ASSIGN(const base::LogOptions log, base::log_options_from_knobs(config.verbosity));
  COLL_TRY(base::log_configure(log, config.rank));
  base::log_set_process_rank(config.rank);
  FrameSink sink([&](FrameType type, const std::string& text) {
    return channel.send_text(type, text, Deadline::after_seconds(kRankSendSeconds));
  });
  LauncherWatch watch(channel, config.rank);
  COLL_TRY(watch.start());
  RankConfig place = config;
  Continued continued;
  Status done = take_part(place, spec, nullptr, channel, watch, sink);
  while (!done && config.shrinks && is_a_loss(done.error()) && !watch.refused()) {
    COLL_TRY(channel.send(FrameType::broken, launcher::encode_error(done.error()),
                          Deadline::after_seconds(kRankSendSeconds)));
    // The launcher waits for each rank as long as an operation may take.
    COLL_ASSIGN(const Roster roster, watch.wait_for_roster(Deadline::after_seconds(
                                         spec.settings.op_timeout_s + kRankSendSeconds)));
    continued = roster.task;
    const auto& members = continued.members;
    const auto self = std::ranges::find(members, config.rank);
    if (self == members.end())
      return Error(ErrorCode::defect, "the launcher's roster is without this rank");
    place.rank = int(self - members.begin());
    place.size = int(members.size());
    place.one_host = roster.one_host;
    place.hosts = roster.hosts;
    place.start_timeout_s = spec.settings.start_left_s = roster.start_timeout_s;
    COLL_INFO(init, "rank {} goes on as rank {} of {}", config.rank, place.rank, place.size);
    done = take_part(place, spec, &continued, channel, watch, sink);
  }
  if (!done) return done;
  return channel.send_text(FrameType::phase, "done", Deadline::after_seconds(kRankSendSeconds));
}

bool is_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// Ctrl-Z, passed on by the launcher.
void stop_on_signal() {
  struct sigaction before {
  }, mine{};
  ::sigaction(SIGTSTP, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  mine.sa_handler = [](int) {
    const int kept = errno;
    base::stop_this_process();
    errno = kept;
  };
  mine.sa_flags = SA_RESTART;
  ::sigaction(SIGTSTP, &mine, nullptr);
}

}  // namespace

int rank_main() {
  if (!is_socket(base::kControlFd)) {
    constexpr std::string_view kText = "collctl: __rank is started by collctl run, not by hand\n";
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText.data(), kText.size());
    return int(ErrorCode::usage);
  }
  ::fcntl(base::kControlFd, F_SETFD, FD_CLOEXEC);
  stop_on_signal();
  ::prctl(PR_SET_NAME, "collctl");  // not "exe", as it was executed
  FrameChannel channel{base::Fd(base::kControlFd)};
  auto frame = channel.receive(Deadline::after_seconds(60));
  if (!frame) return int(frame.error().code);  // nobody there to be told
  const auto run = [&]() -> Status {
    if (frame->type != FrameType::config)
      return Error(ErrorCode::defect, "the launcher's first frame is no configuration");
    COLL_ASSIGN(const RankConfig config, RankConfig::from_json(frame->text()));
    return work(channel, config);
  };
  const Status status = base::caught(run);
  if (status) return 0;
  // When this fails the launcher is gone; the exit code still tells whoever waits for us.
  static_cast<void>(channel.send(FrameType::error, launcher::encode_error(status.error()),
                                 Deadline::after_seconds(5)));
  return int(status.error().code);
}

}  // namespace collctl::cmd
