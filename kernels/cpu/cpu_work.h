// The state that all parts of one running Work share on the CPU: the inputs, and whether and why it
// was aborted. Made on the stack of run_work(); used by the caller's thread and, in a split, by one
// helper.
#pragma once
#include <atomic>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/reduce.h"

namespace collctl::kernels {

class CpuWork {
 public:
  CpuWork(const Work& work_in, const ChannelLinks& links_in, CpuContext& context_in)
      : work(work_in),
        links(links_in),
        context(context_in),
        reduce(reduce_function(work_in.type, work_in.op)),
        element_bytes(element_size(work_in.type)),
        post_divisor(work_in.op == RedOp::avg ? uint32_t(work_in.nranks) : 1),
        fault_armed(context_in.fault.kind != FaultKind::none &&
                    context_in.fault.rank == work_in.rank &&
                    context_in.fault.channel == work_in.channel) {}

  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // The first failure of any part is the one reported; the other part drains.
  void fail(const Report& report) {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) context.report = report;
  }
  bool aborted() const {
    return context.abort_word != nullptr &&
           std::atomic_ref<uint32_t>(*context.abort_word).load(std::memory_order_acquire) != 0;
  }
  // A report of this work; the caller adds what it waited for.
  Report report(ReportCode code) const {
    Report r{};
    r.code = code;
    r.rank = work.rank;
    r.peer = -1;
    r.channel = work.channel;
    r.protocol = work.protocol;
    r.algorithm = work.algorithm;
    r.collective = work.collective;
    r.op_count = work.op_count;
    return r;
  }

  const Work& work;
  const ChannelLinks& links;
  CpuContext& context;
  const ReduceFn reduce;
  const uint32_t element_bytes;
  const uint32_t post_divisor;
  const bool fault_armed;
  std::atomic<uint64_t> receiving_slices{0};  // counted only while a fault is armed

 private:
  std::atomic<bool> failed_{false};
};

}  // namespace collctl::kernels
