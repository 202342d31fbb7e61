// Who is behind trials between two ends that failed: an end when at least half of all its trials
// failed and another such end does not explain them, else the link between the two. For what was
// measured once, without noise; blame.h knows better where it can be measured again. Pure.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cmd/judge/finding.h"

namespace collctl::cmd {

struct EndTrial {
  size_t from = 0, to = 0;  // indexes of ends
  bool failed = false;
};
struct TrialWords {
  const char *one, *many;  // "path", "paths"
};
// `ends`: hosts, each a place of the trials.
std::vector<Culprit> blame_ends(std::span<const EndTrial> trials, std::span<const Host> ends,
                                const TrialWords& words);

}  // namespace collctl::cmd
