// The report of a thread that aborts (contract/report.h).
#pragma once
#include "kernels/contract/report.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.cuh"

namespace collctl::kernels::cuda {

// Polls between two looks at the abort word (host memory) and the clock, which takes longer to read
// than most waits last: so the first look only starts it.
inline constexpr int kPollsBetweenLooks = 1024;

struct WaitFor {
  int32_t peer;
  WaitSide side;
  uint64_t step, wanted;
};

// The origin of a report.
struct Reporter {
  uint64_t op_count;
  int32_t rank;
  uint16_t channel;
  Protocol protocol;
  AlgorithmId algorithm;
  Collective collective;
};

// All of a report but its code.
static __device__ __forceinline__ void describe(Report& r, const Reporter& by, const WaitFor& what,
                                                uint64_t seen) {
  r.side = what.side;
  r.rank = by.rank;
  r.peer = what.peer;
  r.channel = by.channel;
  r.protocol = by.protocol;
  r.algorithm = by.algorithm;
  r.collective = by.collective;
  r.reserved = 0;
  r.step = what.step;
  r.seen = seen;
  r.wanted = what.wanted;
  r.op_count = by.op_count;
}

// From any thread. `reported` is the block's: its first report counts. The first report of a
// channel stays. `code` is written last: who sees it may read the rest.
static __device__ __noinline__ void write_report(const DeviceShared& shared, uint32_t& reported,
                                                 const Reporter& by, ReportCode code,
                                                 const WaitFor& what, uint64_t seen) {
  if (atomicExch(&reported, 1u) != 0) return;
  Report& r = shared.reports[by.channel];
  if (load_volatile(reinterpret_cast<uint32_t*>(&r.code)) != uint32_t(ReportCode::none)) return;
  describe(r, by, what, seen);
  fence_system();
  store_volatile(reinterpret_cast<uint32_t*>(&r.code), uint32_t(code));
  fence_system();
}

}  // namespace collctl::kernels::cuda
