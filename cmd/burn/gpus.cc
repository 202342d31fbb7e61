// All GPUs of this host: a thread each burns one; this one takes samples.
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/format.h"
#include "base/numa.h"
#include "base/wait.h"
#include "cmd/burn/gpu_burner.h"
#include "cmd/burn/gpu_heat.h"
#include "kernels/cuda/launch.h"

namespace collctl::cmd {

namespace {

using transport::Device;

constexpr double kGpuSampleSeconds = 1, kGpuNapSeconds = 0.05;

}  // namespace

Result<std::vector<BurnDevice>> burn_gpus(const BurnRun& run) {
  COLL_ASSIGN(const int gpus, Device::count());
  std::vector<BurnDevice> devices{size_t(gpus)};
  std::vector<std::thread> threads;
  std::atomic<size_t> over = 0;
  for (int ordinal = 0; ordinal < gpus; ++ordinal) {
    BurnDevice& out = devices[size_t(ordinal)];
    out.gpu = true;
    out.device = format("GPU {}", ordinal);
    const auto device = Device::open(ordinal);
    if (!device) {
      out.why_not = device.error().chain();
      continue;
    }
    const auto& facts = (*device)->facts();
    out.device = facts.bus_id;
    out.model = facts.name;
    if (run.launcher->burn == nullptr)
      out.why_not =
          run.launcher->built ? "this build has no kernels for it" : run.launcher->why_not;
    else if (facts.compute_capability < 80 || !run.launcher->runs_on(facts.compute_capability))
      out.why_not = format("there are no kernels for compute capability {}.{}",
                           facts.compute_capability / 10, facts.compute_capability % 10);
    else
      threads.emplace_back([&run, &out, &over, ordinal, opened = *device] {
        if (!run.drivers.empty()) base::stay_on(run.drivers);
        burn_gpu(run, ordinal, opened, out);
        ++over;
      });
  }
  const GpuHeat heat;
  std::vector<BurnCurve> curves(devices.size());
  const int64_t began = now_ns();
  while (over < threads.size()) {
    for (size_t i = 0; i < devices.size(); ++i) {
      BurnSample sample{.at_s = base::seconds_since(began)};
      if (heat.read(devices[i].device, sample)) curves[i].add(sample);
    }
    if (run.look) run.look();
    const auto next = Deadline::after_seconds(kGpuSampleSeconds);
    while (over < threads.size() && !next.passed())
      base::sleep_until(Deadline::after_seconds(kGpuNapSeconds).earlier(next));
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < devices.size(); ++i) devices[i].samples = curves[i].samples();
  return devices;
}

}  // namespace collctl::cmd
