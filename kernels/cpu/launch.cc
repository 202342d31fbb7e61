#include "kernels/cpu/launch.h"

#include <utility>

#include "kernels/algo/algorithms.h"
#include "kernels/algo/dispatch.h"
#include "kernels/cpu/block_cpu.h"

namespace collctl::kernels {

namespace {

// Takes back where a work wanted slices, however it ends but by success.
class Places {
 public:
  explicit Places(CpuWork& work) : work_(work) {}
  ~Places() {
    CpuContext& context = work_.context;
    if (std::exchange(context.placed, false) && (!ended_ || work_.failed()))
      context.take_back(context.assist_argument);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
  void ended() { ended_ = true; }  // not by an exception

 private:
  CpuWork& work_;
  bool ended_ = false;
};

}  // namespace

bool run_work(const Work& work, const ChannelLinks& links, CpuContext& context) {
  if (const uint64_t bytes = scratch_bytes(work); bytes > 0 && work.scratch == nullptr) {
    if (context.scratch.size() < bytes) context.scratch.resize(bytes);
    Work placed = work;
    placed.scratch = context.scratch.data();
    return run_work(placed, links, context);
  }
  CpuWork running(work, links, context);
  CpuBackend backend(running);
  // The shortest path for what tiny operations use most.
  if (work.algorithm == AlgorithmId::one_shot && work.collective == Collective::all_reduce &&
      work.nranks > 1 && !shares_buffers(work) && work.chunk_count > 0) {
    one_shot_reduction(backend, work);
    return !running.failed();
  }
  Places places(running);
  COLL_CHECK_NOTE(run_algorithm(backend, work), "the algorithm does not support the collective");
  if (!context.lent.empty()) end_lending(running);
  places.ended();
  return !running.failed();
}

}  // namespace collctl::kernels
