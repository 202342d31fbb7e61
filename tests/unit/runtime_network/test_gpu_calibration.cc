// The calibration of GPUs' windows by the first job of a machine that the model has no table of.
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>

#include "base/env.h"
#include "base/fd.h"
#include "base/whole_file.h"
#include "runtime/communicator/calibrate.h"
#include "tests/unit/runtime/gpu_fault_jobs.h"

namespace gpu_calibration_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// GPUs below one PCIe switch, and a cache of its own.
class Machine {
 public:
  Machine(int gpus, int sm) {
    char folder[] = "/tmp/collctl-calibrate-XXXXXX";
    REQUIRE(::mkdtemp(folder) != nullptr);
    folder_ = folder;
    std::string devices;
    for (int gpu = 0; gpu < gpus; ++gpu)
      devices += format(
          "<pci busid=\"0000:{}:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2684\" "
          "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{}\" rank=\"{}\" "
          "sm=\"{}\"/></pci>",
          10 + gpu, gpu, gpu, sm);
    const std::string path = folder_ + "/machine.xml";
    REQUIRE(base::write_file_atomically(
                path,
                "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" "
                "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"><pci "
                "busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
                "link_width=\"16\">" +
                    devices + "</pci></cpu></system>")
                .ok());
    set("COLLCTL_TOPO_FILE", path);
    set("FAKE_NVML", format("{}:{}:0:hidden", gpus, sm));
    set("XDG_CACHE_HOME", folder_);
    set_up_gpus(gpus);
  }
  ~Machine() { std::filesystem::remove_all(folder_); }
  void set(const char* name, const std::string& value) { variables_.emplace_back(name, value); }
  std::vector<GpuCalibrationText> kept() const { return all_kept_windows(base::host_processors()); }

 private:
  std::string folder_;
  std::deque<base::ScopedVariable> variables_;
};

std::atomic<double> bytes_per_us{20'000};  // of the GPUs here

int launch_timed(const kernels::cuda::WindowLaunch& launch) {
  if (const int error = host_launcher().launch_window(launch); error != 0) return error;
  return fake_cuda::enqueue(launch.stream, [count = launch.work.count] {
    fake_cuda::take_us(5 + double(count * sizeof(float)) / bytes_per_us);
  });
}
const kernels::cuda::Launcher& timed_launcher() {
  static const kernels::cuda::Launcher timed = [] {
    kernels::cuda::Launcher table = host_launcher();
    table.launch_window = launch_timed;
    return table;
  }();
  return timed;
}

// The time that an all-reduce of so many floats is expected to take, the same on all ranks.
double expected_us(int ranks, uint64_t count, bool recalibrate = false) {
  std::vector<double> us(size_t(ranks), 0);
  GpuJob job = job_of(ranks);
  job.launcher = &timed_launcher();
  job.options.calibrate = true;
  job.options.recalibrate = recalibrate;
  CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
          std::vector<float> none(1);
          const Operation op{.collective = Collective::all_reduce,
                             .input = none.data(),
                             .output = none.data(),
                             .count = count};
          const auto plan = c.plan_for({&op, 1});
          if (!plan) return complaints.add(c.rank(), plan.error());
          us[size_t(c.rank())] = plan->ops[0].expected_us;
          Stream stream(c);
          const std::string wrong =
              run_case(c, stream, {.collective = Collective::all_reduce, .count = count});
          if (!wrong.empty()) complaints.add(wrong);
        }) == "");
  for (const double each : us) CHECK(each == us[0]);
  return us[0];
}

}  // namespace

TEST_CASE("the first job of unknown GPUs measures their windows, the next ones read it", "[gpu]") {
  for (const int ranks : {2, 3}) {
    const Machine machine(ranks, 89);
    const double first = expected_us(ranks, 1000);
    const auto kept = machine.kept();
    REQUIRE(kept.size() == 1);
    CHECK(kept[0].signature.ends_with("; GPUs 10de2684 of SM 89, PIX at 24 GB/s"));
    CHECK(kept[0].c.base_us[0] == Approx(5));
    CHECK(kept[0].c.gbps[0] == Approx(40));  // a flag beside each word
    CHECK(expected_us(ranks, 1000) == first);
    CHECK(machine.kept()[0].c == kept[0].c);
    // Measured anew it is what they do now.
    bytes_per_us = 10'000;
    CHECK(expected_us(ranks, 1000) == first);
    CHECK(expected_us(ranks, 1000, true) > first);
    CHECK(machine.kept()[0].c.gbps[0] == Approx(20));
    bytes_per_us = 20'000;
  }
}

TEST_CASE("GPUs that must not reach each other are measured through host memory", "[gpu]") {
  Machine machine(2, 89);
  machine.set("COLLCTL_P2P_LEVEL", "LOC");
  expected_us(2, 1000);
  const auto kept = machine.kept();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].signature.find("of SM 89, through host memory at ") != std::string::npos);
  for (size_t i = 0; i < kCalibratedKernels.size(); ++i)
    if (kCalibratedKernels[i].protocol != kernels::Protocol::ll) CHECK(kept[0].c.base_us[i] == 0);
}

TEST_CASE("nothing is measured where it is not wanted, or could not be kept", "[gpu]") {
  {
    Machine machine(2, 89);
    machine.set("COLLCTL_CALIBRATE", "0");
    expected_us(2, 1000);
    CHECK(machine.kept().empty());
  }
  {
    Machine machine(2, 89);
    machine.set("XDG_CACHE_HOME", "/proc/nowhere");
    const uint64_t before = launch_counts().windows;
    expected_us(2, 1000);
    CHECK(launch_counts().windows - before <= 2);
  }
}

}  // namespace gpu_calibration_tests
