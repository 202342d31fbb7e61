// gpu-test on GPUs of the fake driver: what is measured, compared, left out and said.
#include <algorithm>
#include <cstring>

#include "cmd/gpu_test/gpu_test.h"
#include "cmd/gpu_test/race.h"
#include "kernels/cuda/launch.h"
#include "tests/catch.h"
#include "tests/fake_drivers/cuda_control.h"

namespace gpu_test_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::cuda::Launcher;

namespace {

constexpr uint64_t kBytes = uint64_t{64} << 10;
constexpr double kCopyUs = 8, kLoadUs = 0.5;

const uint8_t* g_spoils = nullptr;  // this place of what kernels copy
int g_chased = -1;                  // GPU whose memory a chase does not finish in

int copy(void* to, const void* from, uint64_t bytes, void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    std::memmove(to, from, bytes);
    if (g_spoils != nullptr && fake_cuda::owner_of(to) == 2 && fake_cuda::owner_of(from) == 0)
      static_cast<uint8_t*>(to)[bytes - 1] ^= 1;
    fake_cuda::take_us(kCopyUs);
  });
}
int chase(const void* first, uint32_t steps, uint64_t* end, void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    const auto* at = static_cast<const uint64_t*>(first);
    for (uint32_t i = 0; i < steps; ++i) at = reinterpret_cast<const uint64_t*>(uintptr_t(*at));
    *end = fake_cuda::owner_of(first) == g_chased ? 0 : uint64_t(reinterpret_cast<uintptr_t>(at));
    fake_cuda::take_us(kLoadUs * steps);
  });
}

Launcher kernels_of(int capability) {
  Launcher launcher;
  launcher.built = true;
  launcher.architectures = "90";
  launcher.runs_on = capability == 86 ? [](int c) { return c == 86; } : [](int) { return false; };
  launcher.error_text = [](int) { return "its own words"; };
  launcher.peer_copy = copy;
  launcher.peer_chase = chase;
  return launcher;
}

Result<GpuReport> measured(const fake_cuda::Setup& setup, const Launcher& launcher) {
  fake_cuda::set_up(setup);
  return measure_gpus({.seconds = 0, .bytes = kBytes}, launcher);
}
GpuReport report_of(const fake_cuda::Setup& setup, const Launcher& launcher = kernels_of(86)) {
  auto report = measured(setup, launcher);
  INFO((report ? "" : report.error().chain()));
  REQUIRE(report);
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
  return *report;
}

}  // namespace

TEST_CASE("gpu-test measures every pair in every way, and compares", "[gpu_test]") {
  const GpuReport report = report_of({.devices = 3});
  REQUIRE(report.gpus.size() == 3);
  REQUIRE(report.pairs.size() == 6);
  CHECK(report.bytes == kBytes);
  for (const GpuPair& pair : report.pairs) {
    CAPTURE(pair.from, pair.to);
    CHECK(pair.from != pair.to);
    CHECK(pair.why.empty());
    CHECK(pair.wrong.empty());
    for (const double figure : pair.figures) CHECK(figure > 0);
    // By the GPUs' own clocks.
    CHECK(pair.of(PairFigure::kernel_write) == Approx(double(kBytes) / kCopyUs / 1e3));
    CHECK(pair.of(PairFigure::kernel_read) == Approx(double(kBytes) / kCopyUs / 1e3));
    CHECK(pair.of(PairFigure::latency) == Approx(kLoadUs));
  }
  for (const GpuEnd& end : report.gpus)
    for (const double figure : {end.to_all, end.from_all, end.sends_of_all, end.gets_of_all})
      CHECK(figure > 0);
  REQUIRE(report.legs.size() >= 3);
  for (const HostLeg& leg : report.legs) {
    CHECK(leg.to_GBps > 0);
    CHECK(leg.from_GBps > 0);
    CHECK(leg.both_GBps > 0);
    CHECK_FALSE(leg.wrong);
  }
}

TEST_CASE("gpu-test: data that is wrong is that of its pair and way", "[gpu_test]") {
  static const uint8_t place = 0;
  g_spoils = &place;
  g_chased = 1;
  const GpuReport report = report_of({.devices = 3});
  g_spoils = nullptr;
  g_chased = -1;
  for (const GpuPair& pair : report.pairs) {
    std::vector<std::string> wrong;
    if (pair.from == 0 && pair.to == 2) wrong = {"kernel-write", "kernel-read"};
    if (pair.to == 1) wrong = {"latency"};
    CHECK(pair.wrong == wrong);
  }
}

TEST_CASE("gpu-test: pairs without peer access are not measured, and say why", "[gpu_test]") {
  const GpuReport report = report_of({.devices = 3, .peers = "0-1"});
  for (const GpuPair& pair : report.pairs) {
    const bool cut = pair.from + pair.to == 1;
    CHECK(pair.why.empty() != cut);
    for (const double figure : pair.figures) CHECK((figure > 0) != cut);
  }
  CHECK(report_of({.devices = 2, .peers = "none"}).legs.size() >= 2);
}

TEST_CASE("gpu-test: one GPU has no pair; a build without kernels does the rest", "[gpu_test]") {
  const GpuReport one = report_of({.devices = 1});
  CHECK(one.pairs.empty());
  CHECK_FALSE(one.legs.empty());
  CHECK(document_text(gpu_document(one, gpu_json(one)), {.width = 80}).find("there is no pair") !=
        std::string::npos);
  Launcher none;
  none.why_not = "built without nvcc";
  for (const Launcher& launcher : {none, kernels_of(90)}) {
    const GpuReport report = report_of({.devices = 2}, launcher);
    CHECK_FALSE(report.no_kernels.empty());
    CHECK(report.pairs.at(0).of(PairFigure::write) > 0);
    CHECK(report.pairs.at(0).of(PairFigure::both) > 0);
    CHECK(report.pairs.at(0).of(PairFigure::kernel_write) == 0);
    CHECK(report.pairs.at(0).of(PairFigure::latency) == 0);
  }
}

TEST_CASE("gpu-test: an error names the pair, the GPU, or what is short", "[gpu_test]") {
  Launcher broken = kernels_of(86);
  broken.peer_copy = [](void*, const void*, uint64_t, void*) { return 700; };
  const auto failed = measured({.devices = 2}, broken);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().chain().find("GPU 0 (0000:11:00.0) -> GPU 1 (0000:10:00.0)") !=
        std::string::npos);
  CHECK(failed.error().chain().find("its own words") != std::string::npos);
  const auto small = measured({.devices = 2, .memory_bytes = 512 << 10}, kernels_of(86));
  REQUIRE_FALSE(small);
  CHECK(small.error().code == ErrorCode::unavailable);
  CHECK(small.error().message.find("too little free memory") != std::string::npos);
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("a race has each lane's own speed, and as many copies as fill the time", "[gpu_test]") {
  fake_cuda::set_up({.devices = 2});
  int copies[2] = {};
  {
    std::vector<transport::DevicePointer> devices;
    std::vector<transport::DeviceStream> streams;
    for (int g = 0; g < 2; ++g) {
      devices.push_back(*transport::Device::open(g));
      auto stream = transport::DeviceStream::make(devices.back());
      REQUIRE(stream);
      streams.push_back(std::move(*stream));
    }
    std::vector<Lane> lanes;
    for (size_t g = 0; g < 2; ++g)
      lanes.push_back({&devices[g], &streams[g], [&, g]() -> Status {
                         COLL_TRY(devices[g]->use());
                         const double us = g == 0 ? 100 : 200;
                         const int code =
                             fake_cuda::enqueue(streams[g].get(), [us] { fake_cuda::take_us(us); });
                         ++copies[g];
                         return code == 0 ? Status() : Error(ErrorCode::failed, "not queued");
                       }});
    const auto figures = race(lanes, 1'000'000, 0.0021);
    REQUIRE(figures);
    CHECK(figures->at(0) == Approx(10));
    CHECK(figures->at(1) == Approx(5));
  }
  CHECK(copies[0] == 1 + 1 + 1 + 10);  // those that hold back, the one that is a measure, the rest
  CHECK(copies[1] == 1 + 10);
}

TEST_CASE("a report of gpu-test survives as JSON, and is refused when it is none", "[gpu_test]") {
  const GpuReport report = report_of({.devices = 2});
  const auto back = read_gpu_report(gpu_json(report));
  REQUIRE(back);
  CHECK(back->host.name == report.host.name);
  CHECK(back->gpus.at(1).device == report.gpus.at(1).device);
  CHECK(back->pairs.at(1).of(PairFigure::latency) ==
        Approx(report.pairs.at(1).of(PairFigure::latency)));
  CHECK(gpu_json(*back) == gpu_json(report));
  std::string text = gpu_json(report);
  const size_t at = text.find("\"from\":1");
  REQUIRE(at != std::string::npos);
  text.replace(at, 8, "\"from\":2");
  CHECK_FALSE(read_gpu_report(text));
  CHECK_FALSE(read_gpu_report("{}"));
  CHECK_FALSE(record_of<GpuTestSpec>("{\"seconds\":-1,\"bytes\":65536}"));
  CHECK(record_of<GpuTestSpec>(json_of(GpuTestSpec{.seconds = 2}))->seconds == 2);
}

}  // namespace gpu_test_tests
