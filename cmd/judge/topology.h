// Oddities of a machine (topology/findings.h) as findings. Pure.
#pragma once
#include <vector>

#include "base/record.h"
#include "cmd/judge/finding.h"
#include "topology/types.h"

namespace collctl::topology {
void fields(Record& io, Finding& finding);
}

namespace collctl::cmd {

// `strict`: a warning is a failure.
std::vector<Finding> topology_findings(const std::vector<topology::Finding>& list, bool strict);

}  // namespace collctl::cmd
