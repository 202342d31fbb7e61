// Users' buffers in windows on GPU ranks, by the same calls as on CPU ranks: memory of the fake
// driver's devices, which is this process's, so that the test looks at it directly. Everything must
// have been given back to the driver at each end (with_gpu_ranks).
#include <cstring>

#include "runtime/window_memory.h"
#include "tests/unit/runtime/gpu_ranks.h"

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr uint64_t kBytes = 5000;

Deadline soon() {
  return Deadline::after_seconds(60);
}

uint8_t pattern(int rank, uint64_t i) {
  return uint8_t(uint64_t(rank) * 71 + i * 3 + 1);
}

void look_at_all(Communicator& c, Complaints& complaints, const UserWindow& window) {
  for (int peer = 0; peer < c.size(); ++peer) {
    const auto at = window.peer(peer, 0, kBytes);
    if (!at) return complaints.add(at.error().chain());
    for (uint64_t i = 0; i < kBytes; ++i)
      if ((*at)[i] != pattern(peer, i))
        return complaints.add(format("rank {}: byte {} of rank {}", c.rank(), i, peer));
  }
  // The struct for kernels lies in the GPU's memory and says the same as the host's.
  kernels::UserWindow copy;
  if (window.on_device() == &window.shadow()) complaints.add("kernels get the host's struct");
  std::memcpy(static_cast<void*>(&copy), window.on_device(), sizeof copy);
  if (std::memcmp(&copy, &window.shadow(), sizeof copy) != 0 || copy.shadow != &window.shadow() ||
      kernels::window_local(copy, 7) != *window.peer(c.rank(), 7, 1))
    complaints.add("the window's struct for kernels differs");
}

}  // namespace

TEST_CASE("windows in GPU memory, registered again and again", "[gpu][user_window]") {
  for (const int n : {1, 2, 4}) {
    set_up_gpus(n);
    INFO(n << " ranks");
    GpuJob job;
    job.ranks = n;
    CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
            for (int round = 0; round < 20; ++round) {
              auto memory = allocate_window_memory(3 * kBytes, c.device());
              if (!memory) return complaints.add(memory.error().chain());
              auto* const at = static_cast<uint8_t*>(*memory);
              for (uint64_t i = 0; i < kBytes; ++i) at[kBytes + i] = pattern(c.rank(), i);
              const WindowRange ranges[] = {{at, 10}, {at + kBytes, kBytes}};
              auto windows = c.register_windows(ranges, soon());
              if (!windows) return complaints.add(windows.error().chain());
              if (c.windows().usage().placements != 1) complaints.add("one memory, two mappings");
              COLL_TEST_OK(complaints, c.barrier(soon()));
              look_at_all(c, complaints, *(*windows)[1]);
              COLL_TEST_OK(complaints, c.barrier(soon()));
              if (free_window_memory(at)) complaints.add("registered memory was freed");
              COLL_TEST_OK(complaints, c.deregister_windows(*windows, soon()));
              COLL_TEST_OK(complaints, free_window_memory(at));
            }
          }) == "");
  }
}

TEST_CASE("memory of the host or of another GPU is no window of a GPU rank", "[gpu][user_window]") {
  set_up_gpus(3);
  GpuJob job;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          auto host = allocate_window_memory(4096);
          auto device = allocate_window_memory(4096, c.device());
          if (!host || !device) return complaints.add("no memory");
          const auto refused = [&](void* mine, const char* words) {
            const WindowRange range{mine, 100};
            const auto windows = c.register_windows({&range, 1}, soon());
            if (windows || windows.error().code != ErrorCode::usage ||
                windows.error().message.find(words) == std::string::npos)
              complaints.add(windows ? "registered" : windows.error().chain());
          };
          refused(*host, "is of the host and rank");
          // One rank alone: both are told.
          refused(c.rank() == 0 ? *device : *host, "is of the host and rank 1 works with GPU 1");
          COLL_TEST_OK(complaints, free_window_memory(*host));
          COLL_TEST_OK(complaints, free_window_memory(*device));
        }) == "");
}

TEST_CASE("a driver's failure is everybody's, and nothing stays mapped", "[gpu][user_window]") {
  set_up_gpus(2);
  GpuJob job;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          auto memory = allocate_window_memory(4096, c.device());
          if (!memory) return complaints.add(memory.error().chain());
          const WindowRange range{*memory, 4096};
          for (const char* call : {"cuMemMap", "cuMemImportFromShareableHandle",
                                   "cuMemExportToShareableHandle", "cuMemSetAccess"}) {
            COLL_TEST_OK(complaints, c.barrier(soon()));
            if (c.rank() == 0) fake_cuda::fail(call, 2);  // out of memory, on whichever rank
            COLL_TEST_OK(complaints, c.barrier(soon()));
            const auto failed = c.register_windows({&range, 1}, soon());
            if (failed || failed.error().code != ErrorCode::unavailable)
              complaints.add(failed ? format("{} was not called", call) : failed.error().chain());
            const WindowUsage usage = c.windows().usage();
            if (usage.placements != 0) complaints.add("something stayed");
          }
          auto windows = c.register_windows({&range, 1}, soon());
          if (!windows) return complaints.add(windows.error().chain());
          COLL_TEST_OK(complaints, c.deregister_windows(*windows, soon()));
          COLL_TEST_OK(complaints, free_window_memory(*memory));
        }) == "");
}
