// The calibrations of a machine (runtime/plan/calibration.h), of its cores and of its GPUs'
// windows: measured by the first job there in at most 50 ms, kept in the user's cache
// (base/user_cache.h), read by the jobs that follow. Threads: any; calibrate() runs two of its own.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/processors.h"
#include "base/result.h"
#include "runtime/plan/calibration.h"

namespace collctl::runtime {

inline constexpr int64_t kCalibrationNs = 50'000'000;

template <class Measured>
struct Kept {
  Measured found;       // not measured: none is kept
  std::string path;     // where it is, or would be; empty: there is no place for it
  std::string problem;  // what is there and was not taken
};
using KeptCalibration = Kept<Calibration>;
using KeptWindows = Kept<GpuCalibration>;
KeptCalibration kept_calibration(const base::Processors& processors);
Status keep_calibration(const Calibration& c, const base::Processors& processors);
// That it could be kept: else it is not worth the time of every job.
Status try_to_keep(const base::Processors& processors);

// Calibrations of windows between GPUs, by window_signature().
KeptWindows kept_windows(const std::string& signature);
Status keep_windows(const GpuCalibration& c, const std::string& signature);
Status try_to_keep_windows(const std::string& signature);
// All that are kept of this machine's.
std::vector<GpuCalibrationText> all_kept_windows(const base::Processors& processors);

// Two threads on processors of `allowed`, for each nearness that some pair has; not measured where
// there are no two, or they may not be used, or others use them all the time.
Calibration calibrate(const base::Processors& processors, std::span<const int> allowed);

}  // namespace collctl::runtime
