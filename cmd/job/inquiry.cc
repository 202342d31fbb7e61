#include "cmd/job/inquiry.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace collctl::cmd {

namespace {

constexpr double kDoingSeconds = 1;     // for ranks to say what they do
constexpr double kStatesSeconds = 0.5;  // for hosts to say how their processes are
constexpr int64_t kSendMs = 100;        // to a rank that may not read

}  // namespace

void Inquiry::open(bool answers, bool on_hosts, Result<std::unique_ptr<Door>> door) {
  ranks_answer_ = answers;
  on_hosts_ = on_hosts;
  if (door)
    door_ = std::move(*door);
  else
    COLL_INFO(init, "collctl status cannot ask this job: {}", door.error().chain());
}

void Inquiry::ask(launcher::RankGroup& job, const std::vector<RankFacts>& ranks) {
  answers_.assign(ranks.size(), std::nullopt);
  answers_by_ = Deadline::after_seconds(ranks_answer_ ? kDoingSeconds
                                        : on_hosts_   ? kStatesSeconds
                                                      : 0);
  job.look();
  if (!ranks_answer_) return;
  for (const RankFacts& r : ranks)
    // A rank that cannot be asked is one that does not answer.
    if (!r.exited)
      static_cast<void>(
          job.send(r.end.rank, launcher::FrameType::ask, {}, Deadline::after_ms(kSendMs)));
}

void Inquiry::answered(int rank, RankDoing doing) {
  if (size_t(rank) < answers_.size()) answers_[size_t(rank)] = std::move(doing);
}

std::optional<RankDoing> Inquiry::doing(int rank) const {
  return size_t(rank) < answers_.size() ? answers_[size_t(rank)] : std::nullopt;
}

// But for those that are stopped, or have nothing to tell yet but their process' state.
bool Inquiry::all_have_answered(launcher::RankGroup& job,
                                const std::vector<RankFacts>& ranks) const {
  return ranks_answer_ && std::all_of(ranks.begin(), ranks.end(), [&](const RankFacts& r) {
           const char state = job.state(r.end.rank);
           return r.exited || answers_[size_t(r.end.rank)] || state == 'T' || state == 't' ||
                  (!started(r.end.phase) && state != '?');
         });
}

bool Inquiry::look(launcher::RankGroup& job, const std::vector<RankFacts>& ranks) {
  if (door_ != nullptr && door_->take()) {
    from_outside_ = true;
    if (!answers_by_) ask(job, ranks);
  }
  if (!answers_by_ || (!answers_by_->passed() && !all_have_answered(job, ranks))) return false;
  answers_by_.reset();
  return std::exchange(from_outside_, false);
}

void Inquiry::answer_outside(std::string text) {
  if (door_ != nullptr) door_->answer(std::move(text));
}

}  // namespace collctl::cmd
