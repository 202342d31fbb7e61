// GPU ranks that cannot start, stop, leave or break: every rank ends, in time, and says who it was.
#include "tests/unit/runtime/gpu_ranks.h"

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr double kOpTimeout = 3;  // one that is to pass; ranks begin closer to each other
GpuJob job_of(int ranks, const char* transport = "", double op_timeout_s = 20) {
  GpuJob job;
  job.ranks = ranks;
  job.options.transport = transport;
  job.options.op_timeout_s = op_timeout_s;
  return job;
}

bool says(const Error& error, std::string_view words) {
  return error.chain().find(words) != std::string::npos;
}

// Every rank is refused, with this code and these words.
void check_refused(const GpuJob& job, ErrorCode code, std::vector<std::string> words) {
  const auto results = try_gpu_job(job);
  for (size_t r = 0; r < results.size(); ++r) {
    REQUIRE_FALSE(results[r]);
    const Error& error = results[r].error();
    INFO("rank " << r << ": " << error.chain());
    CHECK(error.code == code);
    for (const std::string& each : words) {
      INFO(each);
      CHECK(says(error, each));
    }
  }
}

// A job that is destroyed although it failed; nothing may be left of it.
class FailingJob {
 public:
  explicit FailingJob(const GpuJob& job) : communicators_(start_gpu_job(job)) {}
  ~FailingJob() {
    communicators_.clear();
    CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
  }
  Communicator& operator[](int rank) { return *communicators_[size_t(rank)]; }
  void leave(int rank) { communicators_[size_t(rank)].reset(); }

 private:
  Communicators communicators_;
};

Status reduce(Communicator& c, Stream& stream) {
  thread_local std::vector<float> in, out;
  in.assign(200'000, 1.f);
  out.resize(in.size());
  COLL_TRY(c.start({.collective = Collective::all_reduce,
                    .input = in.data(),
                    .output = out.data(),
                    .count = in.size()},
                   stream));
  return stream.synchronize();
}

// How many ranks come through an all-reduce of all of them; makes the links.
int how_many_reduce(int ranks, const std::function<Communicator&(int)>& rank) {
  std::atomic<int> well{0};
  on_all(ranks, [&](int r) {
    Stream stream(rank(r));
    if (reduce(rank(r), stream)) ++well;
  });
  return well;
}

// What the ranks say that take part in an all-reduce; those absent wait until they hear of it.
std::vector<Error> reduce_without(FailingJob& job, int ranks, int absent,
                                  const std::function<void()>& absent_does) {
  std::vector<Error> errors(static_cast<size_t>(ranks));
  on_all(ranks, [&](int r) {
    if (r == absent) return absent_does();
    Stream stream(job[r]);
    const Status status = reduce(job[r], stream);
    if (!status) errors[size_t(r)] = status.error();
    if (reduce(job[r], stream)) errors[size_t(r)] = Error(ErrorCode::defect, "went on");
  });
  return errors;
}

}  // namespace

TEST_CASE("GPU ranks that cannot start say why before anything runs", "[gpu][faults]") {
  set_up_gpus(2);
  GpuJob same = job_of(3);
  same.device_of = [](int r) { return r == 2 ? 0 : r; };
  check_refused(same, ErrorCode::unavailable, {"rank 0 and rank 2 both want GPU 0"});

  GpuJob mixed = job_of(3);
  mixed.device_of = [](int r) { return r == 1 ? -1 : 0; };
  check_refused(mixed, ErrorCode::usage, {"rank 0", "drives a GPU, rank 1", "does not"});

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

TEST_CASE("ranks share a GPU where that is allowed", "[gpu]") {
  set_up_gpus(1);
  GpuJob job = job_of(2);
  job.options.share_device = true;
  job.device_of = [](int) { return 0; };
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const std::string wrong =
              run_case(c, stream, {.collective = Collective::all_reduce, .count = 1000});
          if (!wrong.empty()) complaints.add(wrong);
        }) == "");
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
    CHECK(says(status.error(), "GPU "));
    CHECK(status.error().hint.find("nvidia-smi") != std::string::npos);
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
  const int64_t start = now_ns();
  const auto errors = reduce_without(ranks, 3, 1, [&] { ranks.leave(1); });
  for (const int r : {0, 2}) {
    INFO("rank " << r << ": " << errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::lost);
    CHECK(errors[size_t(r)].rank == 1);
  }
  CHECK(now_ns() - start < 30'000'000'000);  // not the minute of the timeout
}

TEST_CASE("a GPU that breaks is lost and named on every rank", "[gpu][faults]") {
  set_up_gpus(3);
  GpuJob job = job_of(3, "", 60);
  job.options.algo = "ring";
  {
    Communicators ranks = start_gpu_job(job);
    CHECK(how_many_reduce(3, [&](int r) -> Communicator& { return *ranks[size_t(r)]; }) == 3);
    fake_cuda::break_device(1, 719);  // CUDA_ERROR_LAUNCH_FAILED
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
    CHECK(says(errors[size_t(r)], "does not start allreduce"));
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
    CHECK(says(status.error(), "has not got on with what is queued"));
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

TEST_CASE("an abort ends the kernels of every GPU rank", "[gpu][faults]") {
  set_up_gpus(4);
  FailingJob ranks(job_of(4, "", 60));
  const auto errors = reduce_without(ranks, 4, 3, [&] {
    base::sleep_until(Deadline::after_ms(100));
    ranks[3].abort(Error(ErrorCode::failed, "had enough"));
  });
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
