// The ranks of a running job say what they do, asked because somebody outside wants to know
// (collctl status) or because the job's time is up. For the job's loop alone.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/job_status.h"
#include "cmd/job/root_cause.h"
#include "cmd/job/status_door.h"
#include "launcher/local/rank_group.h"

namespace collctl::cmd {

class Inquiry {
 public:
  // `answers`: else ranks say nothing, and how their processes are is all there is. A host without
  // a place for the door is no error: then nobody outside can ask, as with a null door.
  void open(bool answers, bool on_hosts, Result<std::unique_ptr<Door>> door);
  bool ranks_answer() const { return ranks_answer_; }
  int fd() const { return door_ != nullptr ? door_->fd() : -1; }  // readable: somebody asks

  void ask(launcher::RankGroup& job, const std::vector<RankFacts>& ranks);
  // While answers are waited for.
  const std::optional<base::Deadline>& answers_by() const { return answers_by_; }
  void answered(int rank, RankDoing doing);
  std::optional<RankDoing> doing(int rank) const;
  // Takes a question from outside, and ends the wait when all have answered or their time is up.
  // True once for a question from outside that can be answered now.
  bool look(launcher::RankGroup& job, const std::vector<RankFacts>& ranks);
  void answer_outside(std::string text);

 private:
  bool all_have_answered(launcher::RankGroup& job, const std::vector<RankFacts>& ranks) const;

  bool ranks_answer_ = true, on_hosts_ = false;
  std::unique_ptr<Door> door_;
  std::optional<base::Deadline> answers_by_;
  std::vector<std::optional<RankDoing>> answers_;
  bool from_outside_ = false;
};

}  // namespace collctl::cmd
