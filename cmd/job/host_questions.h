// Asking the hosts of a list something before or instead of a job: all are brought up at the same
// time, each question goes to all that have one, and all answers are awaited up to a deadline. Used
// by the doctor and by `topo -H`. Threads: one.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/wait.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/job.h"
#include "launcher/remote/host_pool.h"

namespace collctl::cmd {

struct HostAnswer {
  // Empty: nothing was asked. An error: the host's own, or why it did not answer.
  std::optional<Result<std::string>> text;
  int64_t asked_ns = 0, came_ns = 0;  // wall clock here
};

class HostQuestions {
 public:
  // Both must outlive it.
  HostQuestions(const LaunchOptions& launch, Interrupts& interrupts,
                std::unique_ptr<launcher::HostPool> pool);
  // Over SSH, by the options of the launch.
  static Result<std::unique_ptr<HostQuestions>> make(const LaunchOptions& launch,
                                                     Interrupts& interrupts);
  // Until each host is up or has failed. Errors: interrupted; --timeout has passed.
  Status bring_up();
  using Question = std::function<std::optional<std::string>(int host)>;
  // Puts a question to every host that is up and that `question` has one for; by host. Errors: as
  // bring_up; what is wrong with a host stands in its answer.
  Result<std::vector<HostAnswer>> ask(const std::string& what, double seconds,
                                      const Question& question);
  launcher::HostPool& pool() { return *pool_; }
  // A line that the next one overwrites.
  void talk(const std::string& text) const;
  // Lets the agents go.
  void leave();

 private:
  Status turn(Deadline deadline);
  void take_answers(uint32_t number, std::vector<HostAnswer>& answers, size_t& open);
  const LaunchOptions& launch_;
  Interrupts& interrupts_;
  std::unique_ptr<launcher::HostPool> pool_;
  Deadline until_;
  uint32_t asked_ = 0;
};

}  // namespace collctl::cmd
