// --on-loss shrink: when a communicator has lost members, who goes on, and who is lost and why.
// Pure: the job decides by it, and it alone; ranks do as they are told.
#pragma once
#include <vector>

#include "cmd/job/root_cause.h"

namespace collctl::cmd {

// Whether the decision can be made: each member has left the communicator or has ended. After
// `settled` nobody waits for one that is stopped, either.
bool all_are_heard(const std::vector<RankFacts>& ranks, const std::vector<int>& members,
                   bool settled);

struct Regrouped {
  std::vector<int> left;        // ascending
  std::vector<LostRanks> lost;  // those of one host that went with it are one
};
// Judges `members`, as far as they have been heard. One that ended in order is neither left nor
// lost. Nobody is lost: what broke lies between ranks that are all there, and leaving out one would
// be a guess.
Regrouped regrouped(const std::vector<RankFacts>& ranks, const std::vector<int>& members);

}  // namespace collctl::cmd
