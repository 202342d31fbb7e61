// THE table of suites, in the order in which they run, and those that ask hosts and start no ranks.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/blame.h"
#include "cmd/topo/hosts.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {
namespace {

constexpr double kAskSeconds =
    1.5;  // connecting, staging and asking up to --fanout hosts at the same time

double asking(int hosts, CheckLevel) {
  return kAskSeconds + 0.03 * hosts;
}
// Jobs of one host, sixteen at a time.
double node_seconds(int hosts, CheckLevel level) {
  const double each = level == CheckLevel::quick ? 3 : level == CheckLevel::standard ? 25 : 90;
  const int turns = (hosts + 15) / 16;
  return each * turns;
}
// Rounds of a tournament, of many hosts of a design whose rounds grow with the logarithm; and some
// more for suspects.
double pair_seconds(int hosts, CheckLevel level) {
  const auto rounds = double(pair_rounds(hosts).size());
  return kAskSeconds + (rounds + 4) * (level == CheckLevel::full ? 1.0 : 0.3) + 0.02 * hosts;
}
double cluster_seconds(int hosts, CheckLevel level) {
  return kAskSeconds + 0.1 * hosts +
         (level == CheckLevel::quick      ? 3
          : level == CheckLevel::standard ? 20
                                          : 120);
}

constexpr Suite kSuites[] = {
    {"doctor", CheckLevel::quick, 1, "SSH, drivers, limits, /dev/shm, clocks, NICs, reachability",
     "SSH", asking, check_doctor},
    {"inventory", CheckLevel::quick, 1,
     "devices and how they are connected, beside the other hosts", "SSH", asking, check_inventory},
    {"node", CheckLevel::quick, 1,
     "collectives inside each host by every way and protocol, every element checked; windows; "
     "memory of host and GPUs, and copies between them",
     "ranks on the host", node_seconds, check_node, true},
    {"pairs", CheckLevel::quick, 2, "every NIC to every NIC; who is at fault where paths are bad",
     "a network between the hosts", pair_seconds, check_pairs, true},
    {"cluster", CheckLevel::quick, 2, "collectives over all fit hosts with every element checked",
     "ranks on the hosts", cluster_seconds, check_cluster, true},
    {"counters", CheckLevel::quick, 1,
     "errors, losses, repeats and throttling that devices counted while the others ran", "SSH",
     asking, check_counters, false, begin_counters},
};

// Findings of a command, under the suite's name; whoever fails is left out of later suites.
void take(CheckRun& run, const char* suite, std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    finding.name = format("{}/{}", suite, finding.name);
    if (finding.status == FindingStatus::fail && finding.at.kind != SubjectKind::link &&
        std::find(run.hosts.begin(), run.hosts.end(), finding.at.host) != run.hosts.end())
      run.out.try_emplace(finding.at.host, suite);
    run.findings.push_back(std::move(finding));
  }
}

}  // namespace

std::span<const Suite> suites() {
  return kSuites;
}

std::vector<Host> CheckRun::fit() const {
  std::vector<Host> list;
  for (const Host& host : hosts)
    if (!out.contains(host)) list.push_back(host);
  return list;
}

LaunchOptions CheckRun::launch_of(const std::vector<Host>& some) const {
  LaunchOptions on_some = launch;
  on_some.ranks = 0;  // every slot of theirs
  std::erase_if(on_some.hosts.hosts, [&](const launcher::HostSpec& host) {
    return std::find(some.begin(), some.end(), host.host()) == some.end();
  });
  return on_some;
}

Status check_doctor(CheckRun& run) {
  for (const Host& host : run.hosts) run.tally.plan(host, 1, "hosts");
  COLL_ASSIGN(const Survey survey, make_survey(run.launch));
  for (size_t i = 0; i < survey.hosts.size() && i < run.hosts.size(); ++i)
    if (survey.hosts[i].facts) run.tally.did(run.hosts[i], "facts");
  Diagnosis diagnosis = diagnose_hosts(survey, run.options.expect);
  // Of many hosts not all pairs try to reach each other: no omission here, where the suite pairs
  // comes after.
  for (Finding& finding : diagnosis.checks)
    if (finding.status == FindingStatus::not_tested && finding.at.kind == SubjectKind::job)
      finding.code = ErrorCode{};
  take(run, "doctor", std::move(diagnosis.checks));
  for (Culprit& culprit : diagnosis.culprits) {
    if (culprit.kind == SubjectKind::link) {
      run.doubtful.push_back(std::move(culprit));
      continue;
    }
    if (culprit.kind == SubjectKind::host) run.out.try_emplace(culprit.host, "doctor");
    run.culprits.push_back(std::move(culprit));
  }
  return {};
}

Status check_inventory(CheckRun& run) {
  for (const Host& host : run.fit()) run.tally.plan(host, 1, "hosts");
  COLL_ASSIGN(const auto topologies, ask_topologies(run.launch_of(run.fit())));
  for (const HostTopology& host : topologies)
    if (host.view) run.tally.did(host.host, "view");
  const auto groups = group_hosts(topologies);
  take(run, "inventory", hosts_findings(topologies, groups, false));
  for (const HostTopology& host : topologies)
    if (host.view &&
        std::any_of(host.view->graph.gpus.begin(), host.view->graph.gpus.end(),
                    [&](int gpu) { return host.view->graph.nodes[size_t(gpu)].fabric_links > 0; }))
      run.nvlinked.insert(host.host);
  if (!groups.empty()) {
    const TopoView& usual = *topologies[size_t(groups[0][0])].view;
    if (!usual.graph.gpus.empty() || !usual.graph.nets.empty())
      run.machine = topology::write_xml(usual.system);
  }
  return {};
}

Status begin_counters(CheckRun& run) {
  COLL_ASSIGN(run.counters, ask_counters(run.launch_of(run.fit()), {}));
  return {};
}

// Of all that were asked before, also of those that have failed a suite since: there it tells most.
Status check_counters(CheckRun& run) {
  if (run.counters.empty())
    return Error(ErrorCode::incomplete,
                 "no suite has loaded the hosts: there is nothing to compare");
  std::vector<Host> asked;
  for (const auto& [host, counters] : run.counters) {
    run.tally.plan(host, 1, "hosts");
    if (!counters.error) asked.push_back(host);
  }
  std::map<Host, HostCounters> now;
  if (!asked.empty()) {
    COLL_ASSIGN(now, ask_counters(run.launch_of(asked), run.counters));
  }
  for (const auto& [host, before] : run.counters) {
    const auto after = now.find(host);
    if (!before.error && after != now.end() && !after->second.error) {
      run.tally.did(host, "counters");
      for (Finding& finding : counter_findings(host, before.counters, after->second.counters)) {
        if (finding.status == FindingStatus::fail) {
          run.out.try_emplace(host, "counters");
          run.culprits.push_back(
              {finding.at.kind, subject_name(finding.at), 1, finding.message, false, host});
        }
        run.findings.push_back(std::move(finding));
      }
      continue;
    }
    Finding finding{.name = "counters/read", .at = {.kind = SubjectKind::host, .host = host}};
    const auto& said = after != now.end() ? after->second.error : before.error;
    finding.leave_out(format("{}: its counters were not read{}{}", host, said ? ": " : "",
                             said ? said->message : ""));
    run.findings.push_back(std::move(finding));
  }
  return {};
}

}  // namespace collctl::cmd
