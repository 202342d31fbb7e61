// GPU ranks that cannot start, stop, leave or break: every rank ends, in time, and says who it was.
#include "tests/unit/runtime/gpu_fault_jobs.h"

namespace gpu_faults_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

TEST_CASE("a GPU rank that does not take part is named at the deadline", "[gpu][faults]") {
  // By links, and (two-shot) by the window.
  for (const char* algo : {"ring", "two-shot"}) {
    INFO(algo);
    set_up_gpus(4);
    GpuJob job = job_of(4, "", kOpTimeout);
    job.options.algo = algo;
    job.options.proto = "simple";
    FailingJob ranks(job);
    if (std::string(algo) == "ring") {  // links are made by all together, before the stall
      CHECK(how_many_reduce(4, [&](int r) -> Communicator& { return ranks[r]; }) == 4);
    }
    const auto errors = reduce_without(ranks, 4, 2, [&] {
      const Deadline deadline = Deadline::after_seconds(60);
      while (ranks[2].async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
    });
    for (const int r : {0, 1, 3}) {
      const Error& e = errors[size_t(r)];
      INFO("rank " << r << ": " << e.chain());
      CHECK(e.code == ErrorCode::deadline);
      CHECK(says(e, "waits for"));
      CHECK(e.rank == 2);
    }
    const Status heard = ranks[2].async_error();
    REQUIRE_FALSE(heard);
    CHECK(heard.error().code == ErrorCode::deadline);
  }
}

TEST_CASE("an injected stall names the rank that stands still", "[gpu][faults]") {
  set_up_gpus(3);
  ::setenv("COLLCTL_FAULT", "stall:rank=1:channel=0:step=1", 1);  // its second operation
  GpuJob job = job_of(3, "", kOpTimeout);
  job.options.algo = "ring";
  {
    FailingJob ranks(job);
    ::unsetenv("COLLCTL_FAULT");
    // The first goes well, the second does not.
    std::atomic<int> as_expected{0};
    on_all(3, [&](int r) {
      Stream stream(ranks[r]);
      if (reduce(ranks[r], stream) && !reduce(ranks[r], stream)) ++as_expected;
    });
    CHECK(as_expected == 3);
    for (int r = 0; r < 3; ++r) {
      const Status status = ranks[r].async_error();
      REQUIRE_FALSE(status);
      INFO(status.error().chain());
      CHECK(status.error().code == ErrorCode::deadline);
      CHECK(status.error().rank == 1);
    }
  }
}

TEST_CASE("a GPU rank that leaves in the middle is lost, and named", "[gpu][faults]") {
  set_up_gpus(3);
  GpuJob job = job_of(3, "", 60);
  job.options.algo = "ring";
  FailingJob ranks(job);
  CHECK(how_many_reduce(3, [&](int r) -> Communicator& { return ranks[r]; }) == 3);
  const auto errors = reduce_without(ranks, 3, 1, [&] { ranks.leave(1); });
  for (const int r : {0, 2}) {
    INFO("rank " << r << ": " << errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::lost);
    CHECK(errors[size_t(r)].rank == 1);
  }
}

TEST_CASE("a GPU that breaks is lost and named on every rank", "[gpu][faults]") {
  // CUDA_ERROR_LAUNCH_FAILED, and a word that at a start would mean that the machine cannot.
  for (const int code : {719, 304}) {
    INFO(code);
    set_up_gpus(3);
    GpuJob job = job_of(3, "", 60);
    job.options.algo = "ring";
    {
      Communicators ranks = start_gpu_job(job);
      CHECK(how_many_reduce(3, [&](int r) -> Communicator& { return *ranks[size_t(r)]; }) == 3);
      fake_cuda::break_device(1, code);
      std::vector<Error> errors(3);
      on_all(3, [&](int r) {
        Stream stream(*ranks[size_t(r)]);
        const Status status = reduce(*ranks[size_t(r)], stream);
        if (!status) errors[size_t(r)] = status.error();
      });
      for (int r = 0; r < 3; ++r) {
        INFO("rank " << r << ": " << errors[size_t(r)].chain());
        CHECK(errors[size_t(r)].code == ErrorCode::lost);
        CHECK(says(errors[size_t(r)], "GPU 1"));
      }
      fake_cuda::break_device(1, 0);  // so that it takes back what is given back
    }
    CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
  }
}

TEST_CASE("a GPU that refuses a question while work is under way is lost", "[gpu][faults]") {
  set_up_gpus(2);
  GpuJob job = job_of(2, "", 60);
  job.options.algo = "ring";
  FailingJob ranks(job);
  CHECK(how_many_reduce(2, [&](int r) -> Communicator& { return ranks[r]; }) == 2);
  std::vector<Error> errors(2);
  on_all(2, [&](int r) {
    Stream stream(ranks[r]);
    if (r == 0) fake_cuda::fail("cuStreamQuery", 304);
    Status status = reduce(ranks[r], stream);
    while (status) status = reduce(ranks[r], stream);
    errors[size_t(r)] = status.error();
  });
  for (const Error& error : errors) {
    INFO(error.chain());
    CHECK(error.code == ErrorCode::lost);
    CHECK(says(error, "query its stream"));
    CHECK(error.rank == errors[0].rank);
    CHECK(error.rank >= 0);
  }
}

// A rank that waited gives memory back next, which kernels that still run would write to.
TEST_CASE("a wait that the driver refuses once ends when the kernels have ended", "[gpu][faults]") {
  set_up_gpus(2);
  static std::atomic<int> running[2];
  static kernels::cuda::Launcher until_told = host_launcher();
  until_told.launch_works = [](const kernels::cuda::WorksLaunch& launch) {
    std::atomic<int>& mine = running[launch.works->rank];
    ++mine;
    return fake_cuda::enqueue(launch.stream, [&mine, word = launch.shared.abort_word] {
      const Deadline deadline = Deadline::after_seconds(60);
      while (std::atomic_ref<uint32_t>(*word).load() == 0 && !deadline.passed())
        base::sleep_until(Deadline::after_ms(5));
      // time is what is tested: kernels that end later than they are waited for
      base::sleep_until(Deadline::after_ms(300));
      --mine;
    });
  };
  GpuJob job = job_of(2, "", 60);
  job.options.algo = "ring";
  job.launcher = &until_told;
  FailingJob ranks(job);
  std::atomic<int> started{0}, lost{0}, left_behind{0};
  on_all(2, [&](int r) {
    std::vector<float> data(1000, 1.f);
    Stream stream(ranks[r]);
    if (ranks[r].start({.collective = Collective::all_reduce,
                        .input = data.data(),
                        .output = data.data(),
                        .count = data.size()},
                       stream))
      ++started;
    const Deadline both = Deadline::after_seconds(40);
    while (started < 2 && !both.passed()) base::sleep_until(Deadline::after_ms(1));
    if (r == 0) fake_cuda::fail("cuStreamQuery", 304);
    const Status status = stream.synchronize();
    left_behind += running[r];
    if (!status && status.error().code == ErrorCode::lost) ++lost;
  });
  CHECK(lost == 2);
  CHECK(left_behind == 0);
}

// The others would wait for it until their deadline.
TEST_CASE("a graph that one GPU rank cannot record or launch is told to all", "[gpu][faults]") {
  for (const char* call :
       {"cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    INFO(call);
    set_up_gpus(2);
    GpuJob job = job_of(2, "", 60);
    job.options.algo = "ring";
    FailingJob ranks(job);
    CHECK(how_many_reduce(2, [&](int r) -> Communicator& { return ranks[r]; }) == 2);
    fake_cuda::fail(call, 304);
    std::vector<Error> errors(2);
    on_all(2, [&](int r) {
      std::vector<float> data(1000, 1.f);
      const auto replays = [&](Stream& stream) -> Status {
        COLL_TRY(stream.capture_begin());
        COLL_TRY(ranks[r].start({.collective = Collective::all_reduce,
                                 .input = data.data(),
                                 .output = data.data(),
                                 .count = data.size()},
                                stream));
        COLL_ASSIGN(const auto graph, stream.capture_end());
        COLL_TRY(stream.replay(graph));
        return stream.synchronize();
      };
      Stream stream(ranks[r]);
      const Status status = replays(stream);
      if (!status) errors[size_t(r)] = status.error();
      // The rank that failed still has its communicator: the other does not hear by its leaving.
      const Deadline told = Deadline::after_seconds(40);
      while (ranks[r].async_error() && !told.passed()) base::sleep_until(Deadline::after_ms(5));
    });
    for (const Error& error : errors) {
      INFO(error.chain());
      CHECK(error.code == ErrorCode::lost);
      CHECK(says(error, "graph"));
      CHECK(error.rank >= 0);
      CHECK(error.rank == errors[0].rank);
    }
  }
}

TEST_CASE("a kernel that cannot be launched is a lost rank", "[gpu][faults]") {
  set_up_gpus(2);
  static kernels::cuda::Launcher failing = host_launcher();
  failing.launch_works = [](const kernels::cuda::WorksLaunch& launch) {
    return launch.works->rank == 1 ? 98 : host_launcher().launch_works(launch);
  };
  GpuJob job = job_of(2, "", 60);
  job.options.algo = "ring";
  job.launcher = &failing;
  FailingJob ranks(job);
  const auto errors = reduce_without(ranks, 2, -1, [] {});
  for (int r = 0; r < 2; ++r) {
    INFO("rank " << r << ": " << errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::lost);
    CHECK(says(errors[size_t(r)], "cannot start allreduce"));
    CHECK(says(errors[size_t(r)], "the launcher's own words"));
  }
}

TEST_CASE("a GPU that stands still without a word is told of", "[gpu][faults]") {
  set_up_gpus(2);
  static std::atomic<bool> stands{true};
  static kernels::cuda::Launcher standing = host_launcher();
  standing.launch_works = [](const kernels::cuda::WorksLaunch& launch) {
    return fake_cuda::enqueue(launch.stream, [] {
      const Deadline deadline = Deadline::after_seconds(60);
      while (stands && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
    });
  };
  GpuJob job = job_of(2, "", 0.2);
  job.options.algo = "ring";
  job.launcher = &standing;
  {
    const Communicators ranks = start_gpu_job(job);
    std::vector<float> data[2] = {std::vector<float>(10), std::vector<float>(10)};
    std::unique_ptr<Stream> streams[2];
    std::atomic<int> started{0};
    on_all(2, [&](int r) {
      streams[r] = std::make_unique<Stream>(*ranks[size_t(r)]);
      if (ranks[size_t(r)]->start({.collective = Collective::all_reduce,
                                   .input = data[r].data(),
                                   .output = data[r].data(),
                                   .count = data[r].size()},
                                  *streams[r]))
        ++started;
    });
    REQUIRE(started == 2);
    const Deadline deadline = Deadline::after_seconds(40);
    while (ranks[0]->async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(20));
    const Status status = ranks[0]->async_error();
    stands = false;
    REQUIRE_FALSE(status);
    INFO(status.error().chain());
    CHECK(status.error().code == ErrorCode::deadline);
    CHECK(says(status.error(), "made no progress with its queue"));
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

TEST_CASE("an abort ends the kernels of every GPU rank", "[gpu][faults]") {
  set_up_gpus(4);
  FailingJob ranks(job_of(4, "", 60));
  bool begun = false;
  const auto errors = reduce_without(ranks, 4, 3, [&] {
    const Deadline deadline = Deadline::after_seconds(60);
    const auto busy = [&](int r) { return ranks[r].activity().busy; };
    while (!(begun = busy(0) && busy(1) && busy(2)) && !deadline.passed())
      base::sleep_until(Deadline::after_ms(1));
    ranks[3].abort(Error(ErrorCode::failed, "had enough"));
  });
  CHECK(begun);
  for (const int r : {0, 1, 2}) {
    INFO("rank " << r << ": " << errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::failed);
    CHECK(errors[size_t(r)].rank == 3);
    CHECK(says(errors[size_t(r)], "had enough"));
  }
}

TEST_CASE("a GPU communicator with work under way is destroyed without waiting", "[gpu][faults]") {
  set_up_gpus(2);
  const int64_t start = now_ns();
  {
    GpuJob job = job_of(2, "", 60);
    job.options.algo = "two-shot";  // needs no links, so that it starts without the other rank
    job.options.proto = "simple";
    Communicators ranks = start_gpu_job(job);
    std::vector<float> data(1000, 1.f);
    Stream stream(*ranks[0]);
    for (int i = 0; i < 3; ++i)
      REQUIRE(ranks[0]->start({.collective = Collective::all_reduce,
                               .input = data.data(),
                               .output = data.data(),
                               .count = data.size()},
                              stream));
    CHECK_FALSE(stream.idle());
    ranks.clear();
    CHECK(stream.idle());
  }
  CHECK(now_ns() - start < 20'000'000'000);
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

}  // namespace gpu_faults_tests
