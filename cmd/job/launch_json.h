// The roster of a job on hosts as data: per host how far it came, when, how, and why not further.
// Used by the reports of run. Pure.
#pragma once
#include <vector>

#include "base/json_writer.h"
#include "cmd/job/job.h"

namespace collctl::cmd {

// As "launch": {"hosts": [...]}; nothing for a job without hosts.
void write_launch(JsonWriter& json, const std::vector<HostEnd>& hosts);

}  // namespace collctl::cmd
