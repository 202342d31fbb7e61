#include "runtime/executor/cpu.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/format.h"
#include "base/peer_closed.h"
#include "base/thrown.h"

namespace collctl::runtime {

using kernels::Report;
using kernels::ReportCode;

struct CpuExecutor::Channel {
  kernels::CpuContext context;
  const kernels::ChannelLinks* links = nullptr;
  bool failed = false;
  std::optional<Error> missing;  // where it lacked a thread or memory
};

Error error_from_report(const Report& r, double op_timeout_s) {
  const std::string where = format(
      "{} #{}, {}, {}, channel {}, step {}: saw {}", kernels::name_of(r.collective), r.op_count,
      kernels::name_of(r.algorithm), kernels::name_of(r.protocol), r.channel, r.step, r.seen);
  switch (r.code) {
    case ReportCode::timeout:
      if (r.peer == r.rank)  // its own rank stands for the network (kernels/algo/collnet.h)
        return Error(ErrorCode::deadline,
                     format("rank {} waits for the in-network reduction ({}): no progress for {:g} "
                            "s",
                            r.rank, where, op_timeout_s),
                     "another rank has not got that far, or the network does not respond; --algo "
                     "^collnet avoids it")
            .blame(r.rank);
      return Error(
                 ErrorCode::deadline,
                 r.side == kernels::WaitSide::recv
                     ? format("rank {} waits for data from rank {} ({}): no progress for {:g} s",
                              r.rank, r.peer, where, op_timeout_s)
                     : format(
                           "rank {} waits for rank {} to accept data ({}): no progress for {:g} s",
                           r.rank, r.peer, where, op_timeout_s),
                 "check what that rank is doing; --op-timeout (COLLCTL_OP_TIMEOUT) allows more "
                 "time")
          .blame(r.peer);
    case ReportCode::bad_data:
      return Error(ErrorCode::bad_data,
                   format("rank {} received from rank {} data that is not a slice "
                          "of this operation ({})",
                          r.rank, r.peer, where),
                   "all ranks must start the same operations with the same counts and types")
          .blame(r.peer);
    case ReportCode::wrong_size:
      return Error(ErrorCode::lost,
                   format("rank {} sent {} bytes, but rank {} expects {} ({})", r.peer, r.seen,
                          r.rank, r.wanted, where),
                   "all ranks must start the same operations with the same counts and types")
          .blame(r.peer);
    case ReportCode::unreadable: {
      // The process has ended, or has given the operation up: the reason is there.
      const bool gone = r.seen == ESRCH || r.seen == ECANCELED;
      const Error ended = base::closed_by_peer();
      Error e(ErrorCode::lost,
              format("rank {} cannot read what rank {} sends out of its memory ({} #{}, channel "
                     "{}, step {}): {}",
                     r.rank, r.peer, kernels::name_of(r.collective), r.op_count, r.channel, r.step,
                     gone ? ended.message : std::system_category().message(int(r.seen))),
              gone ? "" : "COLLCTL_SINGLE_COPY=0 has messages copied through shared memory");
      if (gone) e.cause = ended.cause;
      return std::move(e).blame(r.peer);
    }
    case ReportCode::aborted: {
      Error followed(ErrorCode::interrupted, "");
      followed.awaited = r.peer == r.rank ? -1 : r.peer;
      return followed;
    }
    case ReportCode::none:
      break;
  }
  return {ErrorCode::defect, format("an operation was aborted without a reason ({})", where)};
}

CpuExecutor::CpuExecutor(Wire& wire, const Options& options) : wire_(wire), options_(options) {}
CpuExecutor::~CpuExecutor() = default;

CpuExecutor::Channel& CpuExecutor::channel(size_t index) {
  while (channels_.size() <= index) {
    auto c = std::make_unique<Channel>();
    c->context.abort_word = options_.abort_word;
    c->context.op_timeout_ns = int64_t(options_.op_timeout_s * 1e9);
    c->context.waiting = options_.waiting;
    c->context.helpers = &split_helpers_;
    c->context.fault = options_.fault;
    c->context.flat = options_.flat;
    c->context.waits = options_.waits;
    c->links = &wire_.channel(int(channels_.size()));
    channels_.push_back(std::move(c));
  }
  Channel& c = *channels_[index];
  if (wire_.proxied() && c.context.assist == nullptr) {
    c.context.assist = &ProxyEngine::assist_hook;
    c.context.assist_sleep = &ProxyEngine::assist_sleep_hook;
    c.context.take_back = &ProxyEngine::take_back_hook;
    c.context.assist_argument = options_.proxy;
  }
  return c;
}

bool CpuExecutor::run_work(Channel& c, const kernels::Work& work) {
  try {
    if (kernels::run_work(work, *c.links, c.context)) return true;
  } catch (const std::exception& thrown) {
    c.missing = base::thrown_error(thrown);
  }
  give_up(c);
  return false;
}

// The other channels of this rank need not wait for their own deadlines.
void CpuExecutor::give_up(Channel& c) {
  c.failed = true;
  std::atomic_ref<uint32_t>(*options_.abort_word).store(1, std::memory_order_release);
}

void CpuExecutor::run_channel(Plan& plan, size_t index) {
  Channel& c = *channels_[index];
  for (PlannedOp& op : plan.ops)
    for (const kernels::Work& work : op.works)
      if (work.channel == index && !run_work(c, work)) return;
}

Status CpuExecutor::run(Plan& plan, uint64_t first_op_count) {
  if (plan.ops.size() == 1 && plan.ops[0].works.size() == 1 && plan.ops[0].works[0].channel == 0)
    return run_one(plan.ops[0].works[0], first_op_count);
  size_t channels = 0;
  for (PlannedOp& op : plan.ops) {
    for (kernels::Work& work : op.works) {
      work.op_count = first_op_count;
      channels = std::max(channels, size_t(work.channel) + 1);
    }
    ++first_op_count;
  }
  if (channels == 0) return {};
  channel(channels - 1);  // makes those below it too
  bool ok = true;
  if (channels == 1) {
    channel(0).failed = false;
    run_channel(plan, 0);
    ok = !channels_[0]->failed;
  } else {
    std::vector<kernels::HelperPool::Ticket> tickets;
    for (size_t i = 1; i < channels; ++i) {
      channel(i).failed = false;
      try {
        tickets.push_back(channel_helpers_.run([this, &plan, i] { run_channel(plan, i); }));
      } catch (const std::system_error& thrown) {
        channel(i).missing = base::thrown_error(thrown);
        give_up(channel(i));
        break;
      }
    }
    channel(0).failed = false;
    run_channel(plan, 0);
    for (auto& ticket : tickets)
      ticket.wait();  // run_work ends by data, abort word or its deadline
    for (size_t i = 0; i < channels; ++i) ok = ok && !channels_[i]->failed;
  }
  if (wire_.proxied()) options_.proxy->finish_operation();
  return ok ? Status() : outcome();
}

// The path of small operations: most of their time is overhead.
Status CpuExecutor::run_one(kernels::Work& work, uint64_t op_count) {
  Channel& c = channels_.empty() || wire_.proxied() ? channel(0) : *channels_.front();
  work.op_count = op_count;
  const bool ok = run_work(c, work);
  if (wire_.proxied()) options_.proxy->finish_operation();
  return ok ? Status() : outcome();
}

// The failure that says most: one with a report of its own before those that followed the abort.
Status CpuExecutor::outcome() {
  const Report* best = nullptr;
  for (const auto& c : channels_) {
    if (!c->failed) continue;
    if (c->missing) return Error(*c->missing);
    if (best == nullptr || best->code == ReportCode::aborted) best = &c->context.report;
  }
  COLL_CHECK_NOTE(best != nullptr, "a channel has failed where an operation has");
  Error error = error_from_report(*best, options_.op_timeout_s);
  if (best->code != ReportCode::timeout || best->peer == best->rank) return error;
  // Channels wait for each other in the end, so the one that was late first may be a whole one.
  const auto broken = wire_.unreached();
  if (broken && !broken->interface.empty()) {
    error.message += "; nothing passes over interface " + broken->interface;
    return error;
  }
  const bool receives = best->side == kernels::WaitSide::recv;
  const std::string interface = wire_.interface_of(
      {int(best->channel), receives ? best->peer : best->rank, receives ? best->rank : best->peer});
  if (!interface.empty()) error.message += "; this channel's interface is " + interface;
  return error;
}

}  // namespace collctl::runtime
