// Findings as people read them. Pure.
#pragma once
#include <string>

#include "cmd/judge/finding.h"

namespace collctl::cmd {

// The value that stands in a table: its mark is " !" of what fails, " *" of what is odd.
std::string cell_text(const Finding& finding);
// Without the name that it begins with, as evidence of a host's own words does.
std::string evidence_alone(const Culprit& culprit);

}  // namespace collctl::cmd
