#include "cmd/plan/tuner.h"

#include "base/format.h"

namespace collctl::cmd {

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
