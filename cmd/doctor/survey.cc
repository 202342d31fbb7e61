// Asking the hosts: facts, clocks, then every host listens and the others dial.
#include <algorithm>
#include <cstdlib>

#include "base/auth.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/version.h"
#include "cmd/doctor/doctor.h"
#include "cmd/job/host_questions.h"
#include "launcher/remote/probe_service.h"

namespace collctl::cmd {
namespace {

constexpr double kSurveySeconds = 20;  // for facts: a hash over the binary on a busy host
constexpr double kGpuSeconds = 60;     // the driver of many GPUs, with none that keeps it awake
constexpr double kDialSeconds = 3;
constexpr double kListenSeconds = 60;
constexpr int kClockRounds = 3;

bool shows_gpus(const SurveyedHost& host) {
  return host.facts && (host.facts->nvidia.on_pci > 0 || !host.facts->nvidia.gpus.empty());
}

// The answer, or why there is none, which is no better.
GpuTrouble gpus_said(const Result<std::string>& text) {
  auto trouble = text.ok() ? gpus_of_answer(text.value()) : Result<GpuTrouble>(text.error());
  if (trouble) return std::move(*trouble);
  return {"whether CUDA starts is not known: " + trouble.error().chain(), trouble.error().hint};
}

class Surveyor {
 public:
  explicit Surveyor(HostQuestions& hosts) : hosts_(hosts) {}
  Result<Survey> run();

 private:
  Status ask_facts();
  Status ask_states();
  Status ask_gpus();
  Status ask_clocks();
  Status test_pairs();
  Status listen();
  bool plan_dial(int from, int to, const DialledAddress& dialled, launcher::ReachTarget& target);
  Status dial();
  bool usable(int host) const { return survey_.hosts[size_t(host)].facts.has_value(); }

  HostQuestions& hosts_;
  Survey survey_;
  std::vector<base::Secret> secrets_;
};

Status Surveyor::ask_facts() {
  hosts_.talk("asking for facts");
  COLL_ASSIGN(auto answers, hosts_.ask(launcher::kAskProbe, kSurveySeconds,
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

Status Surveyor::ask_states() {
  hosts_.talk("reading the state of devices");
  COLL_ASSIGN(const auto answers, hosts_.ask(kAskState, kGpuSeconds, [&](int host) {
    return usable(host) ? std::optional<std::string>("") : std::nullopt;
  }));
  for (size_t i = 0; i < answers.size(); ++i)
    if (answers[i].text) survey_.hosts[i].state = state_said(*answers[i].text);
  for (SurveyedHost& host : survey_.hosts) keep_chosen(host, survey_.choice);
  return {};
}

Status Surveyor::ask_gpus() {
  if (std::ranges::none_of(survey_.hosts, shows_gpus)) return {};
  hosts_.talk("starting the GPUs' driver");
  COLL_ASSIGN(const auto answers, hosts_.ask(kAskGpus, kGpuSeconds, [&](int host) {
    return shows_gpus(survey_.hosts[size_t(host)]) ? std::optional<std::string>("") : std::nullopt;
  }));
  for (size_t i = 0; i < answers.size(); ++i)
    if (answers[i].text) survey_.hosts[i].gpus = gpus_said(*answers[i].text);
  return {};
}

Status Surveyor::ask_clocks() {
  for (int round = 0; round < kClockRounds; ++round) {
    COLL_ASSIGN(const auto answers, hosts_.ask(launcher::kAskClock, kSurveySeconds, [&](int host) {
      return usable(host) ? std::optional<std::string>("") : std::nullopt;
    }));
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i].text || !answers[i].text->ok()) continue;
      SurveyedHost& host = survey_.hosts[i];
      const int64_t theirs = std::strtoll(answers[i].text->value().c_str(), nullptr, 10);
      const double error = double(answers[i].came_ns - answers[i].asked_ns) / 2e9;
      if (round > 0 && error >= host.clock_error_s) continue;
      host.clock_error_s = error;
      // The middle between question and answer is the best guess.
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
  COLL_ASSIGN(
      const auto answers,
      hosts_.ask(launcher::kAskReach, kSurveySeconds, [&](int host) -> std::optional<std::string> {
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
  const auto listens = std::ranges::find_if(
      peer.listens, [&](const auto& at) { return at.address == dialled.at.address; });
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
  const auto all = size_t(std::ranges::count_if(
      survey_.hosts, [](const auto& host) { return host.facts.has_value(); }));
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
  COLL_ASSIGN(const auto answers, hosts_.ask(launcher::kAskReach, kDialSeconds + kSurveySeconds,
                                             [&](int host) -> std::optional<std::string> {
                                               if (targets[size_t(host)].empty())
                                                 return std::nullopt;
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
  hosts_.talk("testing the network between the hosts");
  COLL_TRY(listen());
  return dial();
}

Result<Survey> Surveyor::run() {
  COLL_ASSIGN(survey_.choice, nic_choice());
  COLL_ASSIGN(survey_.self, launcher::gather_facts(base::kVersion));
  COLL_TRY(hosts_.bring_up());
  for (int i = 0; i < hosts_.pool().size(); ++i) {
    const launcher::HostLink& link = hosts_.pool().host(i);
    SurveyedHost host;
    host.spec = link.spec();
    host.here = link.is_this_host();
    host.error = link.error();
    host.client = link.client();
    host.up_s = link.times().up;
    survey_.hosts.push_back(std::move(host));
  }
  COLL_TRY(ask_facts());
  COLL_TRY(ask_states());
  COLL_TRY(ask_gpus());
  COLL_TRY(ask_clocks());
  COLL_TRY(test_pairs());
  hosts_.talk("");
  // Hosts that were lost meanwhile get their error; the listeners end with their agents.
  for (int i = 0; i < hosts_.pool().size(); ++i)
    if (SurveyedHost& host = survey_.hosts[size_t(i)]; !host.error && hosts_.pool().host(i).error())
      host.error = hosts_.pool().host(i).error();
  hosts_.leave();
  return std::move(survey_);
}

}  // namespace

Result<Survey> make_survey(const LaunchOptions& launch) {
  if (launch.hosts.hosts.empty()) {
    Survey survey;
    COLL_ASSIGN(survey.choice, nic_choice());
    COLL_ASSIGN(survey.self, launcher::gather_facts(base::kVersion));
    SurveyedHost host;
    host.spec.id = base::this_host().id;
    host.spec.name = survey.self.host;
    host.here = true;
    host.facts = survey.self;
    host.state.state = base::host_state();
    if (shows_gpus(host)) host.gpus = gpus_said(gpus_answer());
    keep_chosen(host, survey.choice);
    survey.hosts.push_back(std::move(host));
    return survey;
  }
  Interrupts interrupts(false);
  COLL_ASSIGN(const auto hosts, HostQuestions::make(launch, interrupts));
  return Surveyor(*hosts).run();
}

}  // namespace collctl::cmd
