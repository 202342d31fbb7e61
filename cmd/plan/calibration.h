// What was measured of this machine's cores (runtime/communicator/calibrate.h), as `env` and `plan`
// show it. Threads: any.
#pragma once
#include <string>

#include "base/json_writer.h"
#include "base/result.h"
#include "runtime/communicator/calibrate.h"

namespace collctl::cmd {

struct ShownCalibration {
  bool used = false;  // CALIBRATE
  runtime::KeptCalibration kept;
};
// Of this machine. Error usage: the knob's value.
Result<ShownCalibration> shown_calibration();

std::string calibration_text(const ShownCalibration& shown);  // a line
void write_calibration(const ShownCalibration& shown, JsonWriter& json);

}  // namespace collctl::cmd
