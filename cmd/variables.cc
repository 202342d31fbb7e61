#include "cmd/variables.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/site_files.h"
#include "launcher/adopt/adopt.h"
#include "runtime/request/choices.h"

namespace collctl::cmd {
namespace {

// One rank speaks for a job whose ranks were all started alike.
bool speaks(const ParsedLine& line) {
  if (line.has("rank")) return line.text("rank") == "0";
  const auto rank = launcher::adopted_rank(base::environment);
  return !rank || !*rank || (*rank)->rank <= 0;
}

bool goes_by_variables(const Command& command) {
  return (command.scopes & (kReading | kGenerate | kReport)) == 0;
}

}  // namespace

NcclVariables nccl_variables() {
  NcclVariables found;
  for (const std::string& variable : base::environment_list()) {
    const size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    if (name.rfind("NCCL_", 0) != 0 || equals + 1 >= variable.size()) continue;  // empty: unset
    if (name == "NCCL_VERSION") continue;  // no setting: container images say what they contain
    if (!std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; })) continue;
    const auto knobs = base::knobs();
    const auto knob =
        std::ranges::find_if(knobs, [&](const base::Knob& k) { return name == k.nccl_name; });
    // The files that it names have been read.
    if (name == "NCCL_CONF_FILE")
      found.honoured.push_back(name);
    else if (knob == knobs.end())
      found.without_effect.push_back(name);
    else
      (base::knob_value(knob->id).variable == name ? found.honoured : found.overridden)
          .push_back(name);
  }
  for (auto* names : {&found.honoured, &found.overridden, &found.without_effect})
    std::ranges::sort(*names);
  return found;
}

void note_strangers(Console& console) {
  std::vector<std::string> names, others;
  for (const base::Knob& knob : base::knobs())
    ((knob.flags & base::kHidden) != 0 ? others : names).push_back(format("COLLCTL_{}", knob.name));
  const auto& places = launcher::inner_rank_variables();
  others.insert(others.end(), places.begin(), places.end());
  const auto is_in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  for (const std::string& variable : base::environment_list()) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.rfind("COLLCTL_", 0) != 0 || is_in(names, name) || is_in(others, name)) continue;
    if (!std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; })) continue;
    const std::string near = nearest(name, names);
    console.note(format("{} is set, but there is no such knob{}", name,
                        near.empty() ? "" : "; did you mean " + near + "?"));
  }
}

void note_site_files(Console& console) {
  for (const base::SiteFile& file : base::site_files())
    for (const std::string& problem : file.problems)
      console.note(format("{}: {}", file.path, problem));
}

Status look_at_variables(const ParsedLine& line, Console& console) {
  if (!goes_by_variables(*line.command)) return {};
  COLL_TRY(base::site_files_status());
  if (!speaks(line)) return {};
  note_site_files(console);
  for (const base::KnobId id : {base::KnobId::algo, base::KnobId::proto}) {
    const base::KnobValue value = base::knob_value(id);
    if (!value.variable.starts_with("NCCL_")) continue;
    if (const std::string words = runtime::nccl_list(value.text).left_out; !words.empty())
      console.note(
          format("{} = '{}': left out, as only NCCL has it: {}", value.origin, value.text, words));
  }
  note_strangers(console);
  const std::vector<std::string> idle = nccl_variables().without_effect;
  if (idle.empty() || line.has("vs")) return {};
  std::string names;
  for (const std::string& name : idle) {
    const std::string file = base::file_of_variable(name);
    names +=
        format("{}{}{}", names.empty() ? "" : ", ", name, file.empty() ? "" : " (" + file + ")");
  }
  console.note(format("set and without effect here: {}", names));
  return {};
}

}  // namespace collctl::cmd
