// One rank of a job that somebody else started: --join HOST:PORT --rank R --size N, or
// COLLCTL_COMM_ID under another engine. Rank 0 runs the root, feeds the sink and prints; in the end
// all ranks agree on the worst exit code.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "cmd/abort_scope.h"
#include "cmd/interrupt.h"
#include "cmd/job_config.h"
#include "cmd/job_modes.h"
#include "launcher/adopt.h"
#include "runtime/bootstrap.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostTokenBytes = 4096;
constexpr double kAbortSeconds = 2.0;  // from a signal to the end of the measurement

Result<std::string> read_token(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return base::errno_error(ErrorCode::usage, format("--token-file {}", path), errno);
  std::string text(kMostTokenBytes + 1, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) return base::errno_error(ErrorCode::usage, format("--token-file {}", path), errno);
  text.resize(size_t(n));
  if (text.size() > kMostTokenBytes)
    return Error(ErrorCode::usage,
                 format("--token-file {}: longer than {} bytes", path, kMostTokenBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  if (text.empty()) return Error(ErrorCode::usage, format("--token-file {}: is empty", path));
  return text;
}

Result<runtime::UniqueId> joined_id(const LaunchOptions& options) {
  std::string token = base::knob_text(base::KnobId::token);
  if (!options.token_file.empty()) {
    COLL_ASSIGN(token, read_token(options.token_file));
  }
  return runtime::unique_id_from_environment(options.join, token);
}

// Every rank sees every row and so comes to the same verdict and exit code; the report behind
// `inner` speaks on rank 0 only.
class JoinSink : public BenchSink {
 public:
  explicit JoinSink(BenchSink& inner) : inner_(inner) {}
  bool every_rank() const override { return true; }
  void header(const BenchHeader& h) override { inner_.header(h); }
  void row(const BenchRow& r) override { inner_.row(r); }
  void progress(const std::string& t) override { inner_.progress(t); }
  void fault(const DataFault& f) override { inner_.fault(f); }
  void phase(int rank, const std::string& name) override {
    last_phase_ = name;
    inner_.phase(rank, name);
  }
  const std::string& last_phase() const { return last_phase_; }

 private:
  BenchSink& inner_;
  std::string last_phase_;
};

// Turns a signal or --timeout into an abort of the measurement, from a thread of its own.
class JoinWatch {
 public:
  explicit JoinWatch(double timeout_s) : timeout_s_(timeout_s) {
    thread_ = std::thread([this] { watch(); });
  }
  ~JoinWatch() { stop(); }
  std::optional<Error> stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return why_;
  }

 private:
  void watch() {
    const int64_t began_ns = now_ns();
    std::optional<Deadline> leave_at;
    while (!stopping_) {
      pollfd p{interrupts_.fd(), POLLIN, 0};
      // Ends with a signal; the short deadline is for stop() and --timeout.
      if (!base::poll_fds({&p, 1}, Deadline::after_ms(50))) return;
      const auto number = interrupts_.take();
      if (number && why_) die_by(*number);
      if (number) why_ = interrupted_error(*number);
      if (!why_ && timeout_s_ > 0 && double(now_ns() - began_ns) / 1e9 >= timeout_s_)
        why_ = Error(ErrorCode::deadline,
                     format("the job did not end within {} s (--timeout)", timeout_s_));
      if (why_ && !leave_at) {
        leave_at = Deadline::after_seconds(kAbortSeconds);
        abort_running(*why_);
      }
      if (why_ && why_->signal != 0 && leave_at->passed()) die_by(why_->signal);
    }
  }
  // Inside start-up nothing can be aborted: the process ends by the signal that was asked for.
  void die_by(int number) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }

  double timeout_s_;
  Interrupts interrupts_{false};
  std::atomic<bool> stopping_ = false;
  std::optional<Error> why_;
  std::thread thread_;
};

}  // namespace

Status adopt(LaunchOptions& options, bool asked) {
  if (!options.join.empty()) return {};
  const std::string comm_id = base::knob_text(base::KnobId::comm_id);
  if (comm_id.empty()) {
    if (!asked) return {};
    return Error(ErrorCode::usage, "--launcher adopt needs the address of rank 0",
                 "set COLLCTL_COMM_ID=HOST:PORT (a free port of rank 0's host) for all ranks");
  }
  COLL_ASSIGN(const auto found, launcher::adopted_rank(base::environment));
  if (!found) {
    if (!asked) return {};
    return Error(ErrorCode::usage, "--launcher adopt: no engine has given this process a rank",
                 "set RANK and WORLD_SIZE, or use --join HOST:PORT --rank R --size N");
  }
  options.join = comm_id;
  options.join_rank = found->rank;
  options.join_size = found->size;
  return {};
}

JobOutcome run_joined(const LaunchOptions& options, const BenchSpec& given, BenchSink& sink) {
  const int64_t began_ns = now_ns();
  if (options.join_size < 1 || options.join_rank < 0 || options.join_rank >= options.join_size)
    return failed_outcome(
        Error(ErrorCode::usage, format("--rank {} --size {}: expected 0 <= rank < size",
                                       options.join_rank, options.join_size)));
  auto log = base::log_options_from_knobs(options.verbosity);
  if (!log) return failed_outcome(log.error());
  if (Status s = base::log_configure(*log, options.join_rank); !s) return failed_outcome(s.error());
  auto id = joined_id(options);
  if (!id) return failed_outcome(id.error());
  clear_abort();
  JoinSink join_sink(sink);
  const BenchSpec spec = completed(given, options);
  JoinWatch watch(options.timeout_s);
  const auto measure = [&]() -> Status {
    std::unique_ptr<runtime::BootstrapRoot> root;
    if (options.join_rank == 0) {
      COLL_ASSIGN(root,
                  runtime::BootstrapRoot::start(
                      {.listen_at = id->root_address(), .secret = id->secret, .reuse_port = true}));
    }
    return bench_rank(spec, *id, options.join_rank, options.join_size, join_sink);
  };
  Status status = measure();
  JobOutcome out;
  out.error = watch.stop();
  if (!out.error && !status) out.error = status.error();
  out.exit_code = exit_code_of(out.error);
  out.seconds = double(now_ns() - began_ns) / 1e9;
  RankEnd end;
  end.rank = options.join_rank;
  end.host = base::host_name();
  end.pid = ::getpid();
  end.exit_code = out.exit_code;
  end.phase = status ? "done" : join_sink.last_phase();
  end.error = out.error;
  out.ranks.push_back(std::move(end));
  return out;
}

}  // namespace collctl::cmd
