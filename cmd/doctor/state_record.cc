// States as files, and as answers of agents.
#include <sys/stat.h>

#include <cerrno>

#include "base/format.h"
#include "base/version.h"
#include "base/whole_file.h"
#include "cmd/doctor/state.h"

namespace collctl::cmd {
namespace {

constexpr const char* kSchema = "collctl.state/1";

// A host's name as that of a file; two of one name have their places.
std::string file_of(std::span<const StateOfHost> hosts, size_t which) {
  std::string name = hosts[which].host.name;
  for (char& c : name)
    if (c == '/' || uint8_t(c) <= ' ' || uint8_t(c) == 0x7f) c = '_';
  if (name.empty() || name[0] == '.') name.insert(0, "_");
  for (size_t i = 0; i < hosts.size(); ++i)
    if (i != which && hosts[i].host.name == hosts[which].host.name)  // as typed
      return format("{}-{}.json", name, which);
  return name + ".json";
}

}  // namespace

static void fields(Record& io, StateRecording& recording) {
  std::string schema = kSchema, version = base::kVersion;
  io.field("schema", schema, 64);
  if (schema != kSchema) io.fail("schema", kSchema);
  io.field("version", version, 64);
  io.field("source", recording.source, 1024);
  io.field("host", recording.host, 256);
  io.field("state", recording.state);
}

Result<std::string> state_answer() {
  return json_of(base::host_state());
}

Result<base::HostState> state_of_answer(const std::string& text) {
  auto state = record_of<base::HostState>(text);
  if (state) return state;
  return Error(ErrorCode::launch,
               format("what it says of its devices cannot be read: {}", state.error().message),
               "is the same version of collctl there? --stage always sends this one");
}

ReadState state_said(const Result<std::string>& answer) {
  auto state = answer.ok() ? state_of_answer(*answer) : Result<base::HostState>(answer.error());
  if (state) return {.state = std::move(*state), .missing = ""};
  return {.state = std::nullopt, .missing = state.error().chain()};
}

std::string recording_json(const StateRecording& recording) {
  return base::indented_json(json_of(recording));
}

Result<StateRecording> read_recording(const std::string& text) {
  return record_of<StateRecording>(text);
}

Status write_recordings(const std::string& folder, std::span<const StateOfHost> hosts) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return base::errno_error(ErrorCode::unavailable, folder, errno);
  for (size_t i = 0; i < hosts.size(); ++i)
    COLL_TRY(base::write_file_atomically(
        folder + "/" + file_of(hosts, i),
        recording_json({"recorded", hosts[i].host.name, *hosts[i].state})));
  return {};
}

}  // namespace collctl::cmd
