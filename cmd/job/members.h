// The present communicator of a running job: all its ranks, or with --on-loss shrink those that are
// left after a loss. A rank that has lost one is told to leave it; who goes on is decided when all
// have left, and told to each. The decision is a pure function, and the job's alone: ranks do as
// they are told. For the job's loop alone.
#pragma once
#include <optional>
#include <vector>

#include "cmd/job/config.h"
#include "cmd/job/root_cause.h"
#include "launcher/local/rank_group.h"

namespace collctl::cmd {

// A frame to a rank that reads. One that is gone is no error here: the job's loop notices it, with
// the reason.
Status tell(launcher::RankGroup& job, int rank, launcher::FrameType type, ByteView payload);

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

class Members {
 public:
  void add(int rank) { ranks_.push_back(rank); }
  const std::vector<int>& ranks() const { return ranks_; }  // ascending

  // Members that live are told to leave. They have `answer_s` to say that they have.
  void lose(const Error& what, double answer_s, launcher::RankGroup& job,
            const std::vector<RankFacts>& facts);
  bool losing() const { return loss_.has_value(); }
  void end_loss() { loss_.reset(); }
  // The first that was heard.
  const Error& first_loss() const { return loss_->first; }
  // A member's own reason for having left; what only repeats the word to leave becomes what was
  // heard first.
  Error why_left(Error said) const;

  // Those that go on and those that are lost, once that can be decided. Nothing is lost: it cannot
  // go on. Looks at the processes.
  std::optional<Regrouped> decided(launcher::RankGroup& job, std::vector<RankFacts>& facts) const;
  // Time of the next look at the processes, while losing.
  Deadline next_look() const;
  // They alone are the communicator now: each is told, as all were at the start.
  Status go_on(const Regrouped& found, Roster roster, launcher::RankGroup& job,
               std::vector<RankFacts>& facts);

 private:
  struct Loss {
    Error first;
    Deadline heard_by, settled;
  };
  std::vector<int> ranks_;
  std::optional<Loss> loss_;
};

}  // namespace collctl::cmd
