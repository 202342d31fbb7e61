// `env`: every knob, what it is worth now and why.
#include <algorithm>
#include <optional>

#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/json_writer.h"
#include "base/site_files.h"
#include "base/wait_policy.h"
#include "cmd/cli/help.h"
#include "cmd/cli/parse.h"
#include "cmd/plan/calibration.h"
#include "cmd/root_commands.h"
#include "cmd/text/provenance.h"
#include "cmd/variables.h"
#include "launcher/adopt/adopt.h"

namespace collctl::cmd {
namespace {

struct ShownVariable {
  const base::Knob* knob;
  base::KnobValue said;
  std::string value;
  bool masked;
};

std::vector<ShownVariable> visible_knobs() {
  std::vector<ShownVariable> list;
  for (const base::Knob& knob : base::knobs()) {
    if ((knob.flags & base::kHidden) != 0) continue;
    base::KnobValue value = base::knob_value(knob.id);
    const bool masked = (knob.flags & base::kSecret) != 0 && !value.text.empty();
    list.push_back({&knob, value, masked ? "********" : value.text, masked});
  }
  return list;
}

const char* kind_name(base::KnobKind kind) {
  switch (kind) {
    case base::KnobKind::text:
      return "text";
    case base::KnobKind::integer:
      return "integer";
    case base::KnobKind::bytes:
      return "bytes";
    case base::KnobKind::flag:
      return "flag";
    case base::KnobKind::seconds:
      return "seconds";
  }
  return "text";
}

// This process's rank by the variables of an engine; a contradiction is shown as well.
struct AdoptedShown {
  std::optional<launcher::Adopted> adopted;
  std::string meeting;  // or why there is none
  std::optional<Error> error;
};

AdoptedShown adopted_shown() {
  AdoptedShown shown;
  auto found = launcher::adopted_rank(base::environment);
  if (!found) {
    shown.error = found.error();
    return shown;
  }
  shown.adopted = *found;
  if (!shown.adopted) return shown;
  if (shown.adopted->size == 0) {
    shown.meeting = "asked of the engine";
    return shown;
  }
  const auto meeting = launcher::rendezvous_of(*shown.adopted, base::environment);
  shown.meeting = meeting ? meeting->from : meeting.error().message;
  return shown;
}

void write_adopted(JsonWriter& json, const AdoptedShown& shown) {
  json.key("adopted");
  if (!shown.adopted) {
    json.null();
    return;
  }
  const launcher::Adopted& adopted = *shown.adopted;
  json.begin_object().field("engine", launcher::engine_name(adopted.engine));
  json.field("rank", adopted.rank).field("size", adopted.size);
  json.field("local_rank", adopted.local_rank).field("local_size", adopted.local_size);
  json.field("meeting", shown.meeting);
  json.objects("sources", adopted.sources, [&](const auto& source) {
    json.field("what", source.what).field("variable", source.variable).field("value", source.value);
  });
  json.end_object();
}

std::string adopted_text(const AdoptedShown& shown) {
  if (!shown.adopted) return "";
  const launcher::Adopted& adopted = *shown.adopted;
  std::string text = adopted.size == 0
                         ? format("# this process is a rank by {}\n", adopted.from)
                         : format("# this process is rank {} of {} by {}; rendezvous: {}\n",
                                  adopted.rank, adopted.size, adopted.from, shown.meeting);
  for (const auto& source : adopted.sources)
    text += format("#   {:<10}  {}={}\n", source.what, source.variable, source.value);
  return text;
}

std::string nccl_text(const NcclVariables& found) {
  std::string text;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? what : ", ") + names[i];
    if (!names.empty()) text += "\n";
  };
  add("# set and honoured: ", found.honoured);
  add("# set, but ours is set as well and counts: ", found.overridden);
  add("# set and without effect here (only --vs nccl hands them to NCCL): ", found.without_effect);
  return text;
}

void write_nccl(JsonWriter& json, const NcclVariables& found) {
  json.key("nccl_variables").begin_object();
  json.list("honoured", found.honoured).list("overridden", found.overridden);
  json.list("without_effect", found.without_effect).end_object();
}

std::string site_text() {
  std::string text;
  for (const base::SiteFile& file : base::site_files()) {
    text += format("# set by {}: ", file.path);
    for (size_t i = 0; i < file.names.size(); ++i) text += (i == 0 ? "" : ", ") + file.names[i];
    text += file.names.empty() ? "nothing\n" : "\n";
  }
  return text;
}

std::string interfaces_text() {
  std::string text;
  for (const base::NetInterface& one : base::net_interfaces()) {
    text += format("# interface {}: {}", one.name,
                   one.aside.empty() ? "jobs may use it" : "not used unless named: " + one.aside);
    for (const base::InterfaceAddress& each : one.addresses) text += ", " + each.text;
    text += "\n";
  }
  return text;
}

void write_interfaces(JsonWriter& json) {
  json.objects("interfaces", base::net_interfaces(), [&](const base::NetInterface& one) {
    json.field("name", one.name).field("up", one.up).field("aside", one.aside);
    json.list("addresses", one.addresses, &base::InterfaceAddress::text);
  });
}

std::string env_json(const std::vector<ShownVariable>& list, const AdoptedShown& adopted,
                     const ShownCalibration& calibration) {
  JsonWriter json;
  begin_document(json, "collctl.env/1");
  json.objects("knobs", list, [&](const ShownVariable& shown) {
    json.field("name", format("COLLCTL_{}", shown.knob->name));
    json.field_or_null("field_name", *shown.knob->nccl_name != 0, shown.knob->nccl_name);
    json.field("kind", kind_name(shown.knob->kind));
    json.field("value", shown.value).field("default", shown.knob->default_value);
    json.field("origin", shown.said.variable.empty() ? "default" : shown.said.variable);
    json.field_or_null("file", !shown.said.file.empty(), shown.said.file);
    json.field("masked", shown.masked);
    json.field("help", knob_help(*shown.knob));
  });
  json.objects("site_files", base::site_files(), [&](const base::SiteFile& file) {
    json.field("path", file.path);
    json.list("variables", file.names).list("problems", file.problems);
  });
  json.field("wakeup_us", double(base::wakeup_ns()) * 1e-3);
  write_calibration(calibration, json);
  write_all_windows(json);
  write_interfaces(json);
  write_nccl(json, nccl_variables());
  write_adopted(json, adopted);
  return json.end_object().take() + "\n";
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string env_text(const std::vector<ShownVariable>& list, const Console& console) {
  size_t name = 0, value = 5, standard = 7, origin = 6;
  for (const ShownVariable& shown : list) {
    name = std::max(name, std::string(shown.knob->name).size() + 8);
    value = std::max(value, std::min<size_t>(24, or_dash(shown.value).size()));
    standard = std::max(standard, or_dash(shown.knob->default_value).size());
    origin = std::max(origin, shown.said.origin.size());
  }
  std::string text = format("{:<{}}  {:<{}}  {:<{}}  origin\n", "# knob", name, "value", value,
                            "default", standard);
  for (const ShownVariable& shown : list) {
    const bool set = shown.said.origin != "default";
    const std::string line =
        format("{:<{}}  {:<{}}  {:<{}}  {}", format("COLLCTL_{}", shown.knob->name), name,
               or_dash(shown.value), value, or_dash(shown.knob->default_value), standard,
               shown.said.origin);
    text += set ? console.out_colour("1", line) : line;
    text += format("\n    {}", knob_help(*shown.knob));
    if (*shown.knob->nccl_name != 0) text += format(" [{}]", shown.knob->nccl_name);
    text += "\n";
  }
  return text + "# [NAME]: NCCL's variable, honoured when ours is unset\n";
}

}  // namespace

Result<int> env_command(const ParsedLine& line, Console& console) {
  const auto list = visible_knobs();
  const AdoptedShown adopted = adopted_shown();
  // A value that is none is said below.
  const auto known = shown_calibration();
  const ShownCalibration calibration = known ? *known : ShownCalibration();
  console.out(line.has("json")
                  ? env_json(list, adopted, calibration)
                  : env_text(list, console) +
                        format("# a sleeping thread runs again after {:.1f} us here\n",
                               double(base::wakeup_ns()) * 1e-3) +
                        calibration_text(calibration) + all_windows_text() + interfaces_text() +
                        site_text() + nccl_text(nccl_variables()) + adopted_text(adopted));
  note_strangers(console);
  note_site_files(console);
  // Shown whatever they are; but what no command would take is said here already.
  if (adopted.error) {
    console.print_error(*adopted.error);
    return int(adopted.error->code);
  }
  Status legal = base::site_files_status();
  if (legal.ok()) legal = base::check_knobs();
  if (legal.ok()) return 0;
  console.print_error(legal.error());
  return int(legal.error().code);
}

}  // namespace collctl::cmd
