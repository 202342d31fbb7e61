// Calibrations as text and as numbers that the model of CPU ranks counts with.
#include "runtime/plan/calibration.h"

#include <cmath>
#include <limits>

#include "tests/unit/runtime/plan/plan_shapes.h"

namespace plan_calibration_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

Calibration measured() {
  return {.line_us = {0.07F, 0.2F, 0}, .window_gbps = {10, 20, 12.5F, 5}};
}

CommShape with_calibration(CommShape shape, double line_us, double gbps) {
  shape.local.line_us = line_us;
  shape.local.window_gbps.fill(gbps);
  return shape;
}

double us(const CommShape& shape, AlgorithmId algorithm, uint64_t bytes) {
  return predict_us({.collective = Collective::all_gather,
                     .algorithm = algorithm,
                     .protocol = Protocol::simple,
                     .bytes = bytes,
                     .chunk_bytes = 64 << 10},
                    shape);
}

}  // namespace

TEST_CASE("a calibration is read as it was written, on the machine that it is of", "[planner]") {
  const Calibration c = measured();
  const std::string text = to_text(c, "a machine");
  const auto read = calibration_of(text, "a machine");
  REQUIRE(read);
  CHECK(*read == c);
  CHECK_FALSE(calibration_of(text, "another machine"));
  CHECK(describe(c) ==
        "a flag 0.07 us within a cache, 0.2 us within a socket; exchanges of 4K, 64K, 512K, 4M at "
        "10, 20, 12.5, 5 GB/s");
}

TEST_CASE("what is no calibration is not taken in part", "[planner]") {
  const std::string good = to_text(measured(), "m");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  for (size_t n = 0; n < good.size(); ++n)
    if (good.substr(0, n) + "\n" != good) CHECK_FALSE(calibration_of(good.substr(0, n), "m"));
  for (const auto& bad :
       {changed("calibration 2", "calibration 1"), changed("0.07", "nan"), changed("0.07", "-0.07"),
        changed(" 0.2", " 0.2 1"), changed("12.5", "1e30"), changed("12.5", "0"),
        changed("10 20", "10"), good + "more\n", std::string(kMostCalibrationText, 'x')})
    CHECK_FALSE(calibration_of(bad, "m"));
}

TEST_CASE("numbers from elsewhere that cannot be are as good as none", "[planner]") {
  for (const float bad : {std::nanf(""), -1.0F, std::numeric_limits<float>::infinity(), 1e9F}) {
    Calibration c = measured();
    c.window_gbps[2] = bad;
    sanitize(c);
    CHECK(c == Calibration{});
    c = measured();
    c.line_us[1] = bad;
    sanitize(c);
    CHECK(c.line_us[1] == 0);
    CHECK(c.measured());
  }
}

TEST_CASE("the model of CPU ranks counts with what was measured", "[planner]") {
  const CommShape usual = with_windows(shape_of(0, 2));
  // A flag of twice the time doubles what waits for flags; half the rate what moves.
  const CommShape as_usual = with_calibration(usual, 0.025, 25);
  for (const AlgorithmId id : {AlgorithmId::one_shot, AlgorithmId::ring})
    for (const uint64_t bytes : {8, 4096, 1 << 20})
      CHECK(us(as_usual, id, bytes) == Approx(us(usual, id, bytes)));
  CHECK(us(with_calibration(usual, 0.05, 25), AlgorithmId::one_shot, 0) - 0.1 ==
        Approx(2 * (us(usual, AlgorithmId::one_shot, 0) - 0.1)));
  const CommShape slow = with_calibration(usual, 0.025, 12.5);
  for (const AlgorithmId id : {AlgorithmId::one_shot, AlgorithmId::ring})
    CHECK(us(slow, id, 64 << 20) == Approx(2 * us(usual, id, 64 << 20)).epsilon(0.01));
  // It gives back what it was made of.
  const double line = line_us_of(0.16), gbps = window_gbps_of(4096, 1.5);
  CHECK(us(with_calibration(usual, line, gbps), AlgorithmId::one_shot, 4096) ==
        Approx(0.1 + 0.16 + 1.5));
  // Between sizes by their logarithm, beyond them as at the ends.
  CommShape sizes = usual;
  sizes.local.line_us = 0.025;
  sizes.local.window_gbps = {10, 20, 10, 5};
  const auto rate = [&](uint64_t bytes) {
    return 2.9 * double(bytes) / 1e3 /
           (us(sizes, AlgorithmId::one_shot, bytes) - 0.1 -
            0.04 * std::max(1.0, std::ceil(double(bytes) / 65536)));
  };
  CHECK(rate(4 << 10) == Approx(10));
  CHECK(rate(16 << 10) == Approx(15));
  CHECK(rate(64 << 10) == Approx(20));
  CHECK(rate(1024) == Approx(10));
}

namespace {

GpuCalibration measured_gpus() {
  return {.launch_us = 1.5F,
          .base_us = {2, 2.5F, 7, 3.25F, 0, 10},
          .gbps = {225, 300, 367, 187.5F, 0, 5}};
}

}  // namespace

TEST_CASE("a calibration of GPUs is read as it was written", "[planner]") {
  const std::string text = to_text(measured_gpus(), "a machine; GPUs");
  const auto read = gpu_calibration_of(text);
  REQUIRE(read);
  CHECK(read->c == measured_gpus());
  CHECK(read->signature == "a machine; GPUs");
  CHECK(describe(read->c) ==
        "a launch 1.5 us; one-shot ll 2 us, 225 GB/s; one-shot ll128 2.5 us, 300 GB/s; one-shot "
        "simple 7 us, 367 GB/s; two-shot ll 3.25 us, 188 GB/s; two-shot simple 10 us, 5 GB/s");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    return other.replace(other.find(from), from.size(), to);
  };
  for (const auto& bad :
       {changed("gpu 1", "gpu 2"), changed("machine ", "machines "),
        changed("base_us 2", "base_us nan"), changed("base_us 2", "base_us -2"),
        changed("1.5", "-1"), changed("launch_us", "launch"), changed("2.5", "2.5 1"),
        changed("367", "1e30"), changed("225 ", ""), text + "more\n",
        to_text(GpuCalibration(), "a machine"), to_text(measured(), "a machine")})
    CHECK_FALSE(gpu_calibration_of(bad));
  for (size_t n = 0; n + 1 < text.size(); ++n) CHECK_FALSE(gpu_calibration_of(text.substr(0, n)));
  // A time without a rate is of no use.
  GpuCalibration half = measured_gpus();
  half.gbps[2] = 0;
  sanitize(half);
  CHECK(half.base_us[2] == 0);
  CHECK(half.measured());
}

}  // namespace plan_calibration_tests
