#include "cmd/plan/calibration.h"

#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"
#include "runtime/plan/gpu_cost.h"

namespace collctl::cmd {

namespace {

Result<bool> is_used() {
  COLL_ASSIGN(const int64_t used, base::knob_int(base::KnobId::calibrate));
  return used != 0;
}

// A line; `none`: in words, where nothing is kept.
template <class Measured>
std::string kept_text(const char* what, bool used, const runtime::Kept<Measured>& kept,
                      const char* none) {
  std::string text = none;
  if (!used)
    text = "not used (COLLCTL_CALIBRATE=0)";
  else if (!kept.problem.empty())
    text = base::printable(kept.problem);
  else if (kept.found.measured())
    text = describe(kept.found) + format(" ({})", base::printable(kept.path));
  return format("# {}: {}\n", what, text);
}
constexpr const char *kConstants = "none, constants are used", *kOfGpus = "calibration of GPUs";

// Begins the object.
template <class Measured>
void begin_kept(const char* key, bool used, const runtime::Kept<Measured>& kept, JsonWriter& json) {
  json.key(key).begin_object().field("used", used && kept.found.measured());
  json.field("path", kept.path);
  if (!kept.problem.empty()) json.field("problem", kept.problem);
}

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
  COLL_ASSIGN(shown.used, is_used());
  shown.kept = runtime::kept_calibration(base::host_processors());
  return shown;
}

std::string calibration_text(const ShownCalibration& shown) {
  return kept_text("calibration", shown.used, shown.kept,
                   shown.kept.path.empty()
                       ? kConstants
                       : "none yet, the first job of CPU ranks measures this machine");
}

void write_calibration(const ShownCalibration& shown, JsonWriter& json) {
  const runtime::Calibration& found = shown.kept.found;
  begin_kept("calibration", shown.used, shown.kept, json);
  if (found.measured()) {
    json.list("line_us", found.line_us, [](float us) { return double(us); });
    json.key("exchanges").begin_array();
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
  COLL_ASSIGN(shown.used, is_used());
  shown.in_table = has_window_table(model, pinned);
  shown.kept = runtime::kept_windows(window_signature(model, pinned, base::host_processors()));
  return shown;
}

std::string windows_text(const ShownWindows& shown) {
  const char* none =
      shown.kept.path.empty() ? kConstants : "none yet, the first job of these GPUs measures them";
  if (shown.in_table) none = "not needed, the model has figures of such GPUs";
  return kept_text(kOfGpus, shown.used, shown.kept, none);
}

void write_windows(const ShownWindows& shown, JsonWriter& json) {
  begin_kept("gpu_calibration", shown.used, shown.kept, json);
  write_kernels(shown.kept.found, json);
  json.end_object();
}

std::string all_windows_text() {
  std::string text;
  for (const auto& kept : runtime::all_kept_windows(base::host_processors()))
    text += format("# {}: {}: {}\n", kOfGpus,
                   base::printable(kept.signature.substr(kept.signature.rfind("; ") + 2)),
                   describe(kept.c));
  return text;
}

void write_all_windows(JsonWriter& json) {
  json.objects("gpu_calibrations", runtime::all_kept_windows(base::host_processors()),
               [&](const auto& kept) {
                 json.field("machine", kept.signature);
                 write_kernels(kept.c, json);
               });
}

Result<std::unique_ptr<runtime::PluginTuner>> start_plan_tuner(
    const std::optional<PlanNetwork>& plugin, const runtime::HostGroups& hosts) {
  constexpr uint64_t kNoCommunicator = 0;
  COLL_ASSIGN(const runtime::TunerPlugin found,
              runtime::find_tuner_plugin(plugin ? plugin->library : ""));
  if (found.calls == nullptr) return std::unique_ptr<runtime::PluginTuner>();
  return runtime::PluginTuner::start(found, kNoCommunicator, hosts, 0);
}

std::optional<PlanTuner> plan_tuner(const runtime::PluginTuner* tuner) {
  if (tuner == nullptr) return {};
  const runtime::TunerPlugin& plugin = tuner->plugin();
  return PlanTuner{plugin.name, plugin.library, plugin.text(), plugin.calls->version()};
}

std::string plan_tuner_text(const std::optional<PlanTuner>& tuner) {
  return tuner ? format("# {}: its choice, and ours beside it, below\n", tuner->text) : "";
}

void write_plan_tuner(const std::optional<PlanTuner>& tuner, JsonWriter& json) {
  if (!tuner) return;
  json.key("tuner_plugin").begin_object().field("name", tuner->name);
  json.field("version", tuner->version).field("library", tuner->library).end_object();
}

void write_tuned(const std::optional<runtime::TunedChoice>& tuned, JsonWriter& json) {
  if (!tuned) return;
  json.key("tuner").begin_object().field("followed", tuned->followed).field("wish", tuned->wish);
  json.key("own").begin_object().field("algorithm", name_of(tuned->own.algorithm));
  json.field("protocol", name_of(tuned->own.protocol)).field("channels", tuned->own.channels);
  json.field("time_us", tuned->own.us).end_object().end_object();
}

}  // namespace collctl::cmd
