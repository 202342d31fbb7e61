// run_task_job: a task done by ranks of ours, and what the job's loop makes of what they say.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/job/config.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/loop.h"
#include "cmd/job/members.h"
#include "cmd/job/rank_output.h"
#include "cmd/job/relay.h"
#include "cmd/job/threads.h"
#include "launcher/ssh/prompt.h"

namespace collctl::cmd {
namespace {

using launcher::Event;
using launcher::FrameType;

constexpr double kSettleSeconds = 1.5;  // after the first failure: time for the others' own words
constexpr double kStartSlack = 1.5;  // the ranks' own start-up deadline comes first: it knows more
constexpr double kLeastStart = 1;    // of ranks on hosts that were up at the last moment

class TaskJob : public JobLoop {
 public:
  TaskJob(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
          const JobGround& ground, const StartRanks& start)
      : JobLoop(options, ground), spec_(spec), sink_(sink), start_(start) {}

 private:
  Status start() override;
  Status configure(const StartedJob& job);
  Result<TaskSpec> settle(const StartedJob& job) const;
  double start_age_s() const;
  Deadline own_deadline() const override;
  std::string overdue() const override;
  void handle_frame(Event& event) override;
  Status handle_line(const Event& line) override;
  void handle_exit(RankFacts& rank) override;
  void handle_lost(RankFacts& rank, Error why) override;
  Status tend() override;
  void trouble(const Error& what) override;
  bool unexplained() override;
  void judge(JobOutcome& out) override;
  bool explains_others(int rank) const;
  Error error_said(const Event& event) const;
  bool may_shrink() const;
  void lose(const Error& what);
  void check_members();
  void end_left_behind();

  const TaskSpec& spec_;
  TaskSink& sink_;
  const StartRanks& start_;
  Members members_;
  int64_t asked_before_ns_ = launcher::asked_ns();
  int64_t start_began_ns_ = now_ns();  // of the present communicator
  int errors_ = 0;
  bool all_started_ = false;
};

Status TaskJob::start() {
  COLL_ASSIGN(StartedJob job, start_(hosts_));
  take_over(job, true);
  for (const RankFacts& r : ranks_)
    if (!r.left_behind) members_.add(r.end.rank);
  return job.in_process ? Status() : configure(job);
}

Status TaskJob::configure(const StartedJob& job) {
  RankConfig config;
  config.size = job_->size();
  config.verbosity = options_.verbosity;
  config.one_host = job.one_host;
  config.hosts = job.names();
  COLL_ASSIGN(const TaskSpec spec, settle(job));
  config.task = spec.task->name;
  config.options = spec.options;
  config.shrinks = options_.shrink;
  RankSettings settings = completed(spec.settings, options_);
  // The time that bringing up the hosts has left: the ranks' own deadline comes before this
  // process's.
  config.start_timeout_s = settings.start_left_s = std::max(
      std::min(options_.start_timeout_s - start_age_s(), settings.start_timeout_s), kLeastStart);
  for (int rank = 0; rank < config.size; ++rank) {
    config.rank = rank;
    config.host = ranks_[size_t(rank)].end.host;
    config.settings = for_rank(settings, job.local_rank[size_t(rank)], job.gpus_of[size_t(rank)]);
    const std::string text = config.to_json();
    COLL_TRY(tell(*job_, rank, FrameType::config, base::bytes_of(text)));
    config.hosts.clear();  // rank 0's affair
  }
  return {};
}

// On hosts it is known only now where the ranks compute.
Result<TaskSpec> TaskJob::settle(const StartedJob& job) const {
  if (job.gpus.empty()) return spec_;  // this host was asked before
  COLL_ASSIGN(const DeviceChoice choice, choose_device(spec_.settings.device_request, job.gpus));
  COLL_TRY(check_shrink(options_, choice));
  if (choice.on_gpus)
    for (size_t rank = 0; rank < job.gpus_of.size(); ++rank) {
      const int gpus = job.gpus_of[rank];
      if (gpus == 0 || job.local_rank[rank] < gpus) continue;
      const auto here = std::ranges::count(job.host_of, job.host_of[rank]);
      COLL_TRY(check_gpus(job.host_of[rank].name, int(here), gpus, options_.oversubscribe));
    }
  return settled(spec_, {choice.on_gpus, choice.why, int(job.host_of.size())});
}

// Without the time in which this process itself did not run, or asked somebody.
double TaskJob::start_age_s() const {
  return double(now_ns() - start_began_ns_ - (launcher::asked_ns() - asked_before_ns_)) / 1e9;
}

Deadline TaskJob::own_deadline() const {
  if (members_.losing()) return members_.next_look();
  // Threads have deadlines of their own, and may be waited for by nobody else.
  return all_started_ || in_process_ || inquiry_.answers_by()
             ? Deadline::after_seconds(kForever)
             : Deadline::after_seconds(options_.start_timeout_s + kStartSlack - start_age_s());
}

std::string TaskJob::overdue() const {
  if (std::string whole = JobLoop::overdue(); !whole.empty()) return whole;
  if (all_started_ || in_process_ || members_.losing() ||
      start_age_s() < options_.start_timeout_s + kStartSlack)
    return "";
  return format("the ranks did not start up within {} s (--start-timeout): ",
                options_.start_timeout_s);
}

// The first failure: look at every process before anything is ended, tell the others to abort,
// and give them a moment to say what they saw.
void TaskJob::trouble(const Error& what) {
  if (settle_) return;
  settle_ = Deadline::after_seconds(kSettleSeconds);
  job_->look();
  Error why = what;
  why.awaited = -1;  // by the rank that said it
  const Bytes word = launcher::encode_error(why);
  for (const RankFacts& r : ranks_) {
    if (r.exited || r.end.error) continue;
    // A rank that cannot be told is ended by signals when the time is up.
    static_cast<void>(job_->send(r.end.rank, FrameType::abort, word, Deadline::after_ms(100)));
  }
  // The errors of ranks that were leaving are final now.
  members_.end_loss();
  for (RankFacts& r : ranks_)
    if (r.broken && !r.end.error) r.end.error = std::exchange(r.broken, std::nullopt);
}

// Only what was measuring goes on, from rank 0's header on: of a start that fails nothing is there
// to be saved.
bool TaskJob::may_shrink() const {
  return options_.shrink && !in_process_ && !settle_ && signal_ == 0 && !job_error_ &&
         (started(ranks_[0].end.phase) || members_.ranks().size() < ranks_.size());
}

// The communicator has lost a member, or does not get on. Those that live are told to leave it;
// who it is that is lost is decided when they have (check_members).
void TaskJob::lose(const Error& what) {
  if (!may_shrink()) return trouble(what);
  if (!members_.losing()) members_.lose(what, options_.op_timeout_s, *job_, ranks_);
}

void TaskJob::check_members() {
  if (!members_.losing()) return;
  const std::optional<Regrouped> found = members_.decided(*job_, ranks_);
  if (!found) return;
  // As without shrinking.
  if (found->lost.empty()) return trouble(Error(members_.first_loss()));
  all_started_ = asked_why_late_ = false;
  start_began_ns_ = now_ns();
  asked_before_ns_ = launcher::asked_ns();
  sink_.shrunk({found->lost, int(found->left.size())});
  Roster roster{.task = {{}, int(ranks_.size()), sink_.done(), sink_.groups()},
                .start_timeout_s = options_.start_timeout_s};
  if (Status told = members_.go_on(*found, std::move(roster), *job_, ranks_); !told)
    fail_job(std::move(told.error()));
}

// The others are through: nobody waits for a host that does not say whether its ranks are gone.
void TaskJob::end_left_behind() {
  if (settle_ || members_.ranks().size() == ranks_.size()) return;
  for (const int member : members_.ranks())
    if (!ranks_[size_t(member)].exited) return;
  end_now(0);
}

// A rank's own word, with the rank that found it, and the host of the one that it is about.
Error TaskJob::error_said(const Event& event) const {
  Error error = launcher::decode_error(event.frame.payload);
  if (error.from < 0) error.from = event.rank;
  if (error.rank >= 0 && size_t(error.rank) < ranks_.size() && !error.host.empty())
    error.on(ranks_[size_t(error.rank)].end.host);
  return error;
}

void TaskJob::handle_frame(Event& event) {
  RankFacts& r = ranks_[size_t(event.rank)];
  switch (event.frame.type) {
    case FrameType::id:
      if (event.rank != members_.ranks()[0]) break;
      for (const int rank : members_.ranks()) {
        if (rank == event.rank) continue;
        if (Status told = tell(*job_, rank, FrameType::id, event.frame.payload); !told)
          trouble(told.error());
      }
      return;
    case FrameType::phase:
      r.end.phase = event.frame.text().substr(0, 64);
      all_started_ = std::ranges::all_of(
          members_.ranks(), [&](int member) { return started(ranks_[size_t(member)].end.phase); });
      sink_.phase(event.rank, r.end.phase);
      note(event.rank);
      return;
    case FrameType::data:
      if (Status s = sink_.record(event.frame.text()); !s)
        fail_job(std::move(s.error()).within(format("record of rank {}", event.rank)));
      return;
    case FrameType::relay:
      if (settle_) return;  // its ranks are leaving
      if (Status s = pass_on(*job_, members_.ranks(), event.rank, event.frame.payload); !s)
        trouble(s.error());
      return;
    case FrameType::progress:
      progress_ = event.frame.text().substr(0, 256);
      sink_.progress(event.frame.text());
      return;
    case FrameType::doing: {
      auto doing = record_of<RankDoing>(event.frame.text());
      if (!doing) return fail_job(std::move(doing.error()).within("what a rank says it does"));
      inquiry_.answered(event.rank, std::move(*doing));
      return;
    }
    case FrameType::broken:
      if (!options_.shrink || r.broken || r.end.error) break;
      r.order = errors_++;
      r.broken = members_.why_left(error_said(event));
      lose(*r.broken);
      // It waits; but the job ends.
      if (r.broken && settle_) r.end.error = std::exchange(r.broken, std::nullopt);
      return;
    case FrameType::error:
      if (r.end.error) return;
      r.end.error = error_said(event);
      r.order = errors_++;
      trouble(*r.end.error);
      return;
    default:
      break;
  }
  fail_job(Error(ErrorCode::defect,
                 format("rank {} sent a frame of type {}", event.rank, int(event.frame.type)))
               .blame(event.rank));
}

void TaskJob::handle_exit(RankFacts& r) {
  if (r.left_behind || !died(r)) return;
  const Error gone =
      Error(ErrorCode::lost, format("rank {} is gone", r.end.rank)).blame(r.end.rank);
  // A defect of ours ends the job, also with --shrink: it must be reported.
  return r.end.exit_code == int(ErrorCode::defect) ? trouble(gone) : lose(gone);
}

// The job is ended because ranks lost another, or waited for it: that its host does not answer is
// why, also when it turns out only now.
bool TaskJob::explains_others(int rank) const {
  const std::vector<RankFacts> known = facts();
  if (signal_ != 0 || job_error_ || std::ranges::any_of(known, died)) return false;
  const Host& host = ranks_[size_t(rank)].end.host;
  const auto there = [&](int other) {
    return other >= 0 && size_t(other) < ranks_.size() && ranks_[size_t(other)].end.host == host;
  };
  return std::ranges::any_of(known, [&](const RankFacts& r) {
    const auto& e = r.end.error;
    return e && (e->code == ErrorCode::lost || e->code == ErrorCode::deadline) &&
           (there(e->rank) || there(e->awaited));
  });
}

void TaskJob::handle_lost(RankFacts& r, Error why) {
  if (r.left_behind || r.end.error || (ending_ && !explains_others(r.end.rank))) return;
  r.host_lost = true;
  r.end.error = std::move(why);
  r.order = errors_++;
  lose(*r.end.error);
}

Status TaskJob::handle_line(const Event& line) {
  const std::string host = remote_ != nullptr ? ranks_[size_t(line.rank)].end.host.name : "";
  forward_line(line, options_.tag_output ? rank_tag(line.rank, host) : "");
  return {};
}

Status TaskJob::tend() {
  check_members();
  end_left_behind();
  return {};
}

// Ranks that only wait, for each other or for one that lives and is silent: it may be the one that
// sees a broken way, which takes it a moment from when it is told to end.
bool TaskJob::unexplained() {
  if (job_error_ || signal_ != 0) return false;
  const std::vector<RankFacts> known = facts();
  const auto cause = root_cause(known);
  if (!cause || cause->code != ErrorCode::deadline) return false;
  return std::any_of(known.begin(), known.end(), [&](const RankFacts& r) {
    return !r.exited && !r.end.error && (r.state == 'R' || r.state == 'S') &&
           (cause->rank < 0 || cause->rank == r.end.rank);
  });
}

void TaskJob::judge(JobOutcome& out) {
  // The job's own error (a deadline of the whole) stands unless the ranks know a worse one.
  out.error = job_error_;
  if (out.error && out.error->code != ErrorCode::deadline) return;
  const std::vector<RankFacts> known = facts();
  // A job that others have started is known here by the word of one rank.
  auto cause = only_ >= 0 ? known.front().end.error : root_cause(known);
  // A rank that died without a word of ours may have said why in its own way.
  if (cause && cause->rank >= 0 && size_t(cause->rank) < ranks_.size() &&
      !ranks_[size_t(cause->rank)].end.error)
    if (const std::string words = last_words_.of(cause->rank); !words.empty())
      cause->hint += (cause->hint.empty() ? "" : "; ") + words;
  if (cause && (!out.error || base::severity(cause->code) > base::severity(out.error->code)))
    out.error = std::move(cause);
}

}  // namespace

JobOutcome run_ranks(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
                     const JobGround& ground, const StartRanks& start) {
  return TaskJob(options, spec, sink, ground, start).run();
}

JobOutcome run_task_job(const LaunchOptions& given, const TaskSpec& spec, TaskSink& sink) {
  LaunchOptions options = given;
  if (Status status = adopt(options); !status) return failed_outcome(status.error());
  if (options.joins()) return run_joined(options, spec, sink);
  Interrupts interrupts(Interrupts::Takes::stops);
  if (options.rank_mode == "thread")
    return run_ranks(options, spec, sink, {interrupts, no_door},
                     [&](auto&) { return start_threads(options, spec); });
  const auto guard = launcher_guard(options);
  return run_ranks(options, spec, sink, {interrupts, [] { return StatusDoor::open(); }},
                   [&](auto& hosts) { return start_job(options, nullptr, interrupts, hosts); });
}

}  // namespace collctl::cmd
