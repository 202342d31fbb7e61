// GPU ranks on machines without a GPU: the fake driver's devices (tests/fake_drivers), and a
// launcher that runs works on host threads in the order of the fake's streams. All else is the
// product's own code.
#pragma once
#include "kernels/cuda/launch.h"
#include "tests/fake_drivers/cuda_control.h"
#include "tests/unit/runtime/ranks.h"

// For a rank's body: complains and leaves it when the status is none.
#define COLL_TEST_OK(complaints, expression)                                    \
  do {                                                                          \
    if (Status coll_status = (expression); !coll_status)                        \
      return (complaints).add("a call failed: " + coll_status.error().chain()); \
  } while (false)

namespace collctl::runtime::testing {

// Runs works by kernels/cpu. Has window kernels for all-reduces of at most kHostWindowBytes and for
// messages, and directly between users' windows for every collective.
const kernels::cuda::Launcher& host_launcher();
inline constexpr uint64_t kHostWindowBytes = 1 << 20, kHostLlBytes = 128 << 10;
// How often launch_works, launch_window were called in this process; the latter apart where
// directly between users' windows, and of messages.
struct LaunchCounts {
  uint64_t works = 0, windows = 0, direct = 0, messages = 0;
};
LaunchCounts launch_counts();

struct GpuJob {
  int ranks = 2;
  CommOptions options;                // device and launcher are filled in
  std::function<int(int)> device_of;  // null: rank r drives GPU r
  std::vector<int> hosts;             // by rank: where it acts to be; empty: all on this one
  const kernels::cuda::Launcher* launcher = &host_launcher();
};
// One result a rank, in their order.
std::vector<Result<std::unique_ptr<Communicator>>> try_gpu_job(const GpuJob& job);
Communicators start_gpu_job(const GpuJob& job);
// Starts the ranks, runs `body` on each in a thread, finalizes. Empty when all went well and
// everything was given back to the driver.
std::string with_gpu_ranks(const GpuJob& job,
                           const std::function<void(Communicator&, Complaints&)>& body);

// As many fake GPUs as a test wants; nothing may be left of the one before.
inline void set_up_gpus(int devices) {
  INFO(fake_cuda::counts().text());
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = devices});
}

}  // namespace collctl::runtime::testing
