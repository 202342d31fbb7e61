#include "cmd/job/threads.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/thrown.h"
#include "cmd/job/config.h"
#include "cmd/job/interrupt.h"
#include "cmd/measure/running.h"

namespace collctl::cmd {
namespace {

using launcher::Event;
using launcher::EventKind;
using launcher::FrameType;

constexpr int64_t kLookMs = 50;              // how often signals and deadlines are looked at
constexpr double kThreadAbortSeconds = 2.0;  // from a signal to the ends of all threads

class ThreadGroup final : public launcher::RankGroup {
 public:
  ThreadGroup(int size, RankWork work) : work_(std::move(work)), here_(size_t(size), false) {
    clear_abort();
  }
  ~ThreadGroup() override {
    if (running_count() > 0) abort_running(Error(ErrorCode::interrupted, "the job has ended"));
    for (std::thread& thread : threads_) thread.join();
    clear_abort();
  }
  Status start(const std::vector<int>& ranks);

  int size() const override { return int(here_.size()); }
  int pid(int) const override { return ::getpid(); }
  Host host(int) const override { return base::this_host(); }
  bool running(int rank) const override { return here_[size_t(rank)]; }
  int running_count() const override { return int(std::ranges::count(here_, true)); }
  Result<std::vector<Event>> wait(Deadline deadline, std::span<const int> wake_fds) override;
  Status send(int rank, FrameType type, ByteView payload, Deadline deadline) override;
  void interrupt(int signal_number, double grace_s) override;
  void end(double) override {}  // all have been aborted before, and end by themselves
  char state(int rank) const override { return running(rank) ? 'R' : char(0); }

 private:
  void run(int rank);
  void add(EventKind kind, int rank, FrameType type, ByteView payload, int exit_code = 0);

  const RankWork work_;
  std::vector<bool> here_;  // by rank: runs, as far as the job has heard
  std::mutex mutex_;        // of what follows; held until all ranks have their threads
  bool cancelled_ = false;  // not every rank could have one
  std::vector<Event> events_;
  std::condition_variable changed_;
  int signal_ = 0;
  std::optional<LeaveBy> leave_by_;
  std::vector<std::thread> threads_;
};

// A rank that began before all have a thread would wait for those that get none.
Status ThreadGroup::start(const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  const Status begun = base::caught([&]() -> Status {
    for (const int rank : ranks) threads_.emplace_back([this, rank] { run(rank); });
    return {};
  });
  cancelled_ = !begun;
  if (!begun) return Error(begun.error()).within(format("rank {} of {}", threads_.size(), size()));
  for (const int rank : ranks) here_[size_t(rank)] = true;
  return {};
}

void ThreadGroup::add(EventKind kind, int rank, FrameType type, ByteView payload, int exit_code) {
  Event event;
  event.kind = kind;
  event.rank = rank;
  event.frame = {type, Bytes(payload.begin(), payload.end())};
  event.exit_code = exit_code;
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void ThreadGroup::run(int rank) {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return;
  }
  base::log_set_thread_device(rank);
  const FrameSink::Send send = [&](FrameType type, const std::string& text) {
    add(EventKind::frame, rank, type, base::bytes_of(text));
    return Status();
  };
  const Status status = base::caught([&] { return work_(rank, send); });
  if (status)
    add(EventKind::frame, rank, FrameType::phase, base::bytes_of("done"));
  else
    add(EventKind::frame, rank, FrameType::error, launcher::encode_error(status.error()));
  add(EventKind::exited, rank, {}, {}, status ? 0 : int(status.error().code));
}

// Needs no descriptor, of which a joined rank may have none left: what wakes it is found in time.
Result<std::vector<Event>> ThreadGroup::wait(Deadline deadline, std::span<const int>) {
  // Threads cannot be killed one by one: what does not end is ended with the process.
  if (leave_by_ && leave_by_->passed()) die_by_signal(signal_);
  std::unique_lock lock(mutex_);
  base::wait_for(changed_, lock, deadline.earlier(Deadline::after_ms(kLookMs)),
                 [&] { return !events_.empty(); });
  for (const Event& event : events_)
    if (event.kind == EventKind::exited) here_[size_t(event.rank)] = false;
  return std::exchange(events_, {});
}

Status ThreadGroup::send(int rank, FrameType type, ByteView payload, Deadline) {
  if (type == FrameType::abort) abort_running(launcher::decode_error(payload));
  if (type == FrameType::ask)
    for (const RankDoing& doing : ranks_doing())
      if (doing.rank == rank)
        add(EventKind::frame, rank, FrameType::doing, base::bytes_of(json_of(doing)));
  return {};
}

void ThreadGroup::interrupt(int signal_number, double) {
  if (signal_ != 0) die_by_signal(signal_number);
  signal_ = signal_number;
  leave_by_.emplace(kThreadAbortSeconds);
  abort_running(interrupted_error(signal_number));
}

}  // namespace

Result<std::unique_ptr<launcher::RankGroup>> start_threads(int size, const std::vector<int>& ranks,
                                                           RankWork work) {
  auto group = std::make_unique<ThreadGroup>(size, std::move(work));
  COLL_TRY(group->start(ranks));
  return std::unique_ptr<launcher::RankGroup>(std::move(group));
}

Result<StartedJob> start_threads(const LaunchOptions& options, const TaskSpec& spec) {
  COLL_ASSIGN(const LocalPlan plan, plan_local(options));
  COLL_ASSIGN(const base::LogOptions log, base::log_options_from_knobs(options.verbosity));
  COLL_TRY(base::log_configure(log, 0));
  COLL_ASSIGN(JobRoot made, make_root(true, {}));
  base::raise_open_file_limit();
  const auto root = std::make_shared<const JobRoot>(std::move(made));
  std::vector<int> all;
  for (int rank = 0; rank < plan.ranks; ++rank) all.push_back(rank);
  const RankSettings settings = completed(spec.settings, options);
  StartedJob job;
  job.in_process = true;
  COLL_ASSIGN(job.group,
              start_threads(plan.ranks, all,
                            [=, task = spec.task, json = spec.options, gpus = options.gpus](
                                int rank, const FrameSink::Send& send) -> Status {
                              const TaskSpec own{task, for_rank(settings, rank, gpus), json};
                              FrameSink sink(send);
                              return run_task({own, root->id, rank, int(all.size()), sink});
                            }));
  return job;
}

}  // namespace collctl::cmd
