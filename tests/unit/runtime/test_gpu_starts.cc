// GPU ranks that cannot start, or start on less than a GPU of their own: said before anything runs.
#include "tests/unit/runtime/gpu_fault_jobs.h"

namespace gpu_starts_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

TEST_CASE("GPU ranks that cannot start say why before anything runs", "[gpu][faults]") {
  set_up_gpus(2);
  GpuJob same = job_of(3);
  same.device_of = [](int r) { return r == 2 ? 0 : r; };
  check_refused(same, ErrorCode::unavailable, {"rank 0 and rank 2 both want GPU 0"});

  GpuJob mixed = job_of(3);
  mixed.device_of = [](int r) { return r == 1 ? -1 : 0; };
  check_refused(mixed, ErrorCode::usage, {"rank 0", "uses a GPU, rank 1", "does not"});

  GpuJob missing = job_of(2);
  missing.device_of = [](int r) { return r == 1 ? 5 : r; };
  check_refused(missing, ErrorCode::unavailable, {"rank 1", "there is no GPU 5"});

  GpuJob without = job_of(2);
  static const kernels::cuda::Launcher none{.why_not = "this build has none"};
  without.launcher = &none;
  check_refused(without, ErrorCode::unavailable, {"this build has none"});

  fake_cuda::set_up({.devices = 2, .sm = 75});
  check_refused(job_of(2), ErrorCode::unavailable, {"compute capability 7.5"});

  fake_cuda::set_up({.devices = 0});
  check_refused(job_of(2), ErrorCode::unavailable, {"GPU"});
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

// Processes may (tests/e2e/gpu_jobs.sh).
TEST_CASE("threads of one process may not share a GPU, though sharing is allowed", "[gpu]") {
  set_up_gpus(1);
  GpuJob job = job_of(2);
  job.options.share_device = true;
  job.device_of = [](int) { return 0; };
  check_refused(job, ErrorCode::unavailable,
                {"rank 0 and rank 1 share GPU 0", "threads of one process"});
}

// Ordinals 0 and 1 are instances of one GPU, 2 and 3 of the other.
TEST_CASE("MIG instances of one GPU are several GPUs that do not reach each other", "[gpu]") {
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = 4, .mig = true});
  CHECK(with_gpu_ranks(job_of(4), [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const std::string wrong =
              run_case(c, stream, {.collective = Collective::all_to_all, .count = 5000});
          if (!wrong.empty()) complaints.add(wrong);
          int between = 0;
          for (const LinkInfo& link : c.links()) {
            if (link.from == link.to) continue;
            const bool one_gpu = link.from / 2 == link.to / 2;
            between += one_gpu ? 1 : 0;
            if ((link.via == "SHM") != one_gpu)
              complaints.add(format("{} -> {} via {}", link.from, link.to, link.via));
          }
          if (between == 0) complaints.add("no link between the instances of one GPU");
        }) == "");
  GpuJob same = job_of(3);
  same.device_of = [](int r) { return r == 2 ? 1 : r; };
  check_refused(same, ErrorCode::unavailable, {"rank 1 and rank 2 both want GPU 1"});
}

TEST_CASE("memory that a GPU has not leaves no rank behind", "[gpu][faults]") {
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = 2, .memory_bytes = 3 << 20});
  for (const auto& result : try_gpu_job(job_of(2, "p2p"))) {
    REQUIRE_FALSE(result);
    INFO(result.error().chain());
    CHECK(result.error().code == ErrorCode::unavailable);
    CHECK(says(result.error(), "memory"));
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

// The others may still be about to take what the failed rank offered for its links.
TEST_CASE("a GPU rank that fails late in the start is heard before it is missed", "[gpu][faults]") {
  set_up_gpus(3);
  for (int time = 0; time < 12; ++time) {
    const char* const call = time % 2 == 0 ? "cuEventCreate" : "cuMemHostAlloc";
    INFO(call);
    fake_cuda::fail(call, 2);
    for (const auto& result : try_gpu_job(job_of(3))) {
      REQUIRE_FALSE(result);
      INFO(result.error().chain());
      CHECK(result.error().code == ErrorCode::unavailable);
      CHECK(says(result.error(), "CUDA_ERROR_OUT_OF_MEMORY"));
      CHECK(result.error().rank >= 0);
    }
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

TEST_CASE("a GPU that breaks while its rank starts is that rank's", "[gpu][faults]") {
  // At the memory of its links, and where it maps that of the others.
  for (const char* call : {"cuMemCreate", "cuMemSetAccess"}) {
    INFO(call);
    set_up_gpus(3);
    constexpr int kEcc = 214;
    fake_cuda::fail(call, kEcc, 1, true);
    const auto results = try_gpu_job(job_of(3, "p2p"));
    for (int gpu = 0; gpu < 3; ++gpu) fake_cuda::break_device(gpu, 0);
    for (const auto& result : results) {
      REQUIRE_FALSE(result);
      const Error& error = result.error();
      INFO(error.chain());
      CHECK(error.code == ErrorCode::lost);
      // Rank r drives GPU r.
      CHECK(says(error, format(" GPU {} (", error.rank)));
      CHECK(error.rank == results[0].error().rank);
    }
    CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
  }
}

// The ring is there when memory for the links of an all-to-all is short: a rank that has worked is
// lost, where before the first operation the machine could not.
TEST_CASE("memory that runs short in the run is a lost rank", "[gpu][faults]") {
  set_up_gpus(3);
  GpuJob job = job_of(3, "p2p", 60);
  FailingJob ranks(job);
  CHECK(how_many_reduce(3, [&](int r) -> Communicator& { return ranks[r]; }) == 3);
  fake_cuda::fail("cuMemCreate", 2);
  std::vector<std::string> said(3);
  on_all(3, [&](int r) {
    Stream stream(ranks[r]);
    said[size_t(r)] =
        run_case(ranks[r], stream, {.collective = Collective::all_to_all, .count = 5000});
  });
  for (int r = 0; r < 3; ++r) {
    CHECK_FALSE(said[size_t(r)].empty());
    const Status status = ranks[r].async_error();
    REQUIRE_FALSE(status);
    INFO("rank " << r << ": " << status.error().chain() << " (" << status.error().hint << ")");
    CHECK(status.error().code == ErrorCode::lost);
    CHECK(says(status.error(), "CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(says(status.error(), "are free"));
    CHECK(says(status.error(), format(" GPU {} (", status.error().rank)));  // that rank's
    CHECK(status.error().hint.find("nvidia-smi") != std::string::npos);
  }
}

// The others are about to connect to the rank that has failed, which listens no more.
TEST_CASE("pinned memory that runs short in the run is told to all in time", "[gpu][faults]") {
  for (int after = 0; after < 20; ++after) {
    INFO(after);
    set_up_gpus(2);
    GpuJob job = job_of(2, "net", 60);
    job.options.start_timeout_s = 60;
    FailingJob ranks(job);
    on_all(2, [&](int r) {
      Stream stream(ranks[r]);
      (void)run_case(ranks[r], stream, {.collective = Collective::all_reduce, .count = 5});
    });
    fake_cuda::fail("cuMemHostAlloc", 2, after);
    std::vector<Error> errors(2);
    on_all(2, [&](int r) {
      std::vector<float> out(1000), in(1000);
      const auto exchange = [&]() -> Status {
        Stream stream(ranks[r]);
        Group group;
        COLL_TRY(ranks[r].start({.collective = Collective::send_recv,
                                 .input = out.data(),
                                 .count = out.size(),
                                 .peer = 1 - r},
                                stream));
        COLL_TRY(ranks[r].start({.collective = Collective::send_recv,
                                 .output = in.data(),
                                 .count = in.size(),
                                 .peer = 1 - r},
                                stream));
        COLL_TRY(group.end());
        return stream.synchronize();
      };
      const Status status = exchange();
      if (!status) errors[size_t(r)] = status.error();
      ranks.leave(r);
    });
    INFO(errors[0].chain());
    INFO(errors[1].chain());
    for (const Error& error : errors) CHECK(error.code == ErrorCode::lost);
    // The one that it happened to says so, even where the other has found it gone before.
    CHECK((says(errors[0], "CUDA_ERROR_OUT_OF_MEMORY") ||
           says(errors[1], "CUDA_ERROR_OUT_OF_MEMORY")));
    for (const Error& error : errors)
      if (says(error, "CUDA_ERROR_OUT_OF_MEMORY"))
        CHECK(says(error, format(" GPU {} (", error.rank)));  // which rank `rank` drives
  }
}

TEST_CASE("GPUs that do not reach each other go another way, without a window", "[gpu]") {
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = 3, .peers = "0-2"});
  CHECK(with_gpu_ranks(job_of(3), [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
            const std::string wrong =
                run_case(c, stream, {.collective = collective, .count = 5000});
            if (!wrong.empty()) complaints.add(wrong);
          }
          bool over_shm = false;
          for (const LinkInfo& link : c.links())
            over_shm |= link.via == "SHM" && link.from + link.to == 2 && link.from != link.to;
          if (c.rank() != 1 && !over_shm) complaints.add("0 and 2 are not joined over SHM");
        }) == "");
}

namespace {

std::atomic<bool> g_driver_answers;

}  // namespace

TEST_CASE("a rank that waits for a GPU's driver says that it hears of no cancellation", "[gpu]") {
  set_up_gpus(2);
  kernels::cuda::Launcher slow = host_launcher();
  slow.prepare = [](bool) {
    while (!g_driver_answers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 0;
  };
  g_driver_answers = false;
  GpuJob job;
  job.launcher = &slow;
  std::string wrong;
  std::thread ranks([&] { wrong = with_gpu_ranks(job, [](Communicator&, Complaints&) {}); });
  for (int i = 0; i < 6000 && !base::Uninterruptible::any(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(base::Uninterruptible::any());
  g_driver_answers = true;
  ranks.join();
  CHECK(wrong == "");
  CHECK_FALSE(base::Uninterruptible::any());
}

}  // namespace gpu_starts_tests
