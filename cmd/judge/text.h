// Findings and the verdict as people read them. Names and words of hosts are in it: a terminal must
// not obey them (shown). Pure.
#pragma once
#include <span>
#include <string>

#include "cmd/judge/verdict.h"

namespace collctl::cmd {

// Its message, with the host where that does not name it.
std::string told(const Finding& finding);
// The value that stands in a table: its mark is " !" of what fails, " *" of what is odd.
std::string cell_text(const Finding& finding);
// What failed or was not tested, check by check, each with its remedies.
std::string problems_text(std::span<const Finding> findings);
// A line for each culprit but those that could not be asked, which `problems_text` names.
std::string suspects_text(std::span<const Culprit> culprits);
// "# Verdict: passed", or the reasons.
std::string verdict_text(const Verdict& verdict);
// Without what a terminal obeys; lines stay.
std::string shown(std::string text);

}  // namespace collctl::cmd
