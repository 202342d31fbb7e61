#include "cmd/same_command.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/json_fields.h"

namespace collctl::cmd {
namespace {

using json_fields::Json;

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
constexpr size_t kMostOfValue = 60;  // of a value

// What every rank must have alike, one line each, in the order of kCommandFields.
std::string command_text(const BenchSpec& spec) {
  Json all = Json::parse(spec.to_json());
  if (spec.soak) all["collective"] = "soak";
  if (spec.suite != Suite::none) all["collective"] = "window-test";
  std::string text;
  for (const CommandField& each : kCommandFields) text += all.at(each.field).dump() + "\n";
  return text;
}

std::vector<std::string> command_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

Status same_command(const BenchSpec& spec, runtime::Communicator& communicator, Deadline deadline) {
  const std::string mine = command_text(spec);
  COLL_ASSIGN(const std::vector<Bytes> all,
              communicator.gather_blobs(
                  {reinterpret_cast<const uint8_t*>(mine.data()), mine.size()}, deadline));
  const auto text_of = [&](size_t rank) {
    return std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (text_of(rank) == text_of(0)) continue;
    const auto first = command_lines(text_of(0)), other = command_lines(text_of(rank));
    std::string what = "command";
    for (size_t i = 0; i < std::min({first.size(), other.size(), std::size(kCommandFields)}); ++i)
      if (first[i] != other[i]) {
        what = format("{} ({}, not {})", kCommandFields[i].name, other[i].substr(0, kMostOfValue),
                      first[i].substr(0, kMostOfValue));
        break;
      }
    return Error(ErrorCode::usage,
                 format("rank {} was started with another {} than rank 0", rank, what),
                 "start all ranks with the same command line")
        .blame(int(rank));
  }
  return {};
}

}  // namespace collctl::cmd
