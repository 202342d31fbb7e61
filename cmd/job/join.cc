// One rank of a job that somebody else started: --join HOST:PORT --rank R --size N, or under
// another engine (adopt.cc). Rank 0 runs the root, feeds the sink and prints; in the end all
// ranks agree on the worst exit code.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/thrown.h"
#include "cmd/job/config.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/modes.h"
#include "cmd/job/token.h"
#include "cmd/measure/abort_scope.h"
#include "cmd/measure/mpi_world.h"
#include "launcher/adopt/pmi1.h"
#include "launcher/adopt/pmix.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/meeting.h"

namespace collctl::cmd {
namespace {

constexpr double kAbortSeconds = 2.0;        // from a signal to the end of the measurement
constexpr double kLeaveSeconds = 5.0;        // the engine's answer to our leave; rank 0's report
constexpr double kInterruptedSeconds = 1.0;  // the same for who was told to end
constexpr double kMpiSeconds = 1.0;          // for MPI to end after a failure
constexpr double kDeclineSeconds = 5.0;      // for ranks that are not there yet to be told

using Store = launcher::KeyValueStore;

// How this rank knows the job; on rank 0 with the root that the others connect to.
Result<JobRoot> meet_at_address(const LaunchOptions& options, Deadline deadline) {
  COLL_ASSIGN(std::string token, given_token(options.token_file));
  const bool given = !options.join.empty(), token_given = !token.empty();
  const std::string from = given ? "--join" : options.rendezvous.from;
  const auto cancelled = [] { return start_cancel()->why().has_value(); };
  COLL_ASSIGN(const runtime::Meeting meeting,
              runtime::find_meeting({.text = given ? options.join : options.rendezvous.address,
                                     .from = from,
                                     .token = token_given,
                                     .rank = options.join_rank,
                                     .size = options.join_size,
                                     .local_ranks = options.local_ranks,
                                     .interfaces = base::knob_text(base::KnobId::socket_ifname),
                                     .family = base::knob_text(base::KnobId::socket_family)},
                                    deadline, cancelled));
  JobRoot job;
  if (token.empty() && meeting.root.is_loopback()) {
    if (options.join_rank == 0) {
      COLL_ASSIGN(job.local_token, LocalToken::make(meeting.root));
      token = job.local_token->text();
    } else {
      COLL_ASSIGN(token, find_local_token(meeting.root, deadline, cancelled));
    }
  }
  COLL_ASSIGN(job.id, runtime::unique_id_at(meeting.root, token, from));
  if (options.join_rank != 0) return job;
  std::string hint;
  if (meeting.only_here)
    hint = format("{} is {} on the host of rank 0, whose ranks alone can come there{}",
                  given ? options.join : options.rendezvous.address, meeting.root.host_text(),
                  token_given ? ""
                              : ": give every rank the same COLLCTL_TOKEN (or --token-file), or "
                                "name an address that the others reach");
  COLL_ASSIGN(job.root, runtime::BootstrapRoot::start({.listen_at = meeting.listen,
                                                       .secret = job.id.secret,
                                                       .reuse_port = true,
                                                       .missing_hint = std::move(hint)}));
  return job;
}

// The root where the ranks of other hosts reach it, unless there are none.
Result<JobRoot> make_adopted_root(const LaunchOptions& options) {
  const bool one_host = options.local_ranks == options.join_size;
  COLL_ASSIGN(JobRoot job, make_root(one_host, {}));
  const Address at = job.id.root_address();
  if (one_host || options.local_ranks == 0 || !at.is_loopback()) return job;
  return Error(
      ErrorCode::unavailable,
      format("{} of {} ranks are on other hosts, but the interface chosen here is loopback "
             "({}), which they cannot reach",
             options.join_size - options.local_ranks, options.join_size, at.host_text()),
      "name the interface to the other hosts with COLLCTL_SOCKET_IFNAME");
}

// Rank 0's address and a new secret through the engine's key-value store.
Result<JobRoot> meet_in_store(const LaunchOptions& options, Store& store, Deadline deadline) {
  if (store.rank() != options.join_rank || store.size() != options.join_size)
    return Error(ErrorCode::usage,
                 format("the engine's key-value store says rank {} of {}, its variables say rank "
                        "{} of {}",
                        store.rank(), store.size(), options.join_rank, options.join_size),
                 "see collctl env for what was taken from where");
  JobRoot job;
  std::string text;
  if (options.join_rank == 0) {
    auto made = make_adopted_root(options);
    if (!made) {
      // An empty text ends the others at once; the first error is the one to report.
      static_cast<void>(launcher::hand_round(store, "", deadline));
      return std::move(made.error());
    }
    job = std::move(*made);
    text = job.id.to_hex();
  }
  COLL_ASSIGN(text, launcher::hand_round(store, text, deadline));
  COLL_TRY(store.finish(Deadline::after_seconds(kLeaveSeconds).earlier(deadline)));
  if (options.join_rank == 0) return job;
  COLL_ASSIGN(job.id, runtime::UniqueId::from_hex(text));
  return job;
}

// The same by MPI's own broadcast: its connection to the launcher is MPI's alone.
Result<JobRoot> meet_in_mpi(const LaunchOptions& options, Deadline deadline) {
  COLL_ASSIGN(MpiWorld* const world, MpiWorld::start(deadline));
  if (world->rank() != options.join_rank || world->size() != options.join_size)
    return Error(ErrorCode::unavailable,
                 format("--vs mpi: {} made rank {} of {} out of rank {} of {}", world->name(),
                        world->rank(), world->size(), options.join_rank, options.join_size),
                 "the launcher (mpirun, mpiexec) and the libmpi that is found must be of one MPI; "
                 "LD_LIBRARY_PATH names its folder");
  const auto hand_round = [&](const std::string& text) {
    return world->hand_round(text, deadline);
  };
  JobRoot job;
  std::string text;
  if (options.join_rank == 0) {
    auto made = make_adopted_root(options);
    if (!made) {
      // An empty text ends the others at once; the first error is the one to report.
      static_cast<void>(hand_round(""));
      return std::move(made.error());
    }
    job = std::move(*made);
    text = job.id.to_hex();
  }
  COLL_ASSIGN(text, hand_round(text));
  if (options.join_rank == 0) return job;
  if (text.empty()) return Error(ErrorCode::lost, "rank 0 could not start, it says why");
  COLL_ASSIGN(job.id, runtime::UniqueId::from_hex(text));
  return job;
}

Result<JobRoot> find_root(const LaunchOptions& options, Deadline deadline) {
  if (options.meet_in_mpi) return meet_in_mpi(options, deadline);
  switch (options.rendezvous.kind) {
    case launcher::RendezvousKind::alone:
      return options.join.empty() ? make_root(true, {}) : meet_at_address(options, deadline);
    case launcher::RendezvousKind::address:
      return meet_at_address(options, deadline);
    case launcher::RendezvousKind::pmi:
    case launcher::RendezvousKind::pmix:
      break;
  }
  std::shared_ptr<Store> store = options.store;
  if (!store) {
    COLL_ASSIGN(store, open_store(options.rendezvous.kind, deadline));
  }
  auto job = meet_in_store(options, *store, deadline);
  if (!job) return std::move(job.error()).within("reaching the other ranks");
  return job;
}

// Engines end the whole job when one rank ends with another code than 0: rank 0 leaves first, after
// its report is out. The others wait on a connection to its root, which breaks with rank 0's end.
void wait_for_rank_0(const Address& root, Deadline deadline) {
  const auto line = base::connect_tcp(root, deadline, false);
  if (!line) return;  // it is gone already
  char byte[64];
  while (!deadline.passed()) {
    pollfd p{line->get(), POLLIN, 0};
    // Ends with rank 0's process, else by the deadline.
    const auto ready = base::poll_fds({&p, 1}, deadline);
    if (!ready || !base::read_some(line->get(), byte, sizeof byte)) return;
  }
}

// Whoever leaves without it is taken for lost by MPI's launcher. After a failure others may be
// gone.
void end_mpi(const LaunchOptions& options, const Status& status) {
  MpiWorld* const world = options.meet_in_mpi ? MpiWorld::running() : nullptr;
  if (world == nullptr) return;
  const Status ended = world->finish(Deadline::after_seconds(status ? kLeaveSeconds : kMpiSeconds));
  if (!ended && status) COLL_WARN("{}", ended.error().chain());
}

// This rank fails before the others have heard of it. When rank 0 does, it stays until they arrive.
void decline(const LaunchOptions& options, const runtime::UniqueId& id,
             const runtime::BootstrapRoot* root, const Error& why) {
  const bool interrupted = why.code == ErrorCode::interrupted;
  uint32_t* const cancelled = interrupted ? nullptr : start_cancel()->word();
  const auto until = Deadline::after_seconds(interrupted ? kInterruptedSeconds : kDeclineSeconds);
  const Status told = runtime::decline_start(id, options.join_rank, options.join_size,
                                             base::host_name(), why, until, cancelled);
  if (!told)
    COLL_INFO(bootstrap, "the other ranks do not hear of it: {}", told.error().chain());
  else if (root != nullptr && !interrupted)
    root->await_told(until, cancelled);
}

// The start failed after rank 0 had checked in: ranks that have yet to arrive hear why from its
// root. Those that were waited for in vain are not waited for once more.
void tell_late_ranks(const runtime::BootstrapRoot& root, const Error& why) {
  if (why.code != ErrorCode::interrupted && why.code != ErrorCode::deadline)
    root.await_told(Deadline::after_seconds(kDeclineSeconds), start_cancel()->word());
}

// Every rank sees every record and so reaches the same verdict and exit code; the report behind
// `inner` speaks on rank 0 only.
class JoinSink : public TaskSink {
 public:
  explicit JoinSink(TaskSink& inner) : inner_(inner) {}
  bool every_rank() const override { return true; }
  Status record(const std::string& json) override { return inner_.record(json); }
  void progress(const std::string& text) override { inner_.progress(text); }
  void phase(int rank, const std::string& name) override {
    last_phase_ = name;
    inner_.phase(rank, name);
  }
  void checks_in() override {
    checked_in_ = true;
    give_spare();
  }
  bool checked_in() const { return checked_in_; }
  const std::string& last_phase() const { return last_phase_; }
  // What is left for declining where the start took all other descriptors.
  void give_spare() { spare_.reset(); }

 private:
  TaskSink& inner_;
  bool checked_in_ = false;
  base::Fd spare_{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
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
    std::optional<LeaveBy> leave_by;
    while (!stopping_) {
      pollfd p{interrupts_.fd(), POLLIN, 0};
      // Ends with a signal; the short deadline is for stop() and --timeout.
      if (!base::poll_fds({&p, 1}, Deadline::after_ms(50))) return;
      const auto number = interrupts_.take();
      if (number && why_) die_by_signal(*number);
      if (number) why_ = interrupted_error(*number);
      if (!why_ && timeout_s_ > 0 && double(now_ns() - began_ns) / 1e9 >= timeout_s_)
        why_ = Error(ErrorCode::deadline,
                     format("the job did not end within {} s (--timeout)", timeout_s_));
      if (why_ && !leave_by) {
        leave_by.emplace(kAbortSeconds);
        abort_running(*why_);
      }
      // An engine's store does not listen to us, nor does a driver.
      if (why_ && why_->signal != 0 && leave_by->passed()) die_by_signal(why_->signal);
    }
  }

  double timeout_s_;
  Interrupts interrupts_{false};
  std::atomic<bool> stopping_ = false;
  std::optional<Error> why_;
  std::thread thread_;
};

}  // namespace

JobOutcome run_joined(const LaunchOptions& options, const TaskSpec& given, TaskSink& sink) {
  const int64_t began_ns = now_ns();
  if (options.join_size < 1 || options.join_rank < 0 || options.join_rank >= options.join_size)
    return failed_outcome(
        Error(ErrorCode::usage, format("--rank {} --size {}: expected 0 <= rank < size",
                                       options.join_rank, options.join_size)));
  auto log = base::log_options_from_knobs(options.verbosity);
  if (!log) return failed_outcome(log.error());
  if (Status s = base::log_configure(*log, options.join_rank); !s) return failed_outcome(s.error());
  base::log_set_process_rank(options.join_rank);
  base::call_this_host({HostId::none, base::host_name()});
  clear_abort();
  JoinSink join_sink(sink);
  TaskSpec spec = given;
  spec.settings = for_rank(
      completed(given.settings, options),
      options.join_local_rank >= 0 ? options.join_local_rank : options.join_rank, options.gpus);
  spec.settings.local_ranks = options.local_ranks;
  JoinWatch watch(options.timeout_s);
  JobOutcome out;
  runtime::UniqueId id;
  Address root;
  const runtime::BootstrapRoot* own_root = nullptr;
  const auto measure = [&]() -> Status {
    std::optional<base::Uninterruptible> store(std::in_place);
    COLL_ASSIGN(JobRoot job, find_root(options, Deadline::after_seconds(options.start_timeout_s)));
    store.reset();
    id = job.id;
    root = id.root_address();
    own_root = job.root.get();
    out.until_reported = std::move(job.root);
    return run_task({spec, id, options.join_rank, options.join_size, join_sink});
  };
  Status status = base::caught(measure);
  if (!status && root.length != 0 && !join_sink.checked_in()) {
    join_sink.give_spare();
    decline(options, id, own_root, status.error());
  } else if (!status && own_root != nullptr) {
    tell_late_ranks(*own_root, status.error());
  }
  end_mpi(options, status);
  // What comes from here on is the engine's answer to rank 0's end: it changes our outcome no more.
  out.error = watch.stop();
  const bool interrupted = out.error && out.error->code == ErrorCode::interrupted;
  if (options.join_rank != 0 && root.length != 0)
    wait_for_rank_0(root,
                    Deadline::after_seconds(interrupted ? kInterruptedSeconds : kLeaveSeconds));
  if (!out.error && !status) out.error = status.error();
  out.exit_code = exit_code_of(out.error);
  out.seconds = double(now_ns() - began_ns) / 1e9;
  RankEnd end;
  end.rank = options.join_rank;
  end.host = base::this_host();
  end.pid = ::getpid();
  end.exit_code = out.exit_code;
  end.phase = status ? "done" : join_sink.last_phase();
  end.error = out.error;
  out.ranks.push_back(std::move(end));
  return out;
}

void decline_job(const LaunchOptions& options, const Error& why) {
  if (!options.joins()) return;
  // Who cannot reach the others has nobody to tell; the first error is the one to report.
  const Status reached = base::caught([&]() -> Status {
    COLL_ASSIGN(const JobRoot job, find_root(options, Deadline::after_seconds(kDeclineSeconds)));
    decline(options, job.id, job.root.get(), why);
    return {};
  });
  static_cast<void>(reached);
  end_mpi(options, why);
}

}  // namespace collctl::cmd
