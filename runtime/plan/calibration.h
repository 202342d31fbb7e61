// Calibration: measurements of a machine for the models of time, which use constants where nothing
// was measured: of its cores (cost.h), and of its GPUs' window kernels (gpu_cost.h). How it is
// told, kept and read. Measured by runtime/communicator/calibrate.h and
// runtime/executor/window_times.h. Pure. Threads: values.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/processors.h"
#include "kernels/algo/ids.h"

namespace collctl::runtime {

// Bytes that each of two ranks gives the other.
inline constexpr std::array<uint64_t, 4> kCalibratedBytes = {4 << 10, 64 << 10, 512 << 10, 4 << 20};

// Plain data of a CpuPlace. 0: not measured.
struct Calibration {
  float line_us[3] = {};  // a cache line from core to core, one way, by Nearness
  // 1e9 bytes/s of what the model counts in a window, by kCalibratedBytes.
  float window_gbps[kCalibratedBytes.size()] = {};
  float reserved = 0;

  bool measured() const { return window_gbps[0] > 0; }
  bool operator==(const Calibration&) const = default;
};
static_assert(sizeof(Calibration) == 32);

// Makes data from elsewhere safe to calculate with: what cannot be is not measured.
void sanitize(Calibration& c);

// Names machines that are alike: processors and the version of what is kept of them.
std::string machine_signature(const base::Processors& processors);

inline constexpr size_t kMostCalibrationText = 4096;
std::string to_text(const Calibration& c, const std::string& signature);
// Nothing: it is no such text, or of another machine.
std::optional<Calibration> calibration_of(const std::string& text, const std::string& signature);

// "flag 0.071 us; window 9.1 GB/s of 4K, ..."
std::string describe(const Calibration& c);

// The window kernels that are measured, by all-reduces of float32 between two GPUs: `small` and
// `large` bytes, of which a rate follows.
struct CalibratedKernel {
  kernels::AlgorithmId algorithm;
  kernels::Protocol protocol;
  uint64_t small, large;
};
inline constexpr std::array<CalibratedKernel, 6> kCalibratedKernels{{
    {kernels::AlgorithmId::one_shot, kernels::Protocol::ll, 8, 64 << 10},
    {kernels::AlgorithmId::one_shot, kernels::Protocol::ll128, 4 << 10, 4 << 20},
    {kernels::AlgorithmId::one_shot, kernels::Protocol::simple, 64 << 10, 8 << 20},
    {kernels::AlgorithmId::two_shot, kernels::Protocol::ll, 512, 64 << 10},
    {kernels::AlgorithmId::two_shot, kernels::Protocol::ll128, 4 << 10, 4 << 20},
    {kernels::AlgorithmId::two_shot, kernels::Protocol::simple, 64 << 10, 8 << 20},
}};

// Plain data. By kCalibratedKernels; 0: not measured.
struct GpuCalibration {
  float launch_us = 0;  // what an operation takes longer on a stream than out of a graph
  float base_us[kCalibratedKernels.size()] = {};  // the first flag out and in, without the launch
  float gbps[kCalibratedKernels.size()] = {};     // 1e9 bytes/s that leave a GPU, flags and all

  bool measured() const;
  bool operator==(const GpuCalibration&) const = default;
};
static_assert(sizeof(GpuCalibration) == 52);

void sanitize(GpuCalibration& c);
std::string to_text(const GpuCalibration& c, const std::string& signature);
// With the machine that it is of. Nothing: it is no such text.
struct GpuCalibrationText {
  std::string signature;
  GpuCalibration c;
};
std::optional<GpuCalibrationText> gpu_calibration_of(const std::string& text);
// "one-shot ll 2 us, 225 GB/s; ..."
std::string describe(const GpuCalibration& c);

}  // namespace collctl::runtime
