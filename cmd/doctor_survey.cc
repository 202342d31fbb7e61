// Asking the hosts: facts, clocks, then every host listens and the others dial.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/auth.h"
#include "base/format.h"
#include "base/version.h"
#include "cmd/doctor.h"
#include "cmd/interrupt.h"
#include "cmd/job_start.h"
#include "launcher/control.h"
#include "launcher/host_pool.h"
#include "launcher/probe_service.h"

namespace collctl::cmd {
namespace {

using launcher::HostPhase;
using launcher::HostPool;

constexpr double kAnswerSeconds = 20;  // for facts: a hash over the binary on a busy host
constexpr double kDialSeconds = 3;
constexpr double kListenSeconds = 60;
constexpr double kLeaveSeconds = 3;
constexpr int kClockRounds = 3;

struct Answer {
  std::optional<Result<std::string>> text;
  int64_t asked_ns = 0, came_ns = 0;  // wall clock here
};

class Surveyor {
 public:
  Surveyor(const LaunchOptions& launch, Interrupts& interrupts, std::unique_ptr<HostPool> pool)
      : launch_(launch), interrupts_(interrupts), pool_(std::move(pool)) {}
  Result<Survey> run();

 private:
  using Question = std::function<std::optional<std::string>(int host)>;
  Status turn(Deadline deadline);
  Status bring_up();
  Result<std::vector<Answer>> ask(const std::string& what, double seconds,
                                  const Question& question);
  void take_answers(uint32_t number, std::vector<Answer>& answers, size_t& open);
  Status ask_facts();
  Status ask_clocks();
  Status test_pairs();
  Status listen();
  bool plan_dial(int from, int to, const DialledAddress& dialled, launcher::ReachTarget& target);
  Status dial();
  bool usable(int host) const { return survey_.hosts[size_t(host)].facts.has_value(); }
  void talk(const std::string& text) const {
    if (launch_.talk.transient) launch_.talk.transient(text);
  }

  const LaunchOptions& launch_;
  Interrupts& interrupts_;
  std::unique_ptr<HostPool> pool_;
  Deadline until_ = Deadline::after_seconds(launch_.timeout_s > 0 ? launch_.timeout_s : 1e6);
  Survey survey_;
  std::vector<base::Secret> secrets_;
  uint32_t asked_ = 0;
};

Status Surveyor::turn(Deadline deadline) {
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

Status Surveyor::bring_up() {
  const Deadline start = Deadline::after_seconds(launch_.start_timeout_s);
  while (!pool_->settled()) {
    COLL_TRY(turn(start));
    int up = 0;
    for (int i = 0; i < pool_->size(); ++i) up += pool_->host(i).phase() == HostPhase::up;
    talk(format("hosts: {} of {} up", up, pool_->size()));
    if (start.passed()) pool_->give_up_on_late(launch_.start_timeout_s);
  }
  return {};
}

void Surveyor::take_answers(uint32_t number, std::vector<Answer>& answers, size_t& open) {
  for (int i = 0; i < pool_->size(); ++i) {
    launcher::HostLink& link = pool_->host(i);
    Answer& answer = answers[size_t(i)];
    while (auto frame = link.take_frame()) {
      if (launcher::AgentFrame(frame->type) != launcher::AgentFrame::answer) continue;
      ByteReader r(frame->payload);
      if (r.get<uint32_t>() != number || answer.asked_ns == 0 || answer.text) continue;
      const bool good = r.get<uint8_t>() != 0;
      if (good)
        answer.text.emplace(r.get_string(1 << 24));
      else
        answer.text.emplace(launcher::decode_error(r.get_bytes()));
      answer.came_ns = base::wall_clock_ns();
      --open;
    }
    if (link.phase() == HostPhase::up || answer.asked_ns == 0 || answer.text) continue;
    answer.text.emplace(link.error().value_or(Error(ErrorCode::lost, "the agent has gone")));
    --open;
  }
}

// Puts a question to every host that `question` has one for; waits for all answers.
Result<std::vector<Answer>> Surveyor::ask(const std::string& what, double seconds,
                                          const Question& question) {
  std::vector<Answer> answers(size_t(pool_->size()));
  const uint32_t number = ++asked_;
  size_t open = 0;
  for (int i = 0; i < pool_->size(); ++i) {
    if (pool_->host(i).phase() != HostPhase::up) continue;
    const auto argument = question(i);
    if (!argument) continue;
    ByteWriter w;
    w.put(number).put_string(what).put_string(*argument);
    answers[size_t(i)].asked_ns = base::wall_clock_ns();
    pool_->host(i).send(launcher::AgentFrame::ask, w.bytes());
    ++open;
  }
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (open > 0 && !deadline.passed()) {
    COLL_TRY(turn(deadline));
    take_answers(number, answers, open);
  }
  for (int i = 0; i < pool_->size(); ++i)
    if (Answer& answer = answers[size_t(i)]; answer.asked_ns != 0 && !answer.text)
      answer.text.emplace(
          Error(ErrorCode::deadline, format("no answer to '{}' within {:.0f} s", what, seconds)));
  return answers;
}

Status Surveyor::ask_facts() {
  talk("asking for facts");
  COLL_ASSIGN(auto answers, ask(launcher::kAskProbe, kAnswerSeconds,
                                [](int) { return std::optional<std::string>(""); }));
  for (size_t i = 0; i < answers.size(); ++i) {
    SurveyedHost& host = survey_.hosts[i];
    if (!answers[i].text) continue;
    if (!answers[i].text->ok()) {
      host.error = std::move(answers[i].text->error());
      continue;
    }
    auto facts = launcher::facts_from_json(answers[i].text->value());
    if (facts.ok())
      host.facts = std::move(*facts);
    else
      host.error = std::move(facts.error());
  }
  return {};
}

Status Surveyor::ask_clocks() {
  for (int round = 0; round < kClockRounds; ++round) {
    COLL_ASSIGN(const auto answers, ask(launcher::kAskClock, kAnswerSeconds, [&](int host) {
                  return usable(host) ? std::optional<std::string>("") : std::nullopt;
                }));
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i].text || !answers[i].text->ok()) continue;
      SurveyedHost& host = survey_.hosts[i];
      const int64_t theirs = std::strtoll(answers[i].text->value().c_str(), nullptr, 10);
      const double error = double(answers[i].came_ns - answers[i].asked_ns) / 2e9;
      if (round > 0 && error >= host.clock_error_s) continue;
      host.clock_error_s = error;
      // Of the times between question and answer, the middle is the best guess.
      const int64_t middle = answers[i].asked_ns + (answers[i].came_ns - answers[i].asked_ns) / 2;
      host.clock_offset_s = double(theirs - middle) / 1e9;
    }
  }
  return {};
}

Status Surveyor::listen() {
  const auto usable_by_host = usable_addresses(survey_.hosts);
  for (size_t i = 0; i < survey_.hosts.size(); ++i) {
    COLL_ASSIGN(auto secret, base::random_secret());
    secrets_.push_back(secret);
  }
  COLL_ASSIGN(const auto answers,
              ask(launcher::kAskReach, kAnswerSeconds, [&](int host) -> std::optional<std::string> {
                std::vector<std::string> addresses;
                for (const auto& at : usable_by_host[size_t(host)]) addresses.push_back(at.address);
                if (addresses.empty()) return std::nullopt;
                return launcher::listen_question(addresses, secrets_[size_t(host)], kListenSeconds);
              }));
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].text) continue;
    auto listens = answers[i].text->ok()
                       ? launcher::listen_answer(answers[i].text->value())
                       : Result<std::vector<launcher::ReachAddress>>(answers[i].text->error());
    if (listens.ok())
      survey_.hosts[i].listens = std::move(*listens);
    else
      survey_.hosts[i].error = std::move(listens.error());
  }
  return {};
}

// Notes the pair; true when it is to be dialled, at `target`.
bool Surveyor::plan_dial(int from, int to, const DialledAddress& dialled,
                         launcher::ReachTarget& target) {
  const SurveyedHost& peer = survey_.hosts[size_t(to)];
  PairResult pair{from, to, dialled.at.interface, dialled.shared, {}};
  pair.result.host = to;
  pair.result.address = dialled.at.address;
  const auto listens = std::find_if(peer.listens.begin(), peer.listens.end(), [&](const auto& at) {
    return at.address == dialled.at.address;
  });
  const bool known = listens != peer.listens.end(), open = known && listens->port != 0;
  pair.result.text = open    ? "it was not dialled"
                     : known ? "the host cannot listen there: " + listens->error
                             : "the host does not have this address";
  if (open) target = {to, dialled.at.address, listens->port, secrets_[size_t(to)]};
  survey_.pairs.push_back(std::move(pair));
  return open;
}

Status Surveyor::dial() {
  uint64_t seed = 0;
  COLL_TRY(base::fill_random({reinterpret_cast<uint8_t*>(&seed), sizeof seed}));
  const auto usable_by_host = usable_addresses(survey_.hosts);
  const auto pairs = pairs_to_test(survey_.hosts, seed);
  const auto all = size_t(std::count_if(survey_.hosts.begin(), survey_.hosts.end(),
                                        [](const auto& host) { return host.facts.has_value(); }));
  survey_.untested_pairs = all == 0 ? 0 : all * (all - 1) - pairs.size();
  std::vector<std::vector<launcher::ReachTarget>> targets(survey_.hosts.size());
  std::vector<std::vector<size_t>> pair_of(survey_.hosts.size());  // of each target
  for (const auto& [from, to] : pairs)
    for (const auto& dialled :
         addresses_to_dial(usable_by_host[size_t(from)], usable_by_host[size_t(to)],
                           survey_.hosts[size_t(to)].spec.address)) {
      launcher::ReachTarget target;
      if (!plan_dial(from, to, dialled, target)) continue;
      targets[size_t(from)].push_back(std::move(target));
      pair_of[size_t(from)].push_back(survey_.pairs.size() - 1);
    }
  COLL_ASSIGN(const auto answers, ask(launcher::kAskReach, kDialSeconds + kAnswerSeconds,
                                      [&](int host) -> std::optional<std::string> {
                                        if (targets[size_t(host)].empty()) return std::nullopt;
                                        return launcher::dial_question(targets[size_t(host)],
                                                                       kDialSeconds);
                                      }));
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].text) continue;
    auto results = answers[i].text->ok()
                       ? launcher::dial_answer(answers[i].text->value())
                       : Result<std::vector<launcher::ReachResult>>(answers[i].text->error());
    if (!results.ok()) {
      survey_.hosts[i].error = std::move(results.error());
      continue;
    }
    for (size_t t = 0; t < results->size() && t < pair_of[i].size(); ++t)
      survey_.pairs[pair_of[i][t]].result = std::move((*results)[t]);
  }
  return {};
}

Status Surveyor::test_pairs() {
  if (survey_.hosts.size() < 2) return {};
  talk("testing the network between the hosts");
  COLL_TRY(listen());
  return dial();
}

Result<Survey> Surveyor::run() {
  COLL_ASSIGN(survey_.self, launcher::gather_facts(base::kVersion));
  COLL_TRY(bring_up());
  for (int i = 0; i < pool_->size(); ++i) {
    const launcher::HostLink& link = pool_->host(i);
    SurveyedHost host;
    host.spec = link.spec();
    host.here = link.is_this_host();
    host.error = link.error();
    host.client = link.client();
    host.up_s = link.times().up;
    survey_.hosts.push_back(std::move(host));
  }
  COLL_TRY(ask_facts());
  COLL_TRY(ask_clocks());
  COLL_TRY(test_pairs());
  talk("");
  // Whoever was lost meanwhile is said to be; the agents' listeners end with them.
  for (int i = 0; i < pool_->size(); ++i)
    if (SurveyedHost& host = survey_.hosts[size_t(i)]; !host.error && pool_->host(i).error())
      host.error = pool_->host(i).error();
  pool_->leave(Deadline::after_seconds(kLeaveSeconds));
  return std::move(survey_);
}

}  // namespace

Result<Survey> make_survey(const LaunchOptions& launch) {
  if (launch.hosts.hosts.empty()) {
    Survey survey;
    COLL_ASSIGN(survey.self, launcher::gather_facts(base::kVersion));
    SurveyedHost host;
    host.spec.name = survey.self.host;
    host.here = true;
    host.facts = survey.self;
    survey.hosts.push_back(std::move(host));
    return survey;
  }
  COLL_ASSIGN(launcher::PoolOptions options, pool_options(launch));
  Interrupts interrupts(false);
  options.ssh.stop_fd = interrupts.fd();
  COLL_ASSIGN(auto pool, HostPool::make(launch.hosts.hosts, options));
  return Surveyor(launch, interrupts, std::move(pool)).run();
}

}  // namespace collctl::cmd
