#include "kernels/cpu/launch.h"

#include "kernels/algo/dispatch.h"
#include "kernels/cpu/block_cpu.h"

namespace collctl::kernels {

bool run_work(const Work& work, const ChannelLinks& links, CpuContext& context) {
  CpuWork running(work, links, context);
  CpuBackend backend(running);
  COLL_CHECK_NOTE(run_algorithm(backend, work), "the algorithm does not serve the collective");
  return !running.failed();
}

}  // namespace collctl::kernels
