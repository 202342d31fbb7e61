// The variables that are set, as commands speak of them: NCCL's by what they do here, and the files
// that set some. Threads: one (the command's).
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/command.h"
#include "cmd/cli/parse.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// By name. overridden: ours is set as well and counts.
struct NcclVariables {
  std::vector<std::string> honoured, overridden, without_effect;
};
NcclVariables nccl_variables();

// A variable whose name is not quite a knob's changes nothing, and nothing else would ever say so.
void note_strangers(Console& console);

// Notes what is wrong with site files (base/site_files.h).
void note_site_files(Console& console);
// Before a command that goes by variables runs: what in them does nothing, once in a job. Error
// usage: NCCL_CONF_FILE names what cannot be used.
Status look_at_variables(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd
