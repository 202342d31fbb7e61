#include "cmd/plan/calibration.h"

#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"
#include "runtime/plan/gpu_cost.h"

namespace collctl::cmd {
namespace {

void write_kernels(const runtime::GpuCalibration& c, JsonWriter& json) {
  if (c.launch_us > 0) json.field("launch_us", double(c.launch_us));
  json.key("kernels").begin_array();
  for (size_t i = 0; i < runtime::kCalibratedKernels.size(); ++i)
    if (c.base_us[i] > 0)
      json.begin_object()
          .field("algorithm", name_of(runtime::kCalibratedKernels[i].algorithm))
          .field("protocol", name_of(runtime::kCalibratedKernels[i].protocol))
          .field("base_us", double(c.base_us[i]))
          .field("GBps", double(c.gbps[i]))
          .end_object();
  json.end_array();
}

}  // namespace

Result<ShownCalibration> shown_calibration() {
  ShownCalibration shown;
  COLL_ASSIGN(const int64_t used, base::knob_int(base::KnobId::calibrate));
  shown.used = used != 0;
  shown.kept = runtime::kept_calibration(base::host_processors());
  return shown;
}

std::string calibration_text(const ShownCalibration& shown) {
  const runtime::KeptCalibration& kept = shown.kept;
  std::string text = "none, constants are used";
  if (!shown.used)
    text = "not used (COLLCTL_CALIBRATE=0)";
  else if (!kept.problem.empty())
    text = base::printable(kept.problem);
  else if (kept.found.measured())
    text = describe(kept.found) + format(" ({})", base::printable(kept.path));
  else if (!kept.path.empty())
    text = "none yet, the first job of CPU ranks measures this machine";
  return "# calibration: " + text + "\n";
}

void write_calibration(const ShownCalibration& shown, JsonWriter& json) {
  const runtime::KeptCalibration& kept = shown.kept;
  const runtime::Calibration& found = kept.found;
  json.key("calibration").begin_object().field("used", shown.used && found.measured());
  json.field("path", kept.path);
  if (!kept.problem.empty()) json.field("problem", kept.problem);
  if (found.measured()) {
    json.key("line_us").begin_array();
    for (const float us : found.line_us) json.value(double(us));
    json.end_array().key("exchanges").begin_array();
    for (size_t i = 0; i < runtime::kCalibratedBytes.size(); ++i)
      json.begin_object()
          .field("bytes", runtime::kCalibratedBytes[i])
          .field("GBps", double(found.window_gbps[i]))
          .end_object();
    json.end_array();
  }
  json.end_object();
}

Result<ShownWindows> shown_windows(const runtime::ModelInput& model, bool pinned) {
  ShownWindows shown;
  COLL_ASSIGN(const int64_t used, base::knob_int(base::KnobId::calibrate));
  shown.used = used != 0;
  shown.in_table = has_window_table(model, pinned);
  shown.kept = runtime::kept_windows(window_signature(model, pinned, base::host_processors()));
  return shown;
}

std::string windows_text(const ShownWindows& shown) {
  const runtime::KeptWindows& kept = shown.kept;
  std::string text = "none, constants are used";
  if (!shown.used)
    text = "not used (COLLCTL_CALIBRATE=0)";
  else if (!kept.problem.empty())
    text = base::printable(kept.problem);
  else if (kept.found.measured())
    text = describe(kept.found) + format(" ({})", base::printable(kept.path));
  else if (shown.in_table)
    text = "not needed, the model has figures of such GPUs";
  else if (!kept.path.empty())
    text = "none yet, the first job of these GPUs measures them";
  return "# calibration of GPUs: " + text + "\n";
}

void write_windows(const ShownWindows& shown, JsonWriter& json) {
  const runtime::KeptWindows& kept = shown.kept;
  json.key("gpu_calibration").begin_object();
  json.field("used", shown.used && kept.found.measured()).field("path", kept.path);
  if (!kept.problem.empty()) json.field("problem", kept.problem);
  write_kernels(kept.found, json);
  json.end_object();
}

std::string all_windows_text() {
  std::string text;
  for (const auto& kept : runtime::all_kept_windows(base::host_processors()))
    text += format("# calibration of GPUs: {}: {}\n",
                   base::printable(kept.signature.substr(kept.signature.rfind("; ") + 2)),
                   describe(kept.c));
  return text;
}

void write_all_windows(JsonWriter& json) {
  json.key("gpu_calibrations").begin_array();
  for (const auto& kept : runtime::all_kept_windows(base::host_processors())) {
    json.begin_object().field("machine", kept.signature);
    write_kernels(kept.c, json);
    json.end_object();
  }
  json.end_array();
}

}  // namespace collctl::cmd
