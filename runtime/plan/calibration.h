// What was measured of a machine's cores, for the model of time of CPU ranks (cost.h), which counts
// with constants where nothing was: how it is told, kept and read. Measured and kept by
// runtime/communicator/calibrate.h. Pure. Threads: values.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/processors.h"

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

}  // namespace collctl::runtime
