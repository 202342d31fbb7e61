// Timing window kernels of the first and the last rank, as threads over the fake driver's GPUs.
#include "runtime/executor/window_times.h"

#include "tests/unit/runtime/executor/rank_window.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace executor_window_times_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using kernels::cuda::Launcher;
using kernels::cuda::WindowLaunch;
using runtime::testing::host_launcher;
using runtime::testing::set_up_gpus;

namespace {

constexpr uint64_t kPartBytes = 200'000, kUsedBytes = 100'000;
constexpr double kBaseUs = 7, kBytesPerUs = 100'000;

// Both ranks count their operations in the other's part, and wait there for it.
int launch_counted(const WindowLaunch& launch) {
  return fake_cuda::enqueue(launch.stream, [launch] {
    const auto word = [&](int rank) {
      return std::atomic_ref(
          *reinterpret_cast<uint64_t*>(launch.memory.base + uint64_t(rank) * launch.memory.stride));
    };
    const uint64_t mine = ++word(1 - launch.memory.rank);
    const Deadline deadline = Deadline::after_ns(launch.shared.timeout_ns);
    while (word(launch.memory.rank).load() < mine && !deadline.passed()) {
      if (std::atomic_ref(*launch.shared.abort_word).load() != 0) return;
      base::yield_thread();
    }
    if (word(launch.memory.rank).load() < mine)
      launch.shared.reports->code = kernels::ReportCode::timeout;
    fake_cuda::take_us(kBaseUs + double(launch.work.count * sizeof(float)) / kBytesPerUs);
  });
}
int launch_refused(const WindowLaunch&) {
  return 700;
}
std::atomic<bool> released{false};
int launch_for_ever(const WindowLaunch& launch) {
  return fake_cuda::enqueue(launch.stream, [] {
    const Deadline deadline = Deadline::after_seconds(30);
    while (!released && !deadline.passed()) base::sleep_until(Deadline::after_ms(1));
  });
}

struct Timed {
  int ranks = 3;
  int (*last_launch)(const WindowLaunch&) = launch_counted;  // the last rank's
  double wait_s = 20;
  uint32_t kernels = 0b101;  // one-shot, LL and Simple
  bool loses_window = false, runs_on = false;
};

// By rank. The window is zero afterwards, unless it is lost.
std::vector<WindowTimes> times_of(const Timed& timed) {
  std::vector<WindowTimes> all(size_t(timed.ranks));
  const Job job({.size = timed.ranks});
  require_all_ok(job.run([&](Bootstrap& bootstrap) -> Status {
    const int me = bootstrap.rank();
    COLL_ASSIGN(const RankWindow made, make_rank_window(bootstrap, kPartBytes));
    Launcher launcher = host_launcher();
    launcher.window_part_bytes = [](int) { return kUsedBytes; };
    launcher.launch_window = me == timed.ranks - 1 ? timed.last_launch : launch_counted;
    const kernels::cuda::PeerMemory memory = made.window->memory();
    COLL_ASSIGN(WindowTimes times, time_windows({.device = made.device,
                                                 .launcher = &launcher,
                                                 .bootstrap = &bootstrap,
                                                 .memory = memory,
                                                 .kernels = timed.kernels,
                                                 .wait_s = timed.wait_s},
                                                soon()));
    COLL_TRY(expect(times.memory_lost == timed.loses_window, "the window lost, or not"));
    COLL_TRY(expect((times.unended != nullptr) == (timed.runs_on && me == timed.ranks - 1),
                    "an unended test, or none"));
    if (times.unended != nullptr) {
      COLL_TRY(expect(!times.unended->ended(), "kernels that run"));
      released = true;
      while (!times.unended->ended()) base::sleep_until(Deadline::after_ms(1));
      times.unended.reset();
    }
    COLL_TRY(bootstrap.barrier(soon()));
    if (!times.memory_lost) {
      const uint8_t* part = memory.base + uint64_t(me) * memory.stride;
      COLL_TRY(expect(std::count(part, part + kPartBytes, 0) == kPartBytes, "zeros"));
    }
    all[size_t(me)] = std::move(times);
    return bootstrap.finish(soon());
  }));
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
  return all;
}

}  // namespace

TEST_CASE("window kernels are timed between the first and the last rank", "[gpu][calibration]") {
  for (const int n : {2, 3, 5}) {
    set_up_gpus(n);
    const auto all = times_of({.ranks = n});
    for (const WindowTimes& each : all) {
      CHECK(each.why == "");
      CHECK(each.found == all[0].found);
      for (const size_t i : {0, 2}) CHECK(each.found.base_us[i] == Approx(kBaseUs));
      CHECK(each.found.gbps[0] == Approx(2 * kBytesPerUs / 1e3));  // a flag beside each word
      CHECK(each.found.gbps[2] == Approx(kBytesPerUs / 1e3));
      for (const size_t i : {1, 3, 4, 5}) CHECK(each.found.base_us[i] == 0);
    }
  }
}

TEST_CASE("kernels that cannot be timed are told of with the rank, on every rank",
          "[gpu][calibration]") {
  set_up_gpus(3);
  for (const WindowTimes& each : times_of({.last_launch = launch_refused, .wait_s = 0.2})) {
    CHECK(each.why == "the calibration of GPUs failed on rank 2: the launcher's own words");
    CHECK_FALSE(each.found.measured());
  }
}

TEST_CASE("kernels that do not end take the window with them", "[gpu][calibration]") {
  set_up_gpus(3);
  released = false;
  for (const WindowTimes& each : times_of(
           {.last_launch = launch_for_ever, .wait_s = 0.2, .loses_window = true, .runs_on = true}))
    CHECK_FALSE(each.found.measured());
}

}  // namespace executor_window_times_tests
