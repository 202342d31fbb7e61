// The tuner plugin that a job with these variables would use, in a plan: what it is, and its choice
// beside ours. Threads: values.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/json_writer.h"
#include "cmd/plan/network.h"
#include "runtime/tuner/plugin.h"

namespace collctl::cmd {

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
