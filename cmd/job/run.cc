// run_task_job: a task done by ranks of ours; here as processes, see threads.cc and join.cc for the
// other two ways.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "cmd/job/config.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/inquiry.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/job_status.h"
#include "cmd/job/last_words.h"
#include "cmd/job/members.h"
#include "cmd/job/modes.h"
#include "cmd/job/rank_output.h"
#include "cmd/job/relay.h"
#include "cmd/job/root_cause.h"
#include "cmd/job/start.h"
#include "launcher/ssh/prompt.h"

namespace collctl::cmd {
namespace {

using launcher::Event;
using launcher::EventKind;
using launcher::FrameType;

constexpr double kSettleSeconds = 1.5;  // after the first failure: time for the others' own words
constexpr double kStartSlack = 1.5;  // the ranks' own start-up deadline comes first: it knows more
constexpr double kLeastStart = 1;    // of ranks on hosts that were up at the last moment
constexpr double kStoppedSeconds = 86400;  // by Ctrl-Z, at most
constexpr double kForever = 1e6;
constexpr double kLeastWaitTold = 0.5;  // of a job whose time is up
constexpr double kKillSeconds = 10;     // SIGKILL to gone, at most
constexpr double kAgentSeconds = 2;     // to hear of it from an agent, which is else let go

class TaskJob {
 public:
  TaskJob(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
          const JobGround& ground)
      : options_(options), spec_(spec), sink_(sink), ground_(ground) {}
  JobOutcome run();

 private:
  Status start();
  Result<TaskSpec> settle(const StartedJob& job) const;
  Status loop();
  double start_age_s() const;
  Deadline next_deadline() const;
  void check_deadlines();
  void note(int rank);
  void take_states();
  void end_ranks(double grace_s);
  bool nobody_left_to_hear() const;
  Result<std::vector<Event>> wait_for_events();
  void take_signals();
  void handle(Event& event);
  void handle_frame(Event& event);
  void handle_exit(const Event& event);
  void handle_lost(Event& event);
  bool explains_others(int rank) const;
  Error error_said(const Event& event) const;
  JobNow now() const;
  std::vector<RankFacts> facts() const;
  bool may_shrink() const;
  void lose(const Error& what);
  void check_members();
  void end_left_behind();
  void trouble(const Error& what);
  void fail_job(Error error);
  JobOutcome outcome();

  const LaunchOptions& options_;
  const TaskSpec& spec_;
  TaskSink& sink_;
  const JobGround& ground_;
  std::unique_ptr<launcher::RankGroup> job_;
  launcher::RemoteJob* remote_ = nullptr;
  std::vector<HostEnd> hosts_;
  LastWords last_words_;
  std::vector<RankFacts> ranks_;
  Members members_;
  int64_t began_ns_ = now_ns(), asked_before_ns_ = launcher::asked_ns();
  int64_t start_began_ns_ = began_ns_;  // of the present communicator
  int errors_ = 0;
  bool all_started_ = false;
  Inquiry inquiry_;
  bool asked_why_late_ = false;  // before a deadline of the whole job is its end
  std::string progress_;
  std::optional<Deadline> settle_;         // set by the first failure
  bool ending_ = false;                    // SIGTERM was sent
  std::optional<Deadline> last_deadline_;  // then: what is left by now does not end even by SIGKILL
  int signal_ = 0;                         // that ended the job
  std::optional<Error> job_error_;         // of the job itself: deadlines, defects
};

Status TaskJob::start() {
  COLL_ASSIGN(StartedJob job, start_job(options_, nullptr, ground_.signals, hosts_));
  job_ = std::move(job.group);
  remote_ = job.remote;
  const int ranks = job_->size();
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.emplace_back();
    ranks_.back().end.rank = rank;
    ranks_.back().end.pid = job_->pid(rank);
    ranks_.back().end.host = job_->host(rank);
    members_.add(rank);
  }
  RankConfig config;
  config.size = ranks;
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
  for (int rank = 0; rank < ranks; ++rank) {
    config.rank = rank;
    config.host = ranks_[size_t(rank)].end.host;
    config.settings = for_rank(settings, job.local_rank[size_t(rank)], job.gpus_of[size_t(rank)]);
    const std::string text = config.to_json();
    COLL_TRY(tell(*job_, rank, FrameType::config, base::bytes_of(text)));
    config.hosts.clear();  // rank 0's affair
  }
  inquiry_.open(ground_.open_door());
  return {};
}

JobNow TaskJob::now() const {
  JobNow job{.pid = ::getpid(),
             .what = options_.what,
             .seconds = double(now_ns() - began_ns_) / 1e9,
             .progress = progress_,
             .ranks = {}};
  for (const RankFacts& r : ranks_) {
    const char state = r.exited ? 0 : job_->state(r.end.rank);
    job.ranks.push_back({.rank = r.end.rank,
                         .host = r.end.host,
                         .pid = r.end.pid,
                         .phase = r.end.phase,
                         .state = state == 0 ? "" : std::string(1, state),
                         .doing = inquiry_.doing(r.end.rank)});
  }
  return job;
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
      const auto here = std::count(job.host_of.begin(), job.host_of.end(), job.host_of[rank]);
      COLL_TRY(check_gpus(job.host_of[rank].name, int(here), gpus, options_.oversubscribe));
    }
  return settled(spec_, {choice.on_gpus, choice.why, int(job.host_of.size())});
}

// Without the time in which this process itself did not run, or asked somebody.
double TaskJob::start_age_s() const {
  return double(now_ns() - start_began_ns_ - (launcher::asked_ns() - asked_before_ns_)) / 1e9;
}

Deadline TaskJob::next_deadline() const {
  Deadline next = Deadline::after_seconds(kForever);
  const auto since_start = [&](double s) { return Deadline::at_ns(began_ns_ + int64_t(s * 1e9)); };
  if (inquiry_.answers_by()) next = *inquiry_.answers_by();
  if (settle_) return next.earlier(ending_ ? Deadline::after_seconds(1) : *settle_);
  if (options_.timeout_s > 0 && !asked_why_late_)
    next = next.earlier(since_start(options_.timeout_s));
  if (members_.losing()) return next.earlier(members_.next_look());
  if (!all_started_ && !inquiry_.answers_by())
    next = next.earlier(
        Deadline::after_seconds(options_.start_timeout_s + kStartSlack - start_age_s()));
  return next;
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
  // What they came with is now their last word.
  members_.end_loss();
  for (RankFacts& r : ranks_)
    if (r.broken && !r.end.error) r.end.error = std::exchange(r.broken, std::nullopt);
}

// Those that count: who was left behind explains nothing of what comes after.
std::vector<RankFacts> TaskJob::facts() const {
  std::vector<RankFacts> list;
  for (const RankFacts& r : ranks_)
    if (!r.left_behind) list.push_back(r);
  return list;
}

// Only what was measuring goes on, from rank 0's header on: of a start that fails nothing is there
// to be saved.
bool TaskJob::may_shrink() const {
  return options_.shrink && !settle_ && signal_ == 0 && !job_error_ &&
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
  settle_ = Deadline::after_ns(0);
  end_ranks(0);
}

void TaskJob::fail_job(Error error) {
  if (!job_error_) job_error_ = std::move(error);
  trouble(*job_error_);
}

// A rank's own word, with the rank that found it, and the host of the one that it is about.
Error TaskJob::error_said(const Event& event) const {
  Error error = launcher::decode_error(event.frame.payload);
  if (error.from < 0) error.from = event.rank;
  if (error.rank >= 0 && size_t(error.rank) < ranks_.size() && !error.host.empty())
    error.on(ranks_[size_t(error.rank)].end.host);
  return error;
}

// Whoever is left has said what it knows, or is stopped and cannot.
bool TaskJob::nobody_left_to_hear() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const RankFacts& r) {
    const char state = job_->state(r.end.rank);
    return r.exited || r.end.error || state == 'T' || state == 't';
  });
}

void TaskJob::note(int rank) {
  const auto running = [&](int r) { return started(ranks_[size_t(r)].end.phase); };
  note_progress(hosts_, *job_, rank, running, double(now_ns() - began_ns_) / 1e9);
}

void TaskJob::take_states() {
  for (RankFacts& r : ranks_) r.state = r.exited ? 0 : job_->state(r.end.rank);
}

void TaskJob::end_ranks(double grace_s) {
  if (!ending_) take_states();
  ending_ = true;
  job_->end(grace_s);
  last_deadline_ =
      Deadline::after_seconds(grace_s + (remote_ != nullptr ? kAgentSeconds : kKillSeconds));
}

void TaskJob::check_deadlines() {
  if (settle_ && !ending_ && (settle_->passed() || nobody_left_to_hear()))
    end_ranks(options_.grace_s);
  if (settle_) return;
  const double age = double(now_ns() - began_ns_) / 1e9;
  const bool too_long = options_.timeout_s > 0 && age >= options_.timeout_s;
  const bool no_start = !all_started_ && !members_.losing() &&
                        start_age_s() >= options_.start_timeout_s + kStartSlack;
  if (!too_long && !no_start) return;
  // First they are asked what they do.
  if (!std::exchange(asked_why_late_, true)) inquiry_.ask(*job_, ranks_);
  if (inquiry_.answers_by()) return;
  take_states();
  const std::string waits = awaited_text(now(), kLeastWaitTold);
  fail_job(late_as_a_whole(
      facts(),
      (too_long ? format("the job did not end within {} s (--timeout): ", options_.timeout_s)
                : format("the ranks did not start up within {} s (--start-timeout): ",
                         options_.start_timeout_s)),
      waits));
}

void TaskJob::take_signals() {
  while (const auto number = ground_.signals.take()) {
    if (*number == SIGTSTP) {
      // The ranks are groups of their own, which the terminal does not reach.
      job_->signal_all(SIGTSTP);
      // Agents are not to take this process's silence for its end. A host that is gone is noticed
      // by the next wait.
      if (remote_ != nullptr) static_cast<void>(remote_->announce_silence(kStoppedSeconds));
      ground_.signals.stop();
      continue;
    }
    if (!Interrupts::ends(*number)) {
      job_->signal_all(*number);
      continue;
    }
    // The second one does not wait for the grace.
    end_ranks(signal_ == 0 ? options_.grace_s : 0);
    if (signal_ == 0) signal_ = *number;
    settle_ = Deadline::after_ns(0);
  }
}

void TaskJob::handle_frame(Event& event) {
  RankFacts& r = ranks_[size_t(event.rank)];
  if (r.left_behind) return;
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
      all_started_ = std::all_of(members_.ranks().begin(), members_.ranks().end(), [&](int member) {
        return started(ranks_[size_t(member)].end.phase);
      });
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

void TaskJob::handle_exit(const Event& event) {
  RankFacts& r = ranks_[size_t(event.rank)];
  r.exited = true;
  note(event.rank);
  r.end.exit_code = event.exit_code;
  r.end.exit_signal = event.exit_signal;
  r.end.starved_at = event.starved_at;
  // SIGTERM after an abort is a rank that obeys; any end after end() was called is ours.
  r.ended_by_us = ending_ || (settle_.has_value() && event.exit_signal == SIGTERM);
  if (r.left_behind || !died(r)) return;
  const Error gone =
      Error(ErrorCode::lost, format("rank {} is gone", event.rank)).blame(event.rank);
  // What is a defect of ours does not go unreported.
  return r.end.exit_code == int(ErrorCode::defect) ? trouble(gone) : lose(gone);
}

// The job is ended because ranks lost another, or waited for it: that its host does not answer is
// why, also when it turns out only now.
bool TaskJob::explains_others(int rank) const {
  const std::vector<RankFacts> known = facts();
  if (signal_ != 0 || job_error_ || std::any_of(known.begin(), known.end(), died)) return false;
  const Host& host = ranks_[size_t(rank)].end.host;
  const auto there = [&](int other) {
    return other >= 0 && size_t(other) < ranks_.size() && ranks_[size_t(other)].end.host == host;
  };
  return std::any_of(known.begin(), known.end(), [&](const RankFacts& r) {
    const auto& e = r.end.error;
    return e && (e->code == ErrorCode::lost || e->code == ErrorCode::deadline) &&
           (there(e->rank) || there(e->awaited));
  });
}

void TaskJob::handle_lost(Event& event) {
  RankFacts& r = ranks_[size_t(event.rank)];
  r.exited = true;
  r.ended_by_us = ending_;
  if (r.left_behind || r.end.error || (ending_ && !explains_others(event.rank))) return;
  r.host_lost = true;
  r.end.error = std::move(event.error);
  r.order = errors_++;
  lose(*r.end.error);
}

void TaskJob::handle(Event& event) {
  if (event.kind == EventKind::frame) handle_frame(event);
  if (event.kind == EventKind::exited) handle_exit(event);
  if (event.kind == EventKind::lost) handle_lost(event);
  if (event.kind != EventKind::line) return;
  last_words_.add(event);
  const std::string host = remote_ != nullptr ? ranks_[size_t(event.rank)].end.host.name : "";
  forward_line(event, options_.tag_output ? rank_tag(event.rank, host) : "");
}

Result<std::vector<Event>> TaskJob::wait_for_events() {
  const int wakes[] = {ground_.signals.fd(), inquiry_.fd()};
  return job_->wait(next_deadline(), wakes);
}

Status TaskJob::loop() {
  while (job_->running_count() > 0 && !(last_deadline_ && last_deadline_->passed())) {
    COLL_ASSIGN(std::vector<Event> events, wait_for_events());
    for (Event& event : events) handle(event);
    if (remote_ != nullptr) forward_talk(*remote_, options_);
    take_signals();
    if (inquiry_.look(*job_, ranks_)) inquiry_.answer_outside(json_of(now()));
    check_deadlines();
    check_members();
    end_left_behind();
  }
  return {};
}

JobOutcome TaskJob::outcome() {
  JobOutcome out;
  out.seconds = double(now_ns() - began_ns_) / 1e9;
  for (const RankFacts& r : ranks_) out.ranks.push_back(r.end);
  if (signal_ != 0) {
    out.error = interrupted_error(signal_);
  } else {
    // The job's own error (a deadline of the whole) stands unless the ranks know a worse one.
    out.error = job_error_;
    if (!out.error || out.error->code == ErrorCode::deadline) {
      auto cause = root_cause(facts());
      // A rank that died without a word of ours may have said why in its own way.
      if (cause && cause->rank >= 0 && size_t(cause->rank) < ranks_.size() &&
          !ranks_[size_t(cause->rank)].end.error)
        if (const std::string words = last_words_.of(cause->rank); !words.empty())
          cause->hint += (cause->hint.empty() ? "" : "; ") + words;
      if (cause && (!out.error || base::severity(cause->code) > base::severity(out.error->code)))
        out.error = std::move(cause);
    }
  }
  if (remote_ != nullptr) update_hosts(remote_->pool(), hosts_);
  out.hosts = std::move(hosts_);
  out.exit_code = exit_code_of(out.error);
  return out;
}

JobOutcome TaskJob::run() {
  Status status = start();
  if (status) status = loop();
  if (!status && !job_error_) job_error_ = status.error();
  return outcome();
}

}  // namespace

int exit_code_of(const std::optional<Error>& error) {
  if (!error) return 0;
  return error->code == ErrorCode::interrupted ? 128 + error->signal : int(error->code);
}

JobOutcome failed_outcome(Error error) {
  JobOutcome out;
  out.error = std::move(error);
  out.exit_code = exit_code_of(out.error);
  return out;
}

JobOutcome run_process_job(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
                           const JobGround& ground) {
  return TaskJob(options, spec, sink, ground).run();
}

JobOutcome run_task_job(const LaunchOptions& given, const TaskSpec& spec, TaskSink& sink) {
  LaunchOptions options = given;
  if (Status status = adopt(options); !status) return failed_outcome(status.error());
  if (options.joins()) return run_joined(options, spec, sink);
  if (options.rank_mode == "thread") return run_threads(options, spec, sink);
  const auto guard = launcher_guard(options);
  Interrupts interrupts(Interrupts::Takes::stops);
  return run_process_job(options, spec, sink, {interrupts, [] { return StatusDoor::open(); }});
}

}  // namespace collctl::cmd
