#include "cmd/job/host_questions.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_limits.h"
#include "cmd/job/start.h"
#include "launcher/local/control.h"

namespace collctl::cmd {
namespace {

constexpr double kAskLeaveSeconds = 3;

}  // namespace

using launcher::HostPhase;

HostQuestions::HostQuestions(const LaunchOptions& launch, Interrupts& interrupts,
                             std::unique_ptr<launcher::HostPool> pool)
    : launch_(launch),
      interrupts_(interrupts),
      pool_(std::move(pool)),
      until_(Deadline::after_seconds(launch.timeout_s > 0 ? launch.timeout_s : 1e6)) {}

Result<std::unique_ptr<HostQuestions>> HostQuestions::make(const LaunchOptions& launch,
                                                           Interrupts& interrupts) {
  COLL_ASSIGN(launcher::PoolOptions options, pool_options(launch));
  options.ssh.stop_fd = interrupts.fd();
  COLL_ASSIGN(auto pool, launcher::HostPool::make(launch.hosts.hosts, options));
  return std::make_unique<HostQuestions>(launch, interrupts, std::move(pool));
}

void HostQuestions::talk(const std::string& text) const {
  if (launch_.talk.transient) launch_.talk.transient(text);
}

void HostQuestions::leave() {
  pool_->leave(Deadline::after_seconds(kAskLeaveSeconds));
}

Status HostQuestions::turn(Deadline deadline) {
  const int wake = interrupts_.fd();
  COLL_TRY(pool_->turn(deadline.earlier(until_), {&wake, 1}));
  while (const auto number = interrupts_.take())
    if (Interrupts::ends(*number)) return interrupted_error(*number);
  if (until_.passed())
    return Error(
        ErrorCode::deadline,
        format("--timeout {}: the hosts were not looked at in that time", launch_.timeout_s));
  return {};
}

Status HostQuestions::bring_up() {
  const Deadline start = Deadline::after_seconds(launch_.start_timeout_s);
  while (!pool_->settled()) {
    COLL_TRY(turn(start));
    int up = 0;
    for (int i = 0; i < pool_->size(); ++i) up += pool_->host(i).phase() == HostPhase::up;
    talk(format("hosts: {} of {} up", up, pool_->size()));
    if (start.passed()) pool_->fail_late_hosts(launch_.start_timeout_s);
  }
  return {};
}

void HostQuestions::take_answers(uint32_t number, std::vector<HostAnswer>& answers, size_t& open) {
  for (int i = 0; i < pool_->size(); ++i) {
    launcher::HostLink& link = pool_->host(i);
    HostAnswer& answer = answers[size_t(i)];
    while (auto frame = link.take_frame()) {
      if (launcher::AgentFrame(frame->type) != launcher::AgentFrame::answer) continue;
      auto word = decoded<launcher::AgentAnswer>(frame->payload);
      if (!word) {
        link.reject(std::move(word.error()));
        break;
      }
      if (word->number != number || answer.asked_ns == 0 || answer.text) continue;
      if (word->error)
        answer.text.emplace(std::move(*word->error));
      else
        answer.text.emplace(std::move(word->text));
      answer.came_ns = base::wall_clock_ns();
      --open;
    }
    if (link.phase() == HostPhase::up || answer.asked_ns == 0 || answer.text) continue;
    answer.text.emplace(link.error().value_or(Error(ErrorCode::lost, "the agent has gone")));
    --open;
  }
}

// Puts a question to every host that `question` has one for; waits for all answers.
Result<std::vector<HostAnswer>> HostQuestions::ask(const std::string& what, double seconds,
                                                   const Question& question) {
  std::vector<HostAnswer> answers(size_t(pool_->size()));
  const uint32_t number = ++asked_;
  size_t asked = 0, open = 0;
  for (int i = 0; i < pool_->size(); ++i) {
    if (pool_->host(i).phase() != HostPhase::up) continue;
    const auto argument = question(i);
    if (!argument) continue;
    answers[size_t(i)].asked_ns = base::wall_clock_ns();
    pool_->host(i).send(launcher::AgentFrame::ask,
                        encoded(launcher::AgentQuestion{number, what, *argument}));
    open = ++asked;
  }
  // An agent that lives but does not answer is no reason to wait longer than for one that starts.
  seconds = std::min(seconds, launch_.start_timeout_s);
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (open > 0 && !deadline.passed()) {
    talk(format("hosts: {} of {} have answered", asked - open, asked));
    COLL_TRY(turn(deadline));
    take_answers(number, answers, open);
  }
  for (int i = 0; i < pool_->size(); ++i)
    if (HostAnswer& answer = answers[size_t(i)]; answer.asked_ns != 0 && !answer.text)
      answer.text.emplace(
          Error(ErrorCode::deadline, format("no answer to '{}' within {:.0f} s", what, seconds)));
  return answers;
}

}  // namespace collctl::cmd
