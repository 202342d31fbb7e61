// A host's state into findings: its facts, its counters, and what was not read.
#include "cmd/doctor/state.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/printable.h"
#include "base/split.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/state_rules.h"
#include "cmd/judge/counter_state.h"

namespace collctl::cmd {
namespace {

using base::CounterOf;
using base::DeviceState;
using base::HostState;

class StateJudge {
 public:
  explicit StateJudge(const StateOfHost& at) : at_(at), state_(*at.state) {
    for (const DeviceState& device : state_.devices) {
      gpus_ += device.kind == CounterOf::gpu;
      serves_ = serves_ || (device.kind == CounterOf::gpu && !for_screens(device)) ||
                (device.kind == CounterOf::nic && device.find("link") != nullptr);
      const std::string* cluster = device.find("fabric_cluster");
      in_rack_ =
          in_rack_ || (cluster != nullptr && cluster->find_first_not_of('0') != std::string::npos);
      if (device.kind == CounterOf::host) continue;
      if (device.kind == CounterOf::gpu) way_.insert(device.device);
      if (const std::string* bus = device.find("bus")) way_.insert(*bus);
      if (const std::string* bridges = device.find("bridges"))
        for (const std::string_view bridge : base::split(*bridges, ' ')) way_.emplace(bridge);
    }
  }

  void judge(std::vector<Finding>& findings) {
    for (const DeviceState& device : state_.devices)
      judge_facts({device, gpus_, serves_, in_rack_}, at_.host, findings);
    for (const base::DeviceCounter& counter : state_.counters.counters) judge(counter, findings);
  }

  // The things that were read of the host, and those that were not.
  Finding summary() const {
    Finding all = host_finding("state", at_.host);
    size_t facts = 0;
    for (const DeviceState& device : state_.devices) facts += device.facts.size();
    all.n = all.of = facts + state_.counters.looked_at;
    all.cell = "read";
    std::vector<std::string> unread = state_.unread;
    if (gpus_ > 0 && !state_.counters.log_missing.empty())
      unread.push_back(format("Xids ({})", state_.counters.log_missing));
    if (unread.empty()) return all;
    constexpr size_t kMostShown = 4;
    std::string text;
    for (size_t i = 0; i < unread.size() && i < kMostShown; ++i)
      text += (i == 0 ? "" : "; ") + base::printable(unread[i]);
    if (unread.size() > kMostShown) text += format("; and {} more", unread.size() - kMostShown);
    all.warn(format("{}: could not be read: {}", at_.host, text),
             "the kernel's log and the modules of NICs take root; the driver's own trouble is told "
             "by gpus");
    return all;
  }

 private:
  void judge(const base::DeviceCounter& counter, std::vector<Finding>& findings) const {
    if (counter.kind == CounterOf::pci && !way_.contains(counter.device)) return;
    if (counter.kind == CounterOf::nic && !is_up(counter.device)) return;
    const auto state = counter_state(counter, state_.uptime_s);
    if (!state) return;
    DeviceState device;
    device.kind = counter.kind;
    device.device = counter.device;
    for (const DeviceState& known : state_.devices)
      if (known.device == counter.device) device.model = known.model;
    findings.push_back(
        state_finding(at_.host, device, counter.name.c_str(), std::to_string(counter.value), "0",
                      {state->fault ? Grade::fault : Grade::told, state->meaning, state->remedy}));
  }

  // A port that nobody uses has nothing to say.
  bool is_up(const std::string& nic) const {
    return std::ranges::any_of(state_.devices, [&](const DeviceState& device) {
      const std::string* state = device.find("state");
      return device.kind == CounterOf::nic && device.device == nic && state != nullptr &&
             (*state == "ACTIVE" || *state == "up");
    });
  }

  const StateOfHost& at_;
  const HostState& state_;
  size_t gpus_ = 0;
  bool serves_ = false, in_rack_ = false;
  std::set<std::string> way_;  // PCI devices between the host's memory and its GPUs and NICs
};

}  // namespace

Finding state_finding(const Host& host, const DeviceState& device, const std::string& fact,
                      const std::string& value, const std::string& wanted,
                      const StateWords& words) {
  Finding finding = host_finding("state/" + fact, host);
  if (device.kind == CounterOf::gpu) finding.at.kind = SubjectKind::gpu;
  if (device.kind == CounterOf::nic) finding.at.kind = SubjectKind::nic;
  if (device.kind != CounterOf::host) finding.at.device = base::printable(device.device);
  finding.measured = base::printable(value);
  finding.expected = base::printable(wanted);
  finding.basis = words.basis;
  finding.odd = !words.basis.empty();
  finding.cell = format("{} {}", fact, finding.measured);
  const std::string model =
      device.model.empty() ? "" : format(" ({})", base::printable(device.model));
  const std::string what =
      device.kind == CounterOf::host ? "" : format("{}{}: ", base::printable(device.device), model);
  finding.warn(format("{}: {}{} ({}: {}, {}: {})", host, what, words.meaning, fact,
                      finding.measured, words.held_against, finding.expected),
               words.remedy);
  if (words.grade == Grade::fault) finding.fail(ErrorCode::failed, finding.message, finding.remedy);
  return finding;
}

std::vector<StateOfHost> states_of(const Survey& survey) {
  std::vector<StateOfHost> states;
  for (const SurveyedHost& host : survey.hosts)
    if (host.state.state) states.push_back({host.spec.host(), &*host.state.state});
  return states;
}

void add_state_checks(const Survey& survey, Diagnosis& diagnosis) {
  for (Finding& finding : state_findings(states_of(survey)))
    diagnosis.checks.push_back(std::move(finding));
  for (const SurveyedHost& host : survey.hosts)
    if (!host.state.missing.empty())
      add_check(diagnosis, "state", host, "not read")
          .leave_out(format("{}: the state of its devices was not read: {}", host.spec.host(),
                            base::printable(host.state.missing)),
                     "collctl doctor there says more");
}

std::vector<Finding> state_findings(std::span<const StateOfHost> hosts) {
  std::vector<Finding> findings;
  for (const StateOfHost& host : hosts) {
    StateJudge judge(host);
    judge.judge(findings);
  }
  add_peer_findings(hosts, findings);
  for (const StateOfHost& host : hosts) findings.push_back(StateJudge(host).summary());
  return findings;
}

}  // namespace collctl::cmd
