// run_program_job: any program as ranks of this host or others. Its standard streams belong to it;
// the job adds who is who, ends all when one fails, and passes its exit code on.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/job/loop.h"
#include "cmd/job/rank_output.h"

namespace collctl::cmd {
namespace {

using launcher::Event;

constexpr size_t kStdinAhead = 256 << 10;  // read from our standard input before ranks take it
constexpr double kLastWordsSeconds = 1;    // for a reader to take what is left after a signal
constexpr int64_t kOutputMs = 20;          // how long unwritten output waits behind rank events

class ProgramJob : public JobLoop {
 public:
  ProgramJob(const LaunchOptions& options, const std::vector<std::string>& program,
             const JobGround& ground)
      : JobLoop(options, ground), program_(program) {}

 private:
  Status start() override;
  Result<std::vector<Event>> wait(Deadline until) override;
  Status handle_line(const Event& line) override { return to_reader(output_->add(line)); }
  void handle_exit(RankFacts& rank) override;
  void handle_lost(RankFacts& rank, Error why) override;
  Status tend() override;
  Status finish() override;
  void judge(JobOutcome& out) override;
  Error failure_of(const RankEnd& end) const;
  bool wants_stdin() const;
  void feed_stdin();
  Status drain_output();
  Status to_reader(Status status);

  const std::vector<std::string>& program_;
  std::optional<RankOutput> output_;
  std::vector<int> readers_;  // ranks that get our standard input and still take it
  int failed_ = -1;           // the first rank that failed by itself
  bool reader_gone_ = false;  // of our standard output or error
};

Status ProgramJob::start() {
  if (program_.empty()) return Error(ErrorCode::usage, "no program was given after --");
  base::raise_open_file_limit();
  OutputPolicy policy{
      .tag = options_.tag_output, .gather = options_.gather, .directory = options_.output_dir};
  // A folder that cannot be made is told before anything runs.
  COLL_TRY(RankOutput::open(policy, 0));
  COLL_ASSIGN(StartedJob job, start_job(options_, &program_, ground_.signals, hosts_));
  take_over(job, false);
  if (remote_ != nullptr) policy.hosts = job.names();
  COLL_ASSIGN(RankOutput output, RankOutput::open(policy, job_->size()));
  output_ = std::move(output);
  for (RankFacts& r : ranks_) {
    if (reads_stdin(options_, r.end.rank)) readers_.push_back(r.end.rank);
    r.end.phase = "running";
    note(r.end.rank);
  }
  return {};
}

void ProgramJob::handle_exit(RankFacts& r) {
  r.end.phase = "done";
  std::erase(readers_, r.end.rank);
  if ((r.end.exit_code == 0 && r.end.exit_signal == 0) || ending_) return;
  failed_ = r.end.rank;
  end_now(options_.grace_s);
}

void ProgramJob::handle_lost(RankFacts& r, Error why) {
  r.end.error = std::move(why);
  std::erase(readers_, r.end.rank);
  if (!ending_) fail_job(*r.end.error);
}

bool ProgramJob::wants_stdin() const {
  return !readers_.empty() && std::ranges::all_of(readers_, [&](int rank) {
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
  std::vector<pollfd> fds{{ground_.signals.fd(), POLLIN, 0}};
  output_->add_interest(fds);
  COLL_TRY(base::poll_fds(fds, Deadline::after_seconds(1)));
  return output_->flush();
}

// While their output has no room ranks are held back.
Result<std::vector<Event>> ProgramJob::wait(Deadline until) {
  if (output_->full() && !ending_) {
    COLL_TRY(job_->keep_alive());
    return std::vector<Event>();
  }
  if (!output_->empty()) until = until.earlier(Deadline::after_ms(output_->full() ? 0 : kOutputMs));
  const int wakes[] = {ground_.signals.fd(), wants_stdin() ? STDIN_FILENO : -1, inquiry_.fd()};
  return job_->wait(until, wakes);
}

Status ProgramJob::tend() {
  if (wants_stdin()) feed_stdin();
  return to_reader(drain_output());
}

// The ranks are gone; what they said still has to reach its reader, who ends this by reading, by
// going away, or with a signal. A job that was ended by a signal or its time limit does not wait
// for a reader that sleeps.
Status ProgramJob::finish() {
  output_->finish();
  const bool ended = signal_ != 0 || (job_error_ && job_error_->code == ErrorCode::deadline);
  const Deadline leave = Deadline::after_seconds(ended ? kLastWordsSeconds : kForever);
  while (!output_->empty() && !leave.passed()) {
    std::vector<pollfd> fds{{ground_.signals.fd(), POLLIN, 0}};
    output_->add_interest(fds);
    COLL_TRY(base::poll_fds(fds, leave.earlier(Deadline::after_seconds(1))));
    COLL_TRY(to_reader(output_->flush()));
    const auto number = ground_.signals.take();
    if (!number || !Interrupts::ends(*number)) continue;
    if (signal_ == 0) signal_ = *number;
    break;
  }
  return {};
}

// As in any pipeline a reader that goes away ends the writers: the code of SIGPIPE, no words.
Status ProgramJob::to_reader(Status status) {
  if (!status && status.error().code == ErrorCode::lost) reader_gone_ = true;
  return status;
}

Error ProgramJob::failure_of(const RankEnd& end) const {
  const std::string who =
      format("rank {} (pid {}, host {}) of '{}'", end.rank, end.pid, end.host, program_[0]);
  Error error(ErrorCode::lost, end.exit_signal != 0
                                   ? format("{} was killed by signal {} ({})", who, end.exit_signal,
                                            signal_name(end.exit_signal))
                                   : format("{} ended with exit code {}", who, end.exit_code));
  // In a file, in a group or far up in the stream of all: here they are at hand.
  error.hint = last_words_.of(end.rank);
  if (end.starved_at != 0)
    error.hint += (error.hint.empty() ? "" : "; ") + starved_hint(end.starved_at);
  error.rank = end.rank;
  error.on(end.host);
  return error;
}

void ProgramJob::judge(JobOutcome& out) {
  if (reader_gone_) {
    out.exit_code = 128 + SIGPIPE;
  } else if (job_error_) {
    out.error = job_error_;
  } else if (failed_ >= 0) {
    const RankEnd& end = ranks_[size_t(failed_)].end;
    out.error = failure_of(end);
    out.exit_code = end.exit_signal != 0 ? 128 + end.exit_signal : end.exit_code;
  } else {
    out.error = left_out(out.hosts);
  }
}

}  // namespace

JobOutcome run_program_job(const LaunchOptions& given, const std::vector<std::string>& program) {
  LaunchOptions options = given;
  if (!program.empty()) options.what = program[0].substr(0, 4096);
  const auto guard = launcher_guard(options);
  Interrupts interrupts(Interrupts::Takes::all);
  return ProgramJob(options, program, {interrupts, [] { return StatusDoor::open(); }}).run();
}

}  // namespace collctl::cmd
