#include "cmd/measure/same_command.h"

#include <nlohmann/json.hpp>

#include "base/format.h"

namespace collctl::cmd {
namespace {

using Json = nlohmann::json;

struct CommandField {
  const char* field;  // of BenchSpec::to_json()
  const char* name;   // as the command line says it
};
constexpr CommandField kCommandFields[] = {{"collective", "collective"},  // or what else ranks do
                                           {"min_bytes", "--min-bytes"},
                                           {"max_bytes", "--max-bytes"},
                                           {"step_factor", "--step-factor"},
                                           {"step_bytes", "--step-bytes"},
                                           {"iterations", "--iters"},
                                           {"warmup", "--warmup"},
                                           {"sync_each", "--sync"},
                                           {"types", "--dtype"},
                                           {"ops", "--op"},
                                           {"roots", "--root"},
                                           {"check", "--check"},
                                           {"in_place", "--in-place"},
                                           {"algorithms", "--algo"},
                                           {"protocols", "--proto"},
                                           {"channels", "--channels"},
                                           {"window", "--window"},
                                           {"cuda_graph", "--cuda-graph"},
                                           {"versus", "--vs or --vs-config"},
                                           {"soak_seed", "--seed"},
                                           {"soak_operations", "--ops"}};
constexpr CommandField kRailsFields[] = {
    {"message_bytes", "--message"}, {"seconds", "--seconds"}, {"timeout_s", "--pair-timeout"}};

}  // namespace

// In the order of the fields, what ranks do first.
std::string command_task(const BenchSpec& spec) {
  Json all = Json::parse(spec.to_json());
  if (spec.soak) all["collective"] = "soak";
  if (spec.suite == Suite::window_test) all["collective"] = "window-test";
  if (spec.suite == Suite::rails) all["collective"] = "rails";
  std::string text;
  for (const CommandField& each : kCommandFields)
    text += format("{}\t{}\n", each.name, all.at(each.field).dump());
  for (const CommandField& each : kRailsFields)
    text += format("{}\t{}\n", each.name, all.at("rails").at(each.field).dump());
  return text;
}

}  // namespace collctl::cmd
