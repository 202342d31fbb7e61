#include "cmd/plan/calibration.h"

#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"

namespace collctl::cmd {

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

}  // namespace collctl::cmd
