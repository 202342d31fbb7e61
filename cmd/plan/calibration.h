// Measurements of this machine's cores and of its GPUs' windows (runtime/communicator/calibrate.h),
// as `env` and `plan` show them. Threads: any.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/json_writer.h"
#include "base/result.h"
#include "cmd/plan/network.h"
#include "runtime/communicator/calibrate.h"
#include "runtime/plan/model.h"
#include "runtime/tuner/plugin.h"

namespace collctl::cmd {

struct ShownCalibration {
  bool used = false;  // CALIBRATE
  runtime::KeptCalibration kept;
};
// Calibration of this machine. Error usage: the knob's value.
Result<ShownCalibration> shown_calibration();

std::string calibration_text(const ShownCalibration& shown);  // a line
void write_calibration(const ShownCalibration& shown, JsonWriter& json);

// Windows of the GPUs that are planned for.
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

// The tuner plugin that a job with these variables would use, in a plan: what it is, and its choice
// beside ours. Threads: values.

struct PlanTuner {  // for the report
  std::string name, library, text;
  int version = 0;
};

// For a job on these hosts. Null: there is none. Error unavailable: it is named and cannot be used,
// or its init fails.
Result<std::unique_ptr<runtime::PluginTuner>> start_plan_tuner(
    const std::optional<PlanNetwork>& plugin, const runtime::HostGroups& hosts);
std::optional<PlanTuner> plan_tuner(const runtime::PluginTuner* tuner);

std::string plan_tuner_text(const std::optional<PlanTuner>& tuner);  // a line, or nothing
void write_plan_tuner(const std::optional<PlanTuner>& tuner, JsonWriter& json);
// "tuner" of a choice.
void write_tuned(const std::optional<runtime::TunedChoice>& tuned, JsonWriter& json);

}  // namespace collctl::cmd
