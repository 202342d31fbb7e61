// run_program_job: any program as ranks of this host. Its standard streams belong to it; we add who
// is who, end all when one fails, and pass its exit code on.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "cmd/job/config.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/job_status.h"
#include "cmd/job/last_words.h"
#include "cmd/job/modes.h"
#include "cmd/job/rank_output.h"
#include "cmd/job/root_cause.h"
#include "cmd/job/start.h"
#include "cmd/job/status_door.h"

namespace collctl::cmd {
namespace {

using launcher::Event;
using launcher::EventKind;

constexpr double kNoTimeLimit = 1e6;
constexpr double kProgramKillSeconds = 10;  // SIGKILL to gone, at most
constexpr double kProgramAgentSeconds = 2;  // to hear of it from an agent, which is else let go
constexpr double kStatesSeconds = 0.5;      // for hosts to say how their processes are
constexpr size_t kStdinAhead = 256 << 10;   // read from our standard input before ranks take it
constexpr double kLastWordsSeconds = 1;     // for a reader to take what is left after a signal
constexpr int64_t kLogMs = 200;             // for the reader of the ranks' log, each line
constexpr int64_t kOutputMs = 20;           // how long unwritten output waits behind rank events

class ProgramJob {
 public:
  ProgramJob(const LaunchOptions& options, const std::vector<std::string>& program)
      : options_(options), program_(program) {}
  JobOutcome run();

 private:
  Status start();
  Status loop();
  Status turn();
  Status drain_output();
  void handle_exit(const Event& event);
  void handle_lost(const Event& event);
  void take_signals();
  void check_deadline();
  void tell_who_asked();
  void end_ranks(double grace_s);
  bool wants_stdin() const;
  void feed_stdin();
  void suspend();
  JobOutcome outcome();

  const LaunchOptions& options_;
  const std::vector<std::string>& program_;
  Interrupts interrupts_{true};
  std::optional<RankOutput> output_;
  std::unique_ptr<launcher::RankGroup> job_;
  launcher::RemoteJob* remote_ = nullptr;
  std::vector<HostEnd> hosts_;
  LastWords last_words_;
  std::vector<RankEnd> ends_;
  std::vector<int> readers_;  // ranks that get our standard input and still take it
  int64_t began_ns_ = now_ns();
  bool ending_ = false;
  std::optional<Deadline> last_deadline_;  // once ending: what is left does not end even by SIGKILL
  int signal_ = 0;                         // that ended the job
  int failed_ = -1;                        // the first rank that failed by itself
  bool reader_gone_ = false;               // of our standard output or error
  std::optional<Error> job_error_;
  std::unique_ptr<Door> door_;         // null: this host has no place for it
  std::optional<Deadline> states_by_;  // somebody asked, and other hosts may not have answered
};

Status ProgramJob::start() {
  base::raise_open_file_limit();
  OutputPolicy policy{
      .tag = options_.tag_output, .gather = options_.gather, .directory = options_.output_dir};
  // A folder that cannot be made is told before anything runs.
  COLL_TRY(RankOutput::open(policy, 0));
  COLL_ASSIGN(StartedJob job, start_job(options_, &program_, interrupts_, hosts_));
  job_ = std::move(job.group);
  remote_ = job.remote;
  const int ranks = job_->size();
  if (remote_ != nullptr) policy.hosts = job.names();
  COLL_ASSIGN(RankOutput output, RankOutput::open(policy, ranks));
  output_ = std::move(output);
  ends_.resize(size_t(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    if (reads_stdin(options_, rank)) readers_.push_back(rank);
    ends_[size_t(rank)].rank = rank;
    ends_[size_t(rank)].pid = job_->pid(rank);
    ends_[size_t(rank)].host = job_->host(rank);
    ends_[size_t(rank)].phase = "running";
    note_progress(
        hosts_, *job_, rank, [](int) { return true; }, double(now_ns() - began_ns_) / 1e9);
  }
  auto door = StatusDoor::open();
  if (door)
    door_ = std::move(*door);
  else
    COLL_INFO(init, "collctl status cannot ask this job: {}", door.error().chain());
  return {};
}

// A program's ranks say nothing: how their processes are is all there is.
void ProgramJob::tell_who_asked() {
  if (door_ == nullptr) return;
  if (door_->take()) {
    job_->look();
    states_by_ = Deadline::after_seconds(remote_ != nullptr ? kStatesSeconds : 0);
  }
  if (!states_by_ || !states_by_->passed()) return;
  states_by_.reset();
  JobNow job{.pid = ::getpid(),
             .what = program_[0].substr(0, 4096),
             .seconds = double(now_ns() - began_ns_) / 1e9,
             .answers = false,
             .ranks = {}};
  for (const RankEnd& end : ends_) {
    const char state = job_->running(end.rank) ? job_->state(end.rank) : char(0);
    job.ranks.push_back({.rank = end.rank,
                         .host = end.host,
                         .pid = end.pid,
                         .phase = end.phase,
                         .state = state == 0 ? "" : std::string(1, state),
                         .doing = std::nullopt});
  }
  door_->answer(json_of(job));
}

void ProgramJob::end_ranks(double grace_s) {
  ending_ = true;
  job_->end(grace_s);
  last_deadline_ = Deadline::after_seconds(
      grace_s + (remote_ != nullptr ? kProgramAgentSeconds : kProgramKillSeconds));
}

void ProgramJob::handle_exit(const Event& event) {
  RankEnd& end = ends_[size_t(event.rank)];
  end.exit_code = event.exit_code;
  end.exit_signal = event.exit_signal;
  end.starved_at = event.starved_at;
  end.phase = "done";
  note_progress(
      hosts_, *job_, event.rank, [](int) { return true; }, double(now_ns() - began_ns_) / 1e9);
  std::erase(readers_, event.rank);
  if ((event.exit_code == 0 && event.exit_signal == 0) || ending_) return;
  failed_ = event.rank;
  end_ranks(options_.grace_s);
}

void ProgramJob::handle_lost(const Event& event) {
  ends_[size_t(event.rank)].error = event.error;
  std::erase(readers_, event.rank);
  if (ending_) return;
  job_error_ = event.error;
  end_ranks(options_.grace_s);
}

// Ctrl-Z: the ranks stop (they are groups of their own, the terminal does not reach them), then we.
void ProgramJob::suspend() {
  job_->signal_all(SIGTSTP);
  // To other hosts it must be on its way before we stop: else agents take our silence for our end.
  // A host that is gone is noticed by the next wait.
  static_cast<void>(job_->keep_alive());
  interrupts_.stop();  // until SIGCONT, which is then forwarded like the others
}

void ProgramJob::take_signals() {
  while (const auto number = interrupts_.take()) {
    if (*number == SIGTSTP) {
      suspend();
    } else if (!Interrupts::ends(*number)) {
      job_->signal_all(*number);
    } else {
      // The second one does not wait for the grace.
      end_ranks(signal_ == 0 ? options_.grace_s : 0);
      if (signal_ == 0) signal_ = *number;
    }
  }
}

void ProgramJob::check_deadline() {
  if (ending_ || options_.timeout_s <= 0 || double(now_ns() - began_ns_) / 1e9 < options_.timeout_s)
    return;
  std::vector<RankFacts> facts;
  job_->look();
  for (const RankEnd& end : ends_)
    facts.push_back(
        {.end = end, .exited = !job_->running(end.rank), .state = job_->state(end.rank)});
  job_error_ = Error(ErrorCode::deadline, format("the job did not end within {} s (--timeout): {}",
                                                 options_.timeout_s, where_they_are(facts)));
  end_ranks(options_.grace_s);
}

bool ProgramJob::wants_stdin() const {
  return !readers_.empty() && std::all_of(readers_.begin(), readers_.end(), [&](int rank) {
    return job_->stdin_pending(rank) < kStdinAhead;
  });
}

void ProgramJob::feed_stdin() {
  pollfd p{STDIN_FILENO, POLLIN, 0};
  const auto ready = base::poll_fds({&p, 1}, Deadline::after_ns(0));
  if (!ready || *ready == 0) return;
  Bytes block(64 << 10);
  const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    for (const int rank : readers_) job_->close_stdin(rank);
    readers_.clear();
    return;
  }
  block.resize(size_t(n));
  // A rank that has closed its end wants no more; that is no failure.
  std::erase_if(readers_, [&](int rank) {
    return !job_->write_stdin(rank, block, Deadline::after_seconds(1)).ok();
  });
}

// Waits for our own output's reader while ranks are held back, or a short while for the rest.
Status ProgramJob::drain_output() {
  COLL_TRY(output_->flush());
  if (!output_->full()) return {};
  std::vector<pollfd> fds{{interrupts_.fd(), POLLIN, 0}};
  output_->add_interest(fds);
  COLL_TRY(base::poll_fds(fds, Deadline::after_seconds(1)));
  return output_->flush();
}

Status ProgramJob::turn() {
  Deadline until = Deadline::after_seconds(ending_ ? 1 : kNoTimeLimit);
  if (options_.timeout_s > 0)
    until = until.earlier(Deadline::at_ns(began_ns_ + int64_t(options_.timeout_s * 1e9)));
  if (states_by_) until = until.earlier(*states_by_);
  if (!output_->empty()) until = until.earlier(Deadline::after_ms(kOutputMs));
  if (output_->full()) until = Deadline::after_ns(0);
  if (!output_->full() || ending_) {
    const int wake[] = {interrupts_.fd(), wants_stdin() ? STDIN_FILENO : -1,
                        door_ != nullptr ? door_->fd() : -1};
    COLL_ASSIGN(std::vector<Event> events, job_->wait(until, wake));
    for (const Event& event : events) {
      if (event.kind == EventKind::line) {
        last_words_.add(event);
        COLL_TRY(output_->add(event));
      }
      if (event.kind == EventKind::exited) handle_exit(event);
      if (event.kind == EventKind::lost) handle_lost(event);
    }
  } else {
    COLL_TRY(job_->keep_alive());
  }
  if (remote_ != nullptr) forward_talk(*remote_, options_);
  take_signals();
  tell_who_asked();
  check_deadline();
  if (wants_stdin()) feed_stdin();
  return drain_output();
}

Status ProgramJob::loop() {
  while (job_->running_count() > 0 && !(last_deadline_ && last_deadline_->passed()))
    COLL_TRY(turn());
  output_->finish();
  // The ranks are gone; what they said still has to reach its reader, who ends this by reading, by
  // going away, or with a signal. A job that was ended by a signal or its time limit does not wait
  // for a reader that sleeps.
  const bool ended = signal_ != 0 || (job_error_ && job_error_->code == ErrorCode::deadline);
  const Deadline leave = Deadline::after_seconds(ended ? kLastWordsSeconds : kNoTimeLimit);
  while (!output_->empty() && !leave.passed()) {
    std::vector<pollfd> fds{{interrupts_.fd(), POLLIN, 0}};
    output_->add_interest(fds);
    COLL_TRY(base::poll_fds(fds, leave.earlier(Deadline::after_seconds(1))));
    COLL_TRY(output_->flush());
    const auto number = interrupts_.take();
    if (!number || !Interrupts::ends(*number)) continue;
    if (signal_ == 0) signal_ = *number;
    break;
  }
  return {};
}

JobOutcome ProgramJob::outcome() {
  JobOutcome out;
  out.seconds = double(now_ns() - began_ns_) / 1e9;
  out.ranks = ends_;
  if (remote_ != nullptr) update_hosts(remote_->pool(), hosts_);
  out.hosts = hosts_;
  if (signal_ != 0) {
    out.error = interrupted_error(signal_);
  } else if (reader_gone_) {
    out.exit_code = 128 + SIGPIPE;
    return out;
  } else if (job_error_) {
    out.error = job_error_;
  } else if (failed_ >= 0) {
    const RankEnd& end = ends_[size_t(failed_)];
    const std::string who = format("rank {} (pid {}, host {})", failed_, end.pid, end.host);
    out.error = end.exit_signal != 0
                    ? Error(ErrorCode::lost,
                            format("{} of '{}' was killed by signal {} ({})", who, program_[0],
                                   end.exit_signal, signal_name(end.exit_signal)))
                    : Error(ErrorCode::lost, format("{} of '{}' ended with exit code {}", who,
                                                    program_[0], end.exit_code));
    out.error->rank = failed_;
    // In a file, in a group or far up in the stream of all: here they are at hand.
    out.error->hint = last_words_.of(failed_);
    if (end.starved_at != 0)
      out.error->hint += (out.error->hint.empty() ? "" : "; ") + starved_hint(end.starved_at);
    out.error->on(end.host);
    out.exit_code = end.exit_signal != 0 ? 128 + end.exit_signal : end.exit_code;
    return out;
  }
  if (!out.error) out.error = left_out(out.hosts);
  out.exit_code = exit_code_of(out.error);
  return out;
}

JobOutcome ProgramJob::run() {
  Status status =
      program_.empty() ? Status(Error(ErrorCode::usage, "no program was given after --")) : start();
  if (status) status = loop();
  if (!status && status.error().code == ErrorCode::lost && job_ != nullptr) {
    // As in any pipeline a reader that goes away ends the writers: the code of SIGPIPE, no words.
    reader_gone_ = true;
  } else if (!status && !job_error_) {
    job_error_ = std::move(status.error());
  }
  return outcome();
}

}  // namespace

JobOutcome run_program_job(const LaunchOptions& options, const std::vector<std::string>& program) {
  const auto guard = launcher_guard(options);
  return ProgramJob(options, program).run();
}

void forward_line(const Event& event, const std::string& tag) {
  static std::atomic<size_t> dropped{0};
  std::string text = tag + event.line + "\n";
  // A reader that sleeps must not hold up the job: hosts would take that for its end. Once a line
  // has waited in vain the next ones do not wait.
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  const auto room = base::poll_fds({&ready, 1}, Deadline::after_ms(dropped > 0 ? 0 : kLogMs));
  if (!room.ok() || *room == 0) {
    ++dropped;
    return;
  }
  if (const size_t lost = dropped.exchange(0); lost > 0)
    text = format("collctl: note: {} lines of the ranks' log were dropped: nobody read them\n{}",
                  lost, text);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a log that nobody takes must not end the measurement
    left.remove_prefix(size_t(n));
  }
}

}  // namespace collctl::cmd
