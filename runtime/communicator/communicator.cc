#include "runtime/communicator/communicator.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/peer_closed.h"
#include "base/wait.h"
#include "runtime/communicator/state.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kPurposeCollective = 0;  // links.cc has another

// A barrier moves the one int32 that the communicator keeps for it.
Operation completed(Operation op, int32_t* cell) {
  if (op.collective != Collective::barrier) return op;
  op.input = cell;
  op.output = cell + 1;
  op.count = 1;
  op.type = DataType::int32;
  op.op = RedOp::sum;
  return op;
}

}  // namespace

Communicator::Communicator() : state_(std::make_unique<State>()) {}
Communicator::~Communicator() {
  // Memory that a GPU may still write to is left to the end of the process.
  if (state_ != nullptr && !state_->stop()) (void)state_.release();
}

bool Communicator::State::stop() {
  if (!finalized) {
    raise_abort();
    if (bootstrap != nullptr) bootstrap->cancel();  // a worker may be waiting for a peer's links
  }
  for (auto& weak : streams)
    if (auto stream = weak.lock()) (void)stream->stop();
  if (torn_store_rest != nullptr && !torn_store_rest->ended()) gpu_stands_still = true;
  return !gpu_stands_still;
}

void Communicator::State::raise_abort() {
  std::atomic_ref<uint32_t>(abort_word).store(1);
  const std::lock_guard lock(abort_mutex);
  if (gpu_to_stop != nullptr) gpu_to_stop->abort();
}

Communicator::State::~State() {
  cancelling.reset();  // while what it uses is there
  const std::lock_guard lock(abort_mutex);
  gpu_to_stop = nullptr;
}

void Communicator::State::fail(const Error& error, bool announce) {
  {
    std::lock_guard lock(error_mutex);
    // A peer has found this rank gone before it could say why.
    const bool misheard = announce && first_error && first_error->rank == rank &&
                          base::only_says_closed(*first_error) && !base::only_says_closed(error);
    if (first_error) announce = false;
    if (!first_error || misheard) first_error = error;
  }
  failed.store(true, std::memory_order_release);
  raise_abort();
  if (announce && bootstrap != nullptr) bootstrap->announce_abort(error);
}

Status Communicator::State::error() const {
  if (!failed.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(error_mutex);
  return *first_error;
}

Status Communicator::State::drain(Deadline deadline) {
  if (gpu != nullptr) return gpu->drain(deadline);
  std::unique_lock lock(turn_mutex);
  if (base::wait_for(turn, lock, deadline, [&] { return idle(); })) return {};
  return Error(ErrorCode::deadline, format("rank {}: {} operations are still in progress", rank,
                                           issued - done.load(std::memory_order_acquire)))
      .blame(rank);
}

Result<CachedPlan*> Communicator::State::plan_of(std::span<Operation> operations) {
  repeated_plan = nullptr;
  for (Operation& op : operations) op = completed(op, barrier_cell());
  PlanCache& plans = place_in_windows(operations) ? window_cache : cache;
  return plans.get(operations, shape, choices);
}

Result<bool> Communicator::State::would_connect(std::span<const Operation> operations) {
  std::vector<Operation> list(operations.begin(), operations.end());
  COLL_ASSIGN(const CachedPlan* entry, plan_of(list));
  return !entry->wired && needs_links(entry->plan);
}

Status Communicator::State::run(Plan& plan, uint64_t first_op) {
  Status ran = executor->run(plan, first_op);
  if (ran) return {};
  // A work that only followed the abort word has its reason in the first error, which is there
  // before the word is raised, except by another channel of this very submission.
  const bool followed = ran.error().code == ErrorCode::interrupted && ran.error().message.empty();
  if (ran.error().code == ErrorCode::deadline) leave_blame_to_the_nearest(ran.error());
  if (!followed) fail(ran.error(), true);
  if (Status known = error(); !known) return known;
  return Error(ErrorCode::interrupted, format("rank {} was told to stop", rank));
}

void Communicator::State::run_in_turn(Submission& submission) {
  {
    // Ended by the submissions before it, each of which ends by data, abort or its deadline.
    std::unique_lock lock(turn_mutex);
    while (!base::wait_for(turn, lock, Deadline::after_seconds(60), [&] {
      return done.load(std::memory_order_acquire) == submission.ticket;
    })) {
    }
  }
  const bool uses_bootstrap = !submission.wired;
  // The outcome is kept as the communicator's first error.
  const Status prepared = ready(submission.plan, submission.first_op, submission.wired);
  if (uses_bootstrap) {
    std::lock_guard lock(turn_mutex);
    --unwired;
    turn.notify_all();
  }
  if (prepared) (void)run(submission.plan, submission.first_op);
  std::lock_guard lock(turn_mutex);
  done.store(submission.ticket + 1, std::memory_order_release);
  turn.notify_all();
}

// Also: nothing of what submit() would find has changed, and nobody wants to read of it.
bool Communicator::State::repeats(const Operation& operation) const {
  return repeated_plan != nullptr && operation == repeated && idle() && !finalized &&
         !failed.load(std::memory_order_acquire) &&
         !base::log_enabled(base::LogLevel::trace, base::Subsystem::coll);
}

Status Communicator::State::repeat() {
  calls.note(repeated);
  ++issued;
  Status ran = run(repeated_plan->plan, op_count++);
  done.store(issued, std::memory_order_release);
  return ran;
}

Status Communicator::State::submit(std::span<const Operation> operations,
                                   const std::shared_ptr<Stream::State>& stream, bool blocking) {
  if (failed.load(std::memory_order_acquire)) return error();
  if (finalized) return Error(ErrorCode::usage, "the communicator was finalized");
  if (gpu != nullptr) COLL_TRY(check_types(operations));
  CachedPlan* entry = nullptr;
  if (operations.size() == 1) {
    Operation op = operations[0];
    COLL_ASSIGN(entry, plan_of({&op, 1}));
  } else {
    std::vector<Operation> list(operations.begin(), operations.end());
    COLL_ASSIGN(entry, plan_of(list));
  }
  if (base::log_enabled(base::LogLevel::trace, base::Subsystem::coll))
    trace(operations, entry->plan, stream.get());
  const uint64_t first_op = op_count;
  op_count += operations.size();
  for (const Operation& op : operations) calls.note(op);
  if (gpu != nullptr) return submit_to_gpu(*entry, first_op, *stream, blocking);
  if (blocking && settings.inline_blocking && idle()) {
    ++issued;
    Status ran;
    if (!entry->wired) ran = ready(entry->plan, first_op, entry->wired);
    if (ran) ran = run(entry->plan, first_op);
    done.store(issued, std::memory_order_release);
    if (operations.size() == 1) {
      repeated = operations[0];
      repeated_plan = entry;
    }
    return ran;
  }
  Submission submission{.plan = entry->plan,
                        .ticket = issued++,
                        .first_op = first_op,
                        .wired = entry->wired || !needs_links(entry->plan)};
  if (!submission.wired) {
    std::lock_guard lock(turn_mutex);
    ++unwired;
  }
  stream->push(std::move(submission));
  return blocking ? stream->wait() : Status();
}

Status Communicator::State::check(std::span<const Operation> operations) const {
  for (const Operation& op : operations)
    if (op.collective != Collective::barrier) COLL_TRY(check_operation(op, rank, size));
  if (gpu != nullptr) COLL_TRY(check_types(operations));
  return error();
}

void Communicator::State::trace(std::span<const Operation> operations, const Plan& plan,
                                const void* stream) const {
  static constexpr const char* kNames[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                           "Reduce",    "Gather",    "Scatter",       "AlltoAll",
                                           "SendRecv",  "Barrier"};
  uint64_t number = op_count;
  for (const Operation& op : operations) {
    const bool message = op.collective == Collective::send_recv;
    COLL_TRACE(coll,
               "{}: opCount {:x} sendbuff {} recvbuff {} count {} datatype {} op {} root {} comm "
               "{:#x} [nranks={}] stream {}",
               message ? (op.input != nullptr ? "Send" : "Recv") : kNames[int(op.collective)],
               number++, op.input, static_cast<const void*>(op.output), op.count,
               kernels::name_of(op.type), kernels::name_of(op.op), message ? op.peer : op.root,
               hash, size, stream);
  }
  for (const PlannedOp& op : plan.ops)
    COLL_TRACE(coll, "{}: algorithm {} protocol {} channels {} chunk {} elements ({})",
               kNames[int(op.collective)], kernels::name_of(op.algorithm),
               kernels::name_of(op.protocol), op.channels,
               op.works.empty() ? 0 : op.works[0].chunk_count, op.why);
}

int Communicator::rank() const {
  return state_->rank;
}
int Communicator::size() const {
  return state_->size;
}
const std::vector<transport::PeerInfo>& Communicator::peers() const {
  return state_->peers;
}
std::vector<LinkInfo> Communicator::links() const {
  return state_->wire->infos();
}
const InitTimes& Communicator::init_times() const {
  return state_->times;
}
uint64_t Communicator::hash() const {
  return state_->hash;
}
transport::DevicePointer Communicator::device() const {
  return state_->device;
}

Status Communicator::start(const Operation& operation, Stream& stream, Launch launch) {
  if (launch == Launch::blocking && stream.state_->communicator == state_.get() &&
      state_->repeats(operation) && !Group::Collected::mine().open())
    return state_->repeat();
  return start_all({&operation, 1}, stream, launch);
}

Status Communicator::start_all(std::span<const Operation> operations, Stream& stream,
                               Launch launch) {
  COLL_CHECK_NOTE(stream.state_->communicator == state_.get(),
                  "a stream belongs to one communicator");
  const bool blocking = launch == Launch::blocking;
  Group::Collected& group = Group::Collected::mine();
  if (group.open()) return group.add(*state_, stream.state_, operations, blocking);
  if (operations.empty()) return async_error();
  return state_->submit(operations, stream.state_, blocking);
}

Result<Plan> Communicator::plan_for(std::span<const Operation> operations) const {
  std::vector<Operation> list;
  for (const Operation& op : operations) list.push_back(completed(op, state_->barrier_cell()));
  return state_->place_in_windows(list) ? make_shared_plan(list, state_->shape, state_->choices)
                                        : make_plan(list, state_->shape, state_->choices);
}

Status Communicator::set_choices(const std::string& algo, const std::string& proto, int channels) {
  State& s = *state_;
  COLL_TRY(s.error());
  const Choices& usual = s.settings.choices;
  COLL_ASSIGN(s.choices,
              parse_choices(algo.empty() ? usual.algo : algo, proto.empty() ? usual.proto : proto,
                            channels == 0 ? usual.channels : channels));
  const Deadline deadline = Deadline::after_seconds(s.settings.start_timeout_s);
  COLL_TRY(s.drain(deadline));
  s.repeated_plan = nullptr;
  s.cache.clear();
  s.window_cache.clear();
  if (Status made = s.make_reducers(deadline); !made) {
    s.fail(made.error(), true);
    return made;
  }
  if (s.gpu != nullptr) {
    // More channels than were found repeat the same routes. Links are made at the first use.
    for (size_t i = 0; int(s.shape.channels.size()) < s.choices.channels; ++i)
      s.shape.channels.push_back(ChannelShape(s.shape.channels[i]));
    return {};
  }
  if (s.choices.channels > int(s.shape.channels.size()))
    s.shape.channels = make_channels(s.hosts, s.rank, s.choices.channels, LocalTree::binary);
  if (s.size == 1) return {};
  // Also a rank that has all of its links, because messages have made them, comes to the agreement:
  // the others may have to connect among themselves.
  Status agreed =
      s.agree(s.wire->connect(s.collective_edges(), kPurposeCollective, deadline), deadline);
  if (!agreed) s.fail(agreed.error(), true);
  return agreed;
}

Status Communicator::async_error() const {
  // What kernels reported just now, before the watching thread has seen it.
  if (state_->gpu != nullptr && state_->gpu->kernel_reported()) COLL_TRY(state_->gpu->settle());
  return state_->error();
}

void Communicator::abort(const Error& why) {
  state_->fail(why, true);
}

Status Communicator::barrier(Deadline deadline) {
  COLL_ASSIGN([[maybe_unused]] const auto blobs, gather_blobs({}, deadline));
  return {};
}

Result<std::vector<Bytes>> Communicator::gather_blobs(ByteView mine, Deadline deadline) {
  State& s = *state_;
  COLL_TRY(s.error());
  COLL_TRY(s.wait_until_wired(deadline));
  const std::lock_guard lock(s.bootstrap_mutex);
  auto blobs = s.bootstrap->all_gather_blobs(mine, deadline);
  if (!blobs) {
    if (Status known = s.error(); !known) return std::move(known.error());
  }
  return blobs;
}

Status Communicator::finalize(Deadline deadline) {
  State& s = *state_;
  if (s.finalized) return {};
  COLL_TRY_IN(s.drain(deadline), "finalize");
  // Others may still wait for what this rank has in flight: if that fails, they must know.
  if (s.proxy != nullptr) COLL_TRY_IN(s.proxy->flush(deadline), "finalize");
  COLL_TRY(async_error());
  if (s.proxy != nullptr) s.proxy->expect_close();
  COLL_TRY_IN(s.bootstrap->barrier(deadline), "finalize");
  for (auto& weak : s.streams)
    if (auto stream = weak.lock()) stream->stop();
  s.finalized = true;
  if (s.proxy != nullptr) COLL_TRY_IN(s.proxy->stop(deadline), "finalize");
  s.executor.reset();
  return s.bootstrap->finish(deadline);
}

}  // namespace collctl::runtime
