// Ranks as threads of this process (--rank-mode thread): for tests, sanitizers and debuggers.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/thrown.h"
#include "cmd/job/config.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/modes.h"
#include "cmd/job/root_cause.h"
#include "cmd/measure/abort_scope.h"
#include "runtime/bootstrap/bootstrap.h"

namespace collctl::cmd {
namespace {

constexpr int64_t kLookMs = 50;              // how often signals and deadlines are looked at
constexpr double kThreadAbortSeconds = 2.0;  // from an abort to the ends of all threads
// From a rank's failure to the others' start-up being cancelled; most have heard of it by then.
constexpr int64_t kHearNs = 200'000'000;

// Lets several threads call a sink; only one is in it at a time.
class LockedSink : public TaskSink {
  template <class F>
  auto call(F&& f) {
    const std::lock_guard lock(mutex_);
    return f();
  }

 public:
  explicit LockedSink(TaskSink& inner) : inner_(inner) {}
  Status record(const std::string& json) override {
    return call([&] { return inner_.record(json); });
  }
  void progress(const std::string& text) override {
    call([&] { inner_.progress(text); });
  }
  void phase(int rank, const std::string& name) override {
    call([&] { inner_.phase(rank, name); });
  }

 private:
  std::mutex mutex_;
  TaskSink& inner_;
};

// What the threads share. Each takes part in its ownership: after a second signal the job is left
// while threads may still run.
struct Team {
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<RankFacts> ranks;
  int running = 0;
  int errors = 0;
  std::optional<Error> first_error;  // as the other ranks are told
  int64_t failed_ns = 0;
  bool cancelled = false;  // not every rank could have a thread
};

void run_rank(Team& team, const TaskContext& context) {
  const int rank = context.rank;
  {
    const std::lock_guard lock(team.mutex);  // held until all ranks have their threads
    if (team.cancelled) return;
  }
  base::log_set_thread_device(rank);
  Status status = base::caught([&] { return run_task(context); });
  const std::lock_guard lock(team.mutex);
  RankFacts& r = team.ranks[size_t(rank)];
  r.exited = true;
  r.end.phase = status ? "done" : "failed";
  if (!status) {
    r.end.exit_code = int(status.error().code);
    if (!team.first_error) {
      team.first_error = runtime::start_aborted(status.error(), rank, r.end.host.name);
      team.failed_ns = now_ns();
    }
    r.end.error = std::move(status.error());
    r.order = team.errors++;
  }
  --team.running;
  team.ended.notify_all();
}

class Watch {
 public:
  Watch(Team& team, const LaunchOptions& options) : team_(team), options_(options) {}

  // Until all threads have ended. The threads' own deadlines bound it; a signal or --timeout aborts
  // them first.
  std::optional<Error> wait_for_all() {
    std::unique_lock lock(team_.mutex);
    while (team_.running > 0) {
      base::wait_for(team_.ended, lock, Deadline::after_ms(kLookMs),
                     [&] { return team_.running == 0; });
      lock.unlock();
      look();
      lock.lock();
    }
    return std::move(why_);
  }

 private:
  void look() {
    while (const auto number = interrupts_.take()) {
      if (why_ && why_->code == ErrorCode::interrupted) die_by_signal(*number);
      stop(interrupted_error(*number));
    }
    if (!why_ && options_.timeout_s > 0 && double(now_ns() - began_ns_) / 1e9 >= options_.timeout_s)
      stop(Error(ErrorCode::deadline,
                 format("the job did not end within {} s (--timeout)", options_.timeout_s)));
    // Threads cannot be killed one by one: what does not end is ended with the process.
    if (why_ && why_->code == ErrorCode::interrupted && leave_by_->passed())
      die_by_signal(why_->signal);
    const std::lock_guard lock(team_.mutex);
    if (team_.first_error && now_ns() - team_.failed_ns >= kHearNs)
      abort_starts(*team_.first_error);
  }

  void stop(Error why) {
    if (!why_) why_ = std::move(why);
    leave_by_.emplace(kThreadAbortSeconds);
    abort_running(*why_);
  }

  Team& team_;
  const LaunchOptions& options_;
  Interrupts interrupts_{false};
  int64_t began_ns_ = now_ns();
  std::optional<Error> why_;
  std::optional<LeaveBy> leave_by_;
};

}  // namespace

JobOutcome run_threads(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink) {
  const RankSettings settings = completed(spec.settings, options);
  const int64_t began_ns = now_ns();
  auto plan = plan_local(options);
  if (!plan) return failed_outcome(plan.error());
  auto log = base::log_options_from_knobs(options.verbosity);
  if (!log) return failed_outcome(log.error());
  if (Status s = base::log_configure(*log, 0); !s) return failed_outcome(s.error());
  auto root = make_root(true, {});
  if (!root) return failed_outcome(root.error());
  base::raise_open_file_limit();
  clear_abort();
  Team team;
  LockedSink locked(sink);
  team.running = plan->ranks;
  team.ranks.resize(size_t(plan->ranks));
  std::deque<std::thread> threads;
  Watch watch(team, options);
  for (int rank = 0; rank < plan->ranks; ++rank) {
    team.ranks[size_t(rank)].end.rank = rank;
    team.ranks[size_t(rank)].end.host = base::this_host();
    team.ranks[size_t(rank)].end.pid = ::getpid();
  }
  Status begun;
  {
    // A rank that began before all have a thread would wait for those that get none.
    const std::lock_guard lock(team.mutex);
    begun = base::caught([&]() -> Status {
      for (int rank = 0; rank < plan->ranks; ++rank)
        threads.emplace_back([&, rank] {
          const TaskSpec own{spec.task, for_rank(settings, rank, options.gpus), spec.options};
          run_rank(team, {own, root->id, rank, plan->ranks, locked});
        });
      return {};
    });
    team.cancelled = !begun;
    if (!begun) team.running = 0;
  }
  std::optional<Error> stopped = watch.wait_for_all();
  for (std::thread& thread : threads) thread.join();
  clear_abort();
  JobOutcome out;
  out.error = stopped ? std::move(stopped) : root_cause(team.ranks);
  if (!begun && !out.error)
    out.error =
        std::move(begun.error()).within(format("rank {} of {}", threads.size(), plan->ranks));
  out.exit_code = exit_code_of(out.error);
  for (RankFacts& r : team.ranks) out.ranks.push_back(std::move(r.end));
  out.seconds = double(now_ns() - began_ns) / 1e9;
  return out;
}

}  // namespace collctl::cmd
