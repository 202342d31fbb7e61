// The launcher of a build without nvcc: refuses everything, with the reason.
#include "kernels/cuda/launcher/launcher.h"

namespace collctl::kernels::cuda {
namespace {

constexpr const char* kWhyNot = "this collctl was built without nvcc, so it has no GPU kernels";
constexpr int kNotSupported = 801;  // cudaErrorNotSupported

}  // namespace

const Launcher& launcher() {
  static const Launcher none{
      .why_not = kWhyNot,
      .prepare = [](bool) { return kNotSupported; },
      .launch_works = [](const WorksLaunch&) { return kNotSupported; },
      .window_part_bytes = [](int) { return uint64_t(0); },
      .window_host_bytes = [](int) { return uint64_t(0); },
      .window_own_bytes = [](int) { return uint64_t(0); },
      .window_serves = [](Collective, AlgorithmId, Protocol, DataType, RedOp, int,
                          uint64_t) { return false; },
      .window_direct = [](Collective, DataType, RedOp, int, uint64_t) { return false; },
      .launch_window = [](const WindowLaunch&) { return kNotSupported; },
      .runs_on = [](int) { return false; },
      .has_type = [](DataType, int) { return false; },
      .error_text = [](int) { return kWhyNot; },
      .torn_store_write = [](void*, uint32_t, uint32_t, void*) { return kNotSupported; },
      .torn_store_read = [](void*, uint32_t, uint32_t, uint32_t*, const uint32_t*, int64_t,
                            void*) { return kNotSupported; },
      .peer_copy = [](void*, const void*, uint64_t, void*) { return kNotSupported; },
      .peer_chase = [](const void*, uint32_t, uint64_t*, void*) { return kNotSupported; },
  };
  return none;
}

}  // namespace collctl::kernels::cuda
