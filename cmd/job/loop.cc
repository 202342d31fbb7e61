#include "cmd/job/loop.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/log.h"

namespace collctl::cmd {
namespace {

using launcher::Event;
using launcher::EventKind;

constexpr double kStoppedSeconds = 86400;  // by Ctrl-Z, at most
constexpr double kLeastWaitTold = 0.5;     // of a job whose time is up
constexpr double kKillSeconds = 10;        // SIGKILL to gone, at most
constexpr double kAgentSeconds = 2;        // to hear of it from an agent, which is else let go
constexpr double kDoingSeconds = 1;        // for ranks to say what they do
constexpr double kStatesSeconds = 0.5;     // for hosts to say how their processes are
constexpr double kStillSeconds = 1;        // until people are told again that the job goes on
constexpr double kUnexplainedSeconds = 3;  // to hear why, of ranks that wait
constexpr int64_t kSendMs = 100;           // to a rank that may not read

}  // namespace

void Inquiry::open(bool answers, bool on_hosts, Result<std::unique_ptr<Door>> door) {
  ranks_answer_ = answers;
  on_hosts_ = on_hosts;
  if (door)
    door_ = std::move(*door);
  else
    COLL_INFO(init, "collctl status cannot ask this job: {}", door.error().chain());
}

void Inquiry::ask(launcher::RankGroup& job, const std::vector<RankFacts>& ranks) {
  answers_.assign(ranks.size(), std::nullopt);
  answers_by_ = Deadline::after_seconds(ranks_answer_ ? kDoingSeconds
                                        : on_hosts_   ? kStatesSeconds
                                                      : 0);
  job.look();
  if (!ranks_answer_) return;
  for (const RankFacts& r : ranks)
    // A rank that cannot be asked is one that does not answer.
    if (!r.exited)
      static_cast<void>(
          job.send(r.end.rank, launcher::FrameType::ask, {}, Deadline::after_ms(kSendMs)));
}

void Inquiry::answered(int rank, RankDoing doing) {
  if (size_t(rank) < answers_.size()) answers_[size_t(rank)] = std::move(doing);
}

std::optional<RankDoing> Inquiry::doing(int rank) const {
  return size_t(rank) < answers_.size() ? answers_[size_t(rank)] : std::nullopt;
}

// But for those that are stopped, or have nothing to tell yet but their process' state.
bool Inquiry::all_have_answered(launcher::RankGroup& job,
                                const std::vector<RankFacts>& ranks) const {
  return ranks_answer_ && std::ranges::all_of(ranks, [&](const RankFacts& r) {
           const char state = job.state(r.end.rank);
           return r.exited || answers_[size_t(r.end.rank)] || state == 'T' || state == 't' ||
                  (!started(r.end.phase) && state != '?');
         });
}

bool Inquiry::look(launcher::RankGroup& job, const std::vector<RankFacts>& ranks) {
  if (door_ != nullptr && door_->take()) {
    from_outside_ = true;
    if (!answers_by_) ask(job, ranks);
  }
  if (!answers_by_ || (!answers_by_->passed() && !all_have_answered(job, ranks))) return false;
  answers_by_.reset();
  return std::exchange(from_outside_, false);
}

void Inquiry::answer_outside(std::string text) {
  if (door_ != nullptr) door_->answer(std::move(text));
}

void JobLoop::take_over(StartedJob& job, bool answers) {
  job_ = std::move(job.group);
  remote_ = job.remote;
  in_process_ = job.in_process;
  only_ = job.only;
  ranks_.resize(size_t(job_->size()));
  for (int rank = 0; rank < job_->size(); ++rank) {
    RankFacts& r = ranks_[size_t(rank)];
    r.end.rank = rank;
    r.exited = r.left_behind = only_ >= 0 && rank != only_;
    if (r.left_behind) continue;
    r.end.pid = job_->pid(rank);
    r.end.host = job_->host(rank);
  }
  inquiry_.open(answers, remote_ != nullptr, ground_.open_door());
}

JobNow JobLoop::now() const {
  JobNow job{.pid = ::getpid(),
             .what = options_.what,
             .seconds = age_s(),
             .progress = progress_,
             .answers = inquiry_.ranks_answer()};
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

// Those that count: who was left behind explains nothing of what comes after.
std::vector<RankFacts> JobLoop::facts() const {
  std::vector<RankFacts> list;
  for (const RankFacts& r : ranks_)
    if (!r.left_behind) list.push_back(r);
  return list;
}

void JobLoop::note(int rank) {
  const auto running = [&](int r) { return started(ranks_[size_t(r)].end.phase); };
  note_progress(hosts_, *job_, rank, running, age_s());
}

void JobLoop::take_states() {
  for (RankFacts& r : ranks_) r.state = r.exited ? 0 : job_->state(r.end.rank);
}

void JobLoop::end_ranks(double grace_s, int signal_number) {
  if (!ending_) take_states();
  ending_ = true;
  if (signal_number != 0)
    job_->interrupt(signal_number, grace_s);
  else
    job_->end(grace_s);
  // Threads cannot be killed: their own deadlines end them.
  if (!in_process_)
    last_deadline_ =
        Deadline::after_seconds(grace_s + (remote_ != nullptr ? kAgentSeconds : kKillSeconds));
}

void JobLoop::end_now(double grace_s, int signal_number) {
  settle_ = Deadline::after_ns(0);
  end_ranks(grace_s, signal_number);
}

void JobLoop::fail_job(Error error) {
  if (!job_error_) job_error_ = std::move(error);
  trouble(*job_error_);
}

Deadline JobLoop::next_deadline() const {
  Deadline next = Deadline::after_seconds(kForever);
  if (inquiry_.answers_by()) next = *inquiry_.answers_by();
  if (settle_) return next.earlier(ending_ ? Deadline::after_seconds(1) : *settle_);
  if (options_.timeout_s > 0 && !asked_why_late_)
    next = next.earlier(Deadline::at_ns(began_ns_ + int64_t(options_.timeout_s * 1e9)));
  return next.earlier(own_deadline());
}

std::string JobLoop::overdue() const {
  if (options_.timeout_s <= 0 || age_s() < options_.timeout_s) return "";
  return format("the job did not end within {} s (--timeout): ", options_.timeout_s);
}

// Each rank that is left has said what it knows, or is stopped and cannot.
bool JobLoop::nobody_left_to_hear() const {
  return std::ranges::all_of(ranks_, [&](const RankFacts& r) {
    if (r.exited || r.end.error) return true;
    const char state = job_->state(r.end.rank);
    return state == 'T' || state == 't';
  });
}

void JobLoop::check_deadlines() {
  if (settle_ && !ending_ && settle_->passed() && !std::exchange(heard_on_, true)) {
    take_states();
    if (unexplained()) settle_ = Deadline::after_seconds(kUnexplainedSeconds);
  }
  if (settle_ && !ending_ && (settle_->passed() || nobody_left_to_hear()))
    end_ranks(options_.grace_s);
  if (settle_) return;
  std::string what = overdue();
  if (what.empty()) return;
  // First they are asked what they do.
  if (!std::exchange(asked_why_late_, true)) inquiry_.ask(*job_, ranks_);
  if (inquiry_.answers_by()) return;
  take_states();
  fail_job(late_as_a_whole(facts(), std::move(what), awaited_text(now(), kLeastWaitTold)));
}

// Ctrl-Z: the ranks stop (they are groups of their own, which the terminal does not reach), then
// this process.
void JobLoop::suspend() {
  job_->signal_all(SIGTSTP);
  // To other hosts it must be on its way before that, and agents are not to take the silence for
  // this process's end. A host that is gone is noticed by the next wait.
  if (remote_ != nullptr) static_cast<void>(remote_->announce_silence(kStoppedSeconds));
  ground_.signals.stop();
}

void JobLoop::take_signals() {
  while (const auto number = ground_.signals.take()) {
    if (*number == SIGTSTP) {
      suspend();
    } else if (!Interrupts::ends(*number)) {
      job_->signal_all(*number);
    } else {
      // The second one does not wait for the grace.
      end_now(signal_ == 0 ? options_.grace_s : 0, *number);
      if (signal_ == 0) signal_ = *number;
    }
  }
}

Status JobLoop::handle(Event& event) {
  RankFacts& r = ranks_[size_t(event.rank)];
  switch (event.kind) {
    case EventKind::frame:
      if (!r.left_behind) handle_frame(event);
      return {};
    case EventKind::line:
      last_words_.add(event);
      return handle_line(event);
    case EventKind::exited:
      r.exited = true;
      note(event.rank);
      r.end.exit_code = event.exit_code;
      r.end.exit_signal = event.exit_signal;
      r.end.starved_at = event.starved_at;
      // SIGTERM after an abort is a rank that obeys; any end after end() was called is ours.
      r.end.ended_by_us = ending_ || (settle_.has_value() && event.exit_signal == SIGTERM);
      handle_exit(r);
      return {};
    case EventKind::lost:
      r.exited = true;
      r.end.ended_by_us = ending_;
      handle_lost(r, std::move(event.error));
      return {};
  }
  return {};
}

Result<std::vector<Event>> JobLoop::wait(Deadline until) {
  const int wakes[] = {ground_.signals.fd(), inquiry_.fd()};
  return job_->wait(until, wakes);
}

Status JobLoop::turn() {
  Deadline next = next_deadline();
  if (options_.talk.still) {
    options_.talk.still();
    next = next.earlier(Deadline::after_seconds(kStillSeconds));
  }
  COLL_ASSIGN(std::vector<Event> events, wait(next));
  for (Event& event : events) COLL_TRY(handle(event));
  if (remote_ != nullptr) forward_talk(*remote_, options_);
  take_signals();
  if (inquiry_.look(*job_, ranks_)) inquiry_.answer_outside(json_of(now()));
  check_deadlines();
  return tend();
}

JobOutcome JobLoop::run() {
  Status status = start();
  while (status && job_->running_count() > 0 && !(last_deadline_ && last_deadline_->passed()))
    status = turn();
  if (status) status = finish();
  if (!status && !job_error_) job_error_ = std::move(status.error());
  JobOutcome out;
  out.seconds = age_s();
  for (const RankFacts& r : ranks_)
    if (only_ < 0 || r.end.rank == only_) out.ranks.push_back(r.end);
  if (remote_ != nullptr) update_hosts(remote_->pool(), hosts_);
  out.hosts = hosts_;
  if (signal_ != 0)
    out.error = interrupted_error(signal_);
  else
    judge(out);
  if (out.exit_code == 0) out.exit_code = exit_code_of(out.error);
  return out;
}

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

}  // namespace collctl::cmd
