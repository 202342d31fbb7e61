// How the agent is started on a host that may lack the binary: the command for SSH, and the
// messages that its script and the launcher exchange before the first frame. Pure. Used by
// HostLink.
//
// A host of another architecture than the binary's says "machine NAME" and reads a line of
// seventeen characters with the hash of the binary for such hosts, or "none". The script looks for
// the binary in the user's cache under its version and content hash, or at the path that was given,
// where its content must have that hash. There, and nobody else's to change:
// it becomes the agent. Not there: it says "need gzip|plain", reads a line of twelve characters
// with the number of bytes and then the bytes (each within a time of its own) into a private folder
// beside the target, checks by running the file that it is this binary and works on that host,
// renames it into place and becomes the agent. An error is one line "fail STEP TEXT".
#pragma once
#include <string>

#include "base/result.h"

namespace collctl::launcher {

enum class Staging : uint8_t { automatic, never, always };

struct StageOptions {
  std::string version, hash, machine;  // of this binary; machine as uname says it
  std::string path;                    // on the host; empty: in the cache
  Staging staging = Staging::automatic;
  double patience_s = 60;  // of the script, for each read; a launcher cut off says nothing
};

// One line for whatever shell the user has there (bash, dash, zsh, ksh, fish, csh).
std::string agent_command(const StageOptions& options);

// The line that goes before the bytes of the binary.
std::string staged_size(size_t bytes);
// The line that answers "machine NAME"; an empty hash: there is no such binary.
std::string staged_hash(const std::string& hash);
// "aarch64": what may be part of a file's name.
bool is_machine_name(const std::string& name);

// A line of the script after kAgentWord: an Error for "fail STEP TEXT" and "missing PATH".
Error stage_error(const std::string& word);
// "ended with exit code 4", "was killed by signal 9 (SIGKILL)": as channels give exit codes.
std::string exit_text(int exit_code);
// The same for a script that ended without the first frame: its exit code and standard error.
Error start_error(int exit_code, const std::string& errors, const std::string& noise);

}  // namespace collctl::launcher
