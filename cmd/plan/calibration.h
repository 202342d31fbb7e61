// What was measured of this machine's cores and of its GPUs' windows
// (runtime/communicator/calibrate.h), as `env` and `plan` show it. Threads: any.
#pragma once
#include <string>

#include "base/json_writer.h"
#include "base/result.h"
#include "runtime/communicator/calibrate.h"
#include "runtime/plan/model.h"

namespace collctl::cmd {

struct ShownCalibration {
  bool used = false;  // CALIBRATE
  runtime::KeptCalibration kept;
};
// Of this machine. Error usage: the knob's value.
Result<ShownCalibration> shown_calibration();

std::string calibration_text(const ShownCalibration& shown);  // a line
void write_calibration(const ShownCalibration& shown, JsonWriter& json);

// Of the GPUs that are planned for.
struct ShownWindows {
  bool used = false;      // CALIBRATE
  bool in_table = false;  // the model has figures of such GPUs
  runtime::KeptWindows kept;
};
Result<ShownWindows> shown_windows(const runtime::ModelInput& model, bool pinned);
std::string windows_text(const ShownWindows& shown);  // a line
void write_windows(const ShownWindows& shown, JsonWriter& json);

// All that are kept of this machine: a line each; "gpu_calibrations".
std::string all_windows_text();
void write_all_windows(JsonWriter& json);

}  // namespace collctl::cmd
