// From what became of each rank to the one error that is printed: the culprit, not the echoes.
// Pure; used by the job when it is over.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/rank_words.h"

namespace collctl::cmd {

// Root cause of a failed job; empty when no rank failed. Dead ranks first, then errors by severity,
// those that only repeat what another rank says left out; for deadlines who waits for whom, unless
// a rank could not connect to another: then that.
std::optional<Error> root_cause(const std::vector<RankFacts>& ranks);

// Where the waits that begin at `rank` lead, by who waits for whom: to a rank that waits for
// nobody, or, where some wait for each other in a circle, to the lowest of those.
struct ChainEnd {
  int rank = -1;
  bool circle = false;
};
ChainEnd end_of_chain(const std::map<int, int>& waits, int rank);

}  // namespace collctl::cmd
