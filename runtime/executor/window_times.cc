#include "runtime/executor/window_times.h"

#include <atomic>
#include <vector>

#include "base/format.h"
#include "base/log.h"
#include "kernels/chunk.h"
#include "runtime/plan/gpu_cost.h"

namespace collctl::runtime {
namespace {

using transport::DeviceEvent;
using transport::DeviceMemory;
using transport::DeviceStream;

// Launches that are timed as one, from a graph, as one by one the smallest take the host longer
// than the GPU; the least of several times counts. The clocks of a GPU rise meanwhile, so that all
// of it is done twice.
constexpr int kLaunches = 32, kTimes = 2, kPasses = 2;
constexpr uint64_t kLargeBytes = 1 << 20;  // from here on few do
constexpr int64_t kTimedTimeoutNs = 5'000'000'000;

struct TimesOutcome : JointOutcome {
  GpuCalibration found;
};

class TimesTest : public JointTest {
 public:
  explicit TimesTest(const WindowTimesOptions& options) : o_(options) {
    const int last = o_.memory.nranks - 1;
    takes_part_ = o_.memory.rank == 0 || o_.memory.rank == last;
    pair_ = {.base = o_.memory.base,
             .stride = o_.memory.stride * uint64_t(last),
             .rank = o_.memory.rank == 0 ? 0 : 1,
             .nranks = 2,
             .own = o_.memory.own};
  }

  Status set_up() override {
    if (!takes_part_) return {};
    COLL_TRY(o_.device->use());
    uint64_t most = 0;
    for (const CalibratedKernel& kernel : kCalibratedKernels) most = std::max(most, kernel.large);
    COLL_ASSIGN(input_, DeviceMemory::make(o_.device, most, false));
    COLL_ASSIGN(output_, DeviceMemory::make(o_.device, most, false));
    COLL_ASSIGN(words_, transport::PinnedMemory::make(o_.device, kWordBytes + sizeof(Report)));
    COLL_ASSIGN(stream_, DeviceStream::make(o_.device));
    for (auto& event : events_) {
      COLL_ASSIGN(event, DeviceEvent::make(o_.device, true));
    }
    return {};
  }

  Status go() override {
    if (!takes_part_) return {};
    std::vector<double> small_us(kCalibratedKernels.size(), 0), large_us = small_us;
    for (int pass = 0; pass < kPasses; ++pass)
      for (size_t i = 0; i < kCalibratedKernels.size(); ++i) {
        const CalibratedKernel& kernel = kCalibratedKernels[i];
        if ((o_.kernels >> i & 1) == 0) continue;
        COLL_TRY(keep_least(kernel, kernel.small, small_us[i]));
        COLL_TRY(keep_least(kernel, kernel.large, large_us[i]));
      }
    for (size_t i = 0; i < kCalibratedKernels.size(); ++i)
      if ((o_.kernels >> i & 1) != 0) set_measured(found_, i, small_us[i], large_us[i]);
    if ((o_.kernels & 1) == 0) return {};
    double on_stream_us = 0;
    COLL_TRY(keep_least_by([&] { return launch_all(kCalibratedKernels[0], 8, kLaunches); },
                           kLaunches, on_stream_us));
    found_.launch_us = float(on_stream_us - small_us[0]);
    sanitize(found_);
    return {};
  }

  Status wait() override {
    if (!takes_part_) return {};
    Status first = stream_.synchronize(Deadline::after_seconds(o_.wait_s));
    if (!first) abort();
    const auto& report = *reinterpret_cast<const Report*>(words_.data() + kWordBytes);
    if (first && report.code != kernels::ReportCode::none)
      return Error(ErrorCode::deadline, "an operation of the two ranks did not end");
    return first;
  }

  bool ended() const override {
    if (stream_.get() == nullptr) return true;
    const auto idle = stream_.idle();
    return idle && *idle;
  }

  TimesOutcome outcome() const {
    TimesOutcome mine;
    mine.found = found_;
    return mine;
  }

  // The counts of two ranks are none of all of them.
  Status clean() override {
    if (!takes_part_) return {};
    const bool host = o_.memory.own != nullptr;
    const uint64_t bytes =
        host ? o_.launcher->window_host_bytes(2) : o_.launcher->window_part_bytes(2);
    if (host) COLL_TRY(o_.device->zero(o_.memory.own, o_.launcher->window_own_bytes(2)));
    return o_.device->zero(o_.memory.base + uint64_t(o_.memory.rank) * o_.memory.stride, bytes);
  }

 private:
  using Report = kernels::Report;
  static constexpr uint64_t kWordBytes = 64;  // the abort word, before the report

  void abort() {
    std::atomic_ref(*reinterpret_cast<uint32_t*>(words_.data())).store(1);
    (void)stream_.synchronize(Deadline::after_seconds(kAbortSeconds));  // ended() says how it went
  }

  Status launch(const CalibratedKernel& kernel, uint64_t bytes) {
    kernels::Work work{};
    work.input = input_.data();
    work.output = output_.data();
    work.count = work.part_count = bytes / sizeof(float);
    work.chunk_count = kernels::chunk_grain(kernels::DataType::float32);  // of no account
    work.rank = pair_.rank;
    work.nranks = pair_.nranks;
    work.collective = kernels::Collective::all_reduce;
    work.algorithm = kernel.algorithm;
    work.protocol = kernel.protocol;
    work.type = kernels::DataType::float32;
    work.op = kernels::RedOp::sum;
    const int error = o_.launcher->launch_window(
        {.work = work,
         .memory = pair_,
         .flat = {},
         .shared = {.reports = reinterpret_cast<Report*>(words_.data() + kWordBytes),
                    .abort_word = reinterpret_cast<uint32_t*>(words_.data()),
                    .timeout_ns = kTimedTimeoutNs},
         .stream = stream_.get()});
    if (error == 0) return {};
    return Error(ErrorCode::unavailable, o_.launcher->error_text(error));
  }

  Status launch_all(const CalibratedKernel& kernel, uint64_t bytes, int launches) {
    for (int k = 0; k < launches; ++k) COLL_TRY(launch(kernel, bytes));
    return {};
  }

  // Launched by a graph.
  Status keep_least(const CalibratedKernel& kernel, uint64_t bytes, double& least) {
    const int launches = bytes >= kLargeBytes ? o_.large_launches : kLaunches;
    COLL_TRY(transport::DeviceGraph::begin(o_.device, stream_.get()));
    Status launched = launch_all(kernel, bytes, launches);
    auto graph = transport::DeviceGraph::end(o_.device, stream_.get());
    COLL_TRY(std::move(launched));
    if (!graph) return std::move(graph.error());
    return keep_least_by([&] { return graph->launch(stream_.get()); }, launches, least);
  }

  // The time of each of `launches` that follow as many others, which wait for the other rank.
  template <class Queue>
  Status keep_least_by(const Queue& queue, int launches, double& least) {
    for (int i = 0; i < kTimes; ++i) {
      COLL_TRY(queue());
      COLL_TRY(events_[0].record(stream_.get()));
      COLL_TRY(queue());
      COLL_TRY(events_[1].record(stream_.get()));
      COLL_TRY(wait());
      COLL_ASSIGN(const double us, events_[1].us_since(events_[0]));
      if (least == 0 || us / launches < least) least = us / launches;
    }
    return {};
  }

  const WindowTimesOptions o_;
  bool takes_part_ = false;
  kernels::cuda::PeerMemory pair_;
  DeviceMemory input_, output_;
  transport::PinnedMemory words_;
  DeviceStream stream_;
  DeviceEvent events_[2];
  GpuCalibration found_;
};

}  // namespace

Result<WindowTimes> time_windows(const WindowTimesOptions& options, Deadline deadline) {
  auto test = std::make_unique<TimesTest>(options);
  COLL_ASSIGN(const std::vector<TimesOutcome> all,
              take_steps<TimesOutcome>(
                  *test, *options.bootstrap, "calibration of GPUs", [&] { return test->outcome(); },
                  deadline));
  WindowTimes times;
  if (const int failed = first_failed(all); failed >= 0)
    times.why =
        format("the calibration of GPUs failed on rank {}: {}", failed, all[size_t(failed)].why);
  else
    times.found = all[0].found;
  sanitize(times.found);
  times.memory_lost = memory_lost(all);
  if (all[size_t(options.bootstrap->rank())].failed == JointOutcome::kNotEnded)
    times.unended = std::move(test);
  return times;
}

}  // namespace collctl::runtime
