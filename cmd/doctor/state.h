// The absolute state of GPUs, NICs and hosts, judged: values that are wrong by themselves, values
// that are only worth knowing, and values held against peers (devices of one model). Pure but for
// asking and recording. Threads: one.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host_state.h"
#include "cmd/judge/finding.h"

namespace collctl::cmd {

// Question to an agent, and its answer.
inline constexpr const char* kAskState = "state";
Result<std::string> state_answer();
// Untrusted. Error: launch.
Result<base::HostState> state_of_answer(const std::string& text);

// State of a host as it was read; or why it was not.
struct ReadState {
  std::optional<base::HostState> state;
  std::string missing;
};

ReadState state_said(const Result<std::string>& answer);

struct StateOfHost {
  Host host;
  const base::HostState* state;
};
// A finding "state/FACT" for each value that is wrong or worth knowing, with the device, the value
// and what it is held against; and one "state" for each host, which says how much was read and what
// was not.
std::vector<Finding> state_findings(std::span<const StateOfHost> hosts);

// A host's state as a file, by which it can be judged elsewhere.
struct StateRecording {
  std::string source;  // "recorded", or who composed it from what
  std::string host;
  base::HostState state;
};
std::string recording_json(const StateRecording& recording);
// Untrusted. Errors: usage, with the field.
Result<StateRecording> read_recording(const std::string& text);
// Makes the folder, and in it HOST.json for each. Error unavailable, with the path.
Status write_recordings(const std::string& folder, std::span<const StateOfHost> hosts);

}  // namespace collctl::cmd
