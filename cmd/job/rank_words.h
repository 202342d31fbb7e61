// The ends of the ranks of a job, in words. Pure; used by the job when it is over.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/job/job.h"

namespace collctl::cmd {

struct RankFacts {
  RankEnd end;
  bool exited = false;
  char state = 0;          // of its process when the trouble was noticed (R, S, T, ...; 0: gone)
  int order = -1;          // of its error among all errors; -1: none
  bool host_lost = false;  // its error is about its host
  // --on-loss shrink: it has left its communicator, for this, and waits for what comes.
  std::optional<Error> broken = {};
  bool left_behind = false;  // it was lost, and the others went on
};

// Past the phases that the start-up deadline covers.
bool started(const std::string& phase);
// The rank died, or ended without success and without a word, by itself.
bool died(const RankFacts& rank);
// Why it is lost to the others, of one that neither left them in order nor waits
// (RankFacts::broken): it died, its host is gone, or it is stuck, by its `state`.
LostRanks why_lost(const RankFacts& rank);
// "rank 0 in phase running; ranks 1, 3 in phase bootstrap; rank 2 stopped (state T) in phase
// bootstrap": the ranks that have not ended, for deadlines of the whole job.
std::string where_they_are(const std::vector<RankFacts>& ranks);
// The deadline of a whole job: `what`, where the ranks are, and `waits`. It names the rank that is
// stopped where others are not, else the host that says nothing of its ranks.
Error late_as_a_whole(const std::vector<RankFacts>& ranks, std::string what,
                      const std::string& waits);
// "rank 3 (host a)", "ranks 0-3 (host a), 5, 7 (host b)"; no hosts where there is only one.
std::string rank_list(const std::vector<RankFacts>& all, const std::vector<int>& ranks);
// The remedy for a rank that the kernel has left no memory (launcher::Event::starved_at).
std::string starved_hint(uint64_t limit);
// "stopped (state T)", "gone", ...
std::string state_words(char state);

// Null: there is none.
const RankFacts* find(const std::vector<RankFacts>& ranks, int rank);
// "rank 3 (pid 4711, host a)"
std::string person(const RankFacts& rank);
// How a rank died, and what to do about it.
std::string death_words(const RankFacts& rank);
std::string death_hint(const RankEnd& end);
// The remedy for one that does not move, by its state; may be empty.
std::string stuck_hint(const RankFacts& rank);
// A state that is no usual one.
bool notable_state(char state);

}  // namespace collctl::cmd
