#include "runtime/communicator/stream_state.h"

#include "base/format.h"
#include "base/log.h"
#include "base/peer_closed.h"
#include "runtime/links/edges.h"
#include "runtime/window/team_windows.h"

namespace collctl::runtime {
namespace {

constexpr int64_t kAbortNoticeMs = 200;

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

bool Communicator::State::maps_windows() const {
  return gpu != nullptr ? shape.gpu_window && shape.window_direct != nullptr : window != nullptr;
}

Result<CachedPlan*> Communicator::State::plan_of(std::span<Operation> operations) {
  for (Operation& op : operations) op = completed(op, barrier_cell());
  const bool placed = maps_windows() && place_in_windows(operations, *user_windows, rank, size);
  return plans.get(operations, placed, shape, choices);
}

Result<Plan> Communicator::State::plan_only(std::span<const Operation> operations) {
  std::vector<Operation> list;
  for (const Operation& op : operations) list.push_back(completed(op, barrier_cell()));
  const bool placed = maps_windows() && place_in_windows(list, *user_windows, rank, size);
  return placed ? make_shared_plan(list, shape, choices) : make_plan(list, shape, choices);
}

Result<bool> Communicator::State::would_connect(std::span<const Operation> operations) {
  std::vector<Operation> list(operations.begin(), operations.end());
  COLL_ASSIGN(const CachedPlan* entry, plan_of(list));
  return !entry->wired && needs_others(entry->plan);
}

bool Communicator::State::needs_others(const Plan& plan) const {
  return needs_links(plan, size, gpu != nullptr) || compares_tuned(plan);
}

Status Communicator::State::connect_links(const Plan& plan) {
  const Deadline deadline = Deadline::after_seconds(settings.start_timeout_s);
  const std::lock_guard lock(bootstrap_mutex);
  if (compares_tuned(plan)) COLL_TRY(compare_tuned(plan, deadline));
  if (!needs_links(plan, size, gpu != nullptr)) return {};
  const PlanEdges edges = plan_edges(plan, shape, gpu != nullptr);
  COLL_TRY(wire->connect(edges.collective, kPlanLinks, deadline));
  COLL_TRY(wire->connect(edges.messages, kPlanLinks, deadline));
  return gpu != nullptr ? check_protocols(plan, *wire) : Status();
}

Status Communicator::State::ready(const Plan& plan, uint64_t first_op, bool& wired) {
  COLL_TRY(errors.status());
  if (wired) return {};
  if (needs_others(plan)) {
    Status connected = connect_links(plan);
    if (!connected) {
      // An abort that ended the exchange is told with its author by the bootstrap's own thread, and
      // so is the reason of a peer that has gone.
      const bool follows = connected.error().rank < 0 || connected.error().code == ErrorCode::lost;
      if (follows) errors.wait_for_notice(Deadline::after_ms(kAbortNoticeMs));
      lost_once_running(connected.error(), first_op);
      errors.fail(connected.error(), true);
      note_wait(connected.error().awaited);
      return errors.status();
    }
  }
  wired = true;
  return {};
}

// Notes a wait that ended because of another one.
void Communicator::State::note_wait(int awaited) {
  if (auto why = blame->cannot_reach()) errors.fail(*why, true);
  errors.note_awaited(awaited);
}

Status Communicator::State::run(Plan& plan, uint64_t first_op) {
  Status ran = executor->run(plan, first_op);
  if (ran) return {};
  // A work that only followed the abort word has its reason in the first error, which is there
  // before the word is raised, except by another channel of this very submission.
  const bool followed = ran.error().code == ErrorCode::interrupted && ran.error().message.empty();
  const int awaited = followed ? ran.error().awaited : ran.error().rank;
  if (base::only_says_closed(ran.error())) errors.wait_for_reason(ran.error());
  if (ran.error().code == ErrorCode::deadline) blame->find(ran.error(), device_window != nullptr);
  if (!followed) errors.fail(ran.error(), true);
  if (followed || ran.error().code == ErrorCode::deadline) note_wait(awaited);
  if (Status known = errors.status(); !known) return known;
  return Error(ErrorCode::interrupted, format("rank {} was told to stop", rank));
}

void Communicator::State::run_in_turn(Submission& submission) {
  turns.wait_for(submission.number);
  const bool may_connect = !submission.wired;
  // The outcome is kept as the communicator's first error.
  const Status prepared = ready(submission.plan, submission.first_op, submission.wired);
  if (may_connect) turns.connected();
  if (prepared) (void)run(submission.plan, submission.first_op);
  turns.end(submission.number);
}

CachedPlan* Communicator::State::repeats(const Operation& operation) const {
  CachedPlan* const entry = plans.repeated(operation);
  const bool may = entry != nullptr && turns.idle() && !finalized && !errors.failed() &&
                   !base::log_enabled(base::LogLevel::trace, base::Subsystem::coll);
  return may ? entry : nullptr;
}

Status Communicator::State::repeat(const Operation& operation, CachedPlan& entry) {
  calls.note(operation);
  turns.begin_here();
  Status ran = run(entry.plan, op_count++);
  turns.end_here();
  return ran;
}

Status Communicator::State::submit(std::span<const Operation> operations,
                                   const std::shared_ptr<Stream::State>& stream, bool blocking) {
  if (errors.failed()) return errors.status();
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
  if (blocking && settings.inline_blocking && turns.idle()) {
    turns.begin_here();
    Status ran;
    if (!entry->wired) ran = ready(entry->plan, first_op, entry->wired);
    if (ran) ran = run(entry->plan, first_op);
    turns.end_here();
    if (operations.size() == 1) plans.remember(operations[0], entry);
    return ran;
  }
  const bool wired = entry->wired || !needs_others(entry->plan);
  Submission submission{
      .plan = entry->plan, .number = turns.take(!wired), .first_op = first_op, .wired = wired};
  stream->push(std::move(submission));
  return blocking ? stream->wait() : Status();
}

Status Communicator::State::check(std::span<const Operation> operations) const {
  for (const Operation& op : operations)
    if (op.collective != Collective::barrier) COLL_TRY(check_operation(op, rank, size));
  if (gpu != nullptr) COLL_TRY(check_types(operations));
  return errors.status();
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

}  // namespace collctl::runtime
