// One rank of a job that somebody else started: --join HOST:PORT --rank R --size N, or under
// another engine (adopt.cc). Rank 0 runs the root, feeds the sink and prints; in the end all
// ranks agree on the worst exit code.
#include <fcntl.h>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/thrown.h"
#include "cmd/job/config.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/loop.h"
#include "cmd/job/threads.h"
#include "cmd/job/token.h"
#include "cmd/measure/mpi_world.h"
#include "cmd/measure/running.h"
#include "launcher/adopt/pmi1.h"
#include "launcher/adopt/pmix.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/meeting.h"

namespace collctl::cmd {
namespace {

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

// A rank that leaves without it is taken for lost by MPI's launcher. After a failure others may be
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

// State that outlives the rank's thread, or begins before it.
struct Joined {
  // Kept for declining where the start took all other descriptors.
  base::Fd spare{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  Address root;                                      // from when it is found
  std::shared_ptr<runtime::BootstrapRoot> own_root;  // rank 0's: until the report is out
};

// Every rank sees every record and so reaches the same verdict and exit code; the report speaks on
// rank 0 only.
class JoinSink : public FrameSink {
 public:
  JoinSink(Send send, base::Fd& spare) : FrameSink(std::move(send)), spare_(spare) {}
  bool every_rank() const override { return true; }
  void checks_in() override {
    checked_in_ = true;
    spare_.reset();
  }
  bool checked_in() const { return checked_in_; }

 private:
  base::Fd& spare_;
  bool checked_in_ = false;
};

// This rank from finding the others to having told them how it ended.
Status take_part(const LaunchOptions& options, const TaskSpec& spec, Joined& joined,
                 const FrameSink::Send& send) {
  JoinSink sink(send, joined.spare);
  runtime::UniqueId id;
  const auto measure = [&]() -> Status {
    std::optional<base::Uninterruptible> store(std::in_place);
    COLL_ASSIGN(JobRoot job, find_root(options, Deadline::after_seconds(options.start_timeout_s)));
    store.reset();
    id = job.id;
    joined.root = id.root_address();
    joined.own_root = std::move(job.root);
    return run_task({spec, id, options.join_rank, options.join_size, sink});
  };
  Status status = base::caught(measure);
  if (!status && joined.root.length != 0 && !sink.checked_in()) {
    joined.spare.reset();
    decline(options, id, joined.own_root.get(), status.error());
  } else if (!status && joined.own_root != nullptr) {
    tell_late_ranks(*joined.own_root, status.error());
  }
  end_mpi(options, status);
  return status;
}

}  // namespace

JobOutcome run_joined(const LaunchOptions& options, const TaskSpec& given, TaskSink& sink) {
  const int rank = options.join_rank, size = options.join_size;
  if (size < 1 || rank < 0 || rank >= size)
    return failed_outcome(Error(
        ErrorCode::usage, format("--rank {} --size {}: expected 0 <= rank < size", rank, size)));
  auto log = base::log_options_from_knobs(options.verbosity);
  if (!log) return failed_outcome(log.error());
  if (Status s = base::log_configure(*log, rank); !s) return failed_outcome(s.error());
  base::log_set_process_rank(rank);
  base::call_this_host({HostId::none, base::host_name()});
  TaskSpec spec = given;
  spec.settings =
      for_rank(completed(given.settings, options),
               options.join_local_rank >= 0 ? options.join_local_rank : rank, options.gpus);
  spec.settings.local_ranks = options.local_ranks;
  Joined joined;
  Interrupts interrupts(Interrupts::Takes::stops);
  const auto start = [&](auto&) -> Result<StartedJob> {
    StartedJob job;
    job.in_process = true;
    job.only = rank;
    COLL_ASSIGN(job.group, start_threads(size, {rank}, [&](int, const FrameSink::Send& send) {
                  return take_part(options, spec, joined, send);
                }));
    return job;
  };
  JobOutcome out = run_ranks(options, spec, sink, {interrupts, no_door}, start);
  // Anything from here on is the engine's answer to rank 0's end: it changes our outcome no more.
  const bool interrupted = out.error && out.error->code == ErrorCode::interrupted;
  if (rank != 0 && joined.root.length != 0)
    wait_for_rank_0(joined.root,
                    Deadline::after_seconds(interrupted ? kInterruptedSeconds : kLeaveSeconds));
  for (RankEnd& end : out.ranks) {
    end.exit_code = out.exit_code;
    end.error = out.error;
  }
  out.until_reported = std::move(joined.own_root);
  return out;
}

void decline_job(const LaunchOptions& options, const Error& why) {
  if (!options.joins()) return;
  // A rank that cannot reach the others has nobody to tell; the first error is the one to report.
  const Status reached = base::caught([&]() -> Status {
    COLL_ASSIGN(const JobRoot job, find_root(options, Deadline::after_seconds(kDeclineSeconds)));
    decline(options, job.id, job.root.get(), why);
    return {};
  });
  static_cast<void>(reached);
  end_mpi(options, why);
}

}  // namespace collctl::cmd
