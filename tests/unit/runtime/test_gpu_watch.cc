// The watch over GPUs: long queues of right operations are left alone, a GPU that stands still is
// told of soon, whoever waits for it, and wrong data is told of before the queue has ended.
#include "tests/unit/runtime/gpu_ranks.h"

namespace gpu_watch_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using kernels::cuda::Launcher;
using kernels::cuda::WindowLaunch;
using kernels::cuda::WorksLaunch;

namespace {

// With this, a GPU may go without a sign for 1.6 x 1.125 + 1 = 2.8 s
// (runtime/executor/cuda_watch.cc), and a kernel may come so much later than the one on the other
// GPU.
constexpr double kOpTimeout = 1.6;
constexpr double kPatience = 2.8;

// Runs before the work of each of a test's kernels; set by each test.
std::function<void()> before_each;
template <class Launch>
int launch_after(const Launch& launch, int (*go_on)(const Launch&)) {
  const int error = fake_cuda::enqueue(launch.stream, [] { before_each(); });
  return error != 0 ? error : go_on(launch);
}
const Launcher& slow_launcher() {
  static Launcher table = [] {
    Launcher made = host_launcher();
    made.launch_works = [](const WorksLaunch& l) {
      return launch_after(l, host_launcher().launch_works);
    };
    made.launch_window = [](const WindowLaunch& l) {
      return launch_after(l, host_launcher().launch_window);
    };
    return made;
  }();
  return table;
}

GpuJob job_of(int ranks, const char* algo) {
  GpuJob job;
  job.ranks = ranks;
  job.options.op_timeout_s = kOpTimeout;
  job.options.algo = algo;
  job.options.proto = "simple";
  job.launcher = &slow_launcher();
  return job;
}

Operation sum_of(std::vector<float>& data) {
  return {.collective = Collective::all_reduce,
          .input = data.data(),
          .output = data.data(),
          .count = data.size()};
}

double seconds_since(int64_t start) {
  return double(now_ns() - start) * 1e-9;
}

// Holds kernels until it is released, at most for a minute.
struct Gate {
  std::atomic<bool> open{false};
  void pass() const {
    const Deadline deadline = Deadline::after_seconds(60);
    while (!open && !deadline.passed()) base::sleep_until(Deadline::after_ms(2));
  }
};

void wait_for_error(Communicator& c, double seconds) {
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (c.async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
}

}  // namespace

// 60 kernels of 100 ms: 6 s, more than twice the patience, with an event behind all of them.
TEST_CASE("a long queue of right operations is not a GPU that stands still", "[gpu][watch]") {
  for (const char* algo : {"ring", "two-shot"}) {  // fifos tell of it, and windows
    INFO(algo);
    set_up_gpus(2);
    // time is what is tested: a queue of slow kernels
    before_each = [] { base::sleep_until(Deadline::after_ms(100)); };
    const int64_t start = now_ns();
    CHECK(with_gpu_ranks(job_of(2, algo), [](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            std::vector<float> data(64, 1.f);
            for (int i = 0; i < 60; ++i) COLL_TEST_OK(complaints, c.start(sum_of(data), stream));
            complaints.add(c.rank(), stream.synchronize());
            complaints.add(c.rank(), c.async_error());
          }) == "");
    CHECK(seconds_since(start) > 2 * kPatience);
  }
}

TEST_CASE("a GPU that stands still in a long queue is told of in time", "[gpu][watch]") {
  set_up_gpus(2);
  static Gate gate;
  static std::atomic<int> started{0};
  static std::atomic<int64_t> stood_ns{0};
  gate.open = false;
  started = 0;
  before_each = [] {
    // time is what is tested: a queue of slow kernels
    if (++started <= 40) return base::sleep_until(Deadline::after_ms(20));
    if (stood_ns == 0) stood_ns = now_ns();
    gate.pass();
  };
  stood_ns = 0;
  {
    const Communicators ranks = start_gpu_job(job_of(2, "ring"));
    // Little, so that what is left of the queue ends in time when the communicators do.
    std::vector<float> data[2] = {std::vector<float>(1 << 14), std::vector<float>(1 << 14)};
    std::unique_ptr<Stream> streams[2];
    on_all(2, [&](int r) {
      streams[r] = std::make_unique<Stream>(*ranks[size_t(r)]);
      for (int i = 0; i < 100; ++i)
        if (!ranks[size_t(r)]->start(sum_of(data[r]), *streams[r])) return;
    });
    wait_for_error(*ranks[0], 50);
    const double silent = seconds_since(stood_ns);
    const Status status = ranks[0]->async_error();
    gate.open = true;
    REQUIRE_FALSE(status);
    INFO(status.error().chain());
    CHECK(status.error().code == ErrorCode::deadline);
    CHECK(status.error().chain().find("made no progress with its queue") != std::string::npos);
    CHECK(silent > kOpTimeout);
    CHECK(silent < 45);  // while the gate is still closed
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

// The steps of a plan of messages are uploaded: 40 bytes each. 4000 sends and receives are at least
// 2000 steps, and eight such plans (640 KB) more than the 512 KiB that uploads have, so the thread
// that starts them waits for the kernel in front, which does not end.
TEST_CASE("uploads behind a GPU that stands still end with it", "[gpu][watch]") {
  set_up_gpus(2);
  static Gate gate;
  gate.open = true;
  before_each = [] { gate.pass(); };
  {
    const Communicators ranks = start_gpu_job(job_of(2, "pairwise"));
    std::vector<float> data[2] = {std::vector<float>(64), std::vector<float>(64)};
    std::unique_ptr<Stream> streams[2];
    Status refused[2];
    const int64_t start = now_ns();
    on_all(2, [&](int r) {
      Communicator& c = *ranks[size_t(r)];
      streams[r] = std::make_unique<Stream>(c);
      const auto exchange = [&](size_t messages, uint64_t count) {
        std::vector<Operation> group;
        for (size_t i = 0; i < messages; ++i) {
          Operation op{.collective = Collective::send_recv, .count = count, .peer = 1 - r};
          if (i % 2 == 0)
            op.input = data[r].data();
          else
            op.output = data[r].data();
          group.push_back(op);
        }
        return c.start_all(group, *streams[r]);
      };
      refused[r] = exchange(2, 1);  // makes the links
      if (refused[r]) refused[r] = streams[r]->synchronize();
      gate.open = false;
      for (uint64_t i = 0; i < 8 && refused[r]; ++i) refused[r] = exchange(4000, 2 + i);
    });
    const double took = seconds_since(start);
    gate.open = true;
    for (int r = 0; r < 2; ++r) {
      REQUIRE_FALSE(refused[r]);
      INFO(refused[r].error().chain());
      CHECK(refused[r].error().code == ErrorCode::deadline);
      CHECK(refused[r].error().chain().find("made no progress") != std::string::npos);
    }
    CHECK(took > kOpTimeout);
    CHECK(took < 45);  // while the gate is still closed
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

// A kernel's finding reaches the peers while others behind it are still to end.
TEST_CASE("wrong data is told of before the queue has ended", "[gpu][watch]") {
  set_up_gpus(2);
  static Gate gate;
  gate.open = false;
  static Launcher reporting = host_launcher();
  reporting.launch_works = [](const WorksLaunch& launch) {
    return fake_cuda::enqueue(launch.stream, [work = *launch.works, shared = launch.shared] {
      if (work.rank != 1) return;
      kernels::Report& report = shared.reports[0];
      report.rank = 1;
      report.peer = 0;
      std::atomic_ref<kernels::ReportCode>(report.code).store(kernels::ReportCode::bad_data);
      gate.pass();
    });
  };
  GpuJob job = job_of(2, "ring");
  job.options.op_timeout_s = 60;
  job.launcher = &reporting;
  {
    const Communicators ranks = start_gpu_job(job);
    std::vector<float> data[2] = {std::vector<float>(64), std::vector<float>(64)};
    std::unique_ptr<Stream> streams[2];
    on_all(2, [&](int r) {
      streams[r] = std::make_unique<Stream>(*ranks[size_t(r)]);
      (void)ranks[size_t(r)]->start(sum_of(data[r]), *streams[r]);  // the communicator reports how
    });
    wait_for_error(*ranks[0], 20);
    const Status heard = ranks[0]->async_error();
    CHECK_FALSE(gate.open);
    gate.open = true;
    REQUIRE_FALSE(heard);
    INFO(heard.error().chain());
    CHECK(heard.error().code == ErrorCode::bad_data);
    CHECK(heard.error().chain().find("received from rank 0 data that is not") != std::string::npos);
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

}  // namespace gpu_watch_tests
