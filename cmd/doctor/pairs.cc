// The network between hosts: which addresses count, who dials whom, and what the results say.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/format.h"
#include "base/host_devices.h"
#include "base/interface_choice.h"
#include "cmd/doctor/common_cause.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/odd_link.h"
#include "cmd/judge/verdict.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

using launcher::ReachEnd;

// The rule by which the transports choose interfaces; who has named some has them all.
bool carries_data(const base::NetInterface& interface, bool named) {
  if (!interface.up || interface.loopback) return false;
  return named || interface.aside.empty();
}

const char* remedy_of(ReachEnd end) {
  switch (end) {
    case ReachEnd::refused:
      return "allow TCP between the hosts: the firewall rejects it";
    case ReachEnd::no_route:
      return "check routes and cables: ip route get ADDRESS";
    case ReachEnd::timeout:
      return "allow TCP between the hosts; if ping works, a firewall drops it";
    case ReachEnd::mtu:
      return "the way passes smaller frames than the interfaces' MTU says: give all interfaces and "
             "switch ports of the network one MTU (ip link set DEV mtu N)";
    case ReachEnd::stranger:
      return "find who else has this address: arping, or a proxy between the hosts";
    default:
      return "look at the interface and its address on both hosts: ip -s address; "
             "COLLCTL_SOCKET_IFNAME chooses another one";
  }
}

}  // namespace

size_t same_host(const std::vector<SurveyedHost>& hosts, size_t host) {
  const auto place = [&](size_t i) {
    return hosts[i].facts ? std::string_view(hosts[i].facts->place) : std::string_view();
  };
  for (size_t i = 0; i < host && !place(host).empty(); ++i)
    if (place(i) == place(host)) return i;
  return host;
}

std::vector<std::vector<UsableAddress>> usable_addresses(const std::vector<SurveyedHost>& hosts) {
  std::map<std::string, int> owners;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!hosts[i].facts || same_host(hosts, i) != i) continue;
    std::set<std::string> own;
    for (const auto& interface : hosts[i].facts->interfaces)
      for (const auto& address : interface.addresses) own.insert(address.text);
    for (const auto& address : own) ++owners[address];
  }
  std::vector<std::vector<UsableAddress>> usable(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!hosts[i].facts) continue;
    for (const auto& interface : hosts[i].facts->interfaces) {
      if (!carries_data(interface, hosts[i].interfaces.all > 0)) continue;
      for (const auto& address : interface.addresses)
        if (!base::is_link_local(address.text) && owners[address.text] == 1)
          usable[i].push_back(
              {interface.name, address.text, address.prefix, interface.mtu, interface.speed_mbps});
    }
  }
  return usable;
}

std::string network_of(const UsableAddress& at) {
  return base::network_of(at.address, at.prefix);
}

std::vector<std::pair<int, int>> pairs_to_test(const std::vector<SurveyedHost>& hosts,
                                               uint64_t seed) {
  std::vector<int> asked;
  for (size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].facts && same_host(hosts, i) == i) asked.push_back(int(i));
  std::set<std::pair<int, int>> pairs;
  if (asked.size() <= kAllPairs) {
    for (const int from : asked)
      for (const int to : asked)
        if (from != to) pairs.emplace(from, to);
    return {pairs.begin(), pairs.end()};
  }
  const auto both_ways = [&](int a, int b) {
    pairs.emplace(a, b);
    pairs.emplace(b, a);
  };
  for (size_t i = 0; i < asked.size(); ++i) both_ways(asked[i], asked[(i + 1) % asked.size()]);
  std::vector<int> mixed = asked;
  std::shuffle(mixed.begin(), mixed.end(), std::mt19937_64(seed));
  for (size_t i = 0; i + 1 < mixed.size(); i += 2) both_ways(mixed[i], mixed[i + 1]);
  return {pairs.begin(), pairs.end()};
}

std::vector<DialledAddress> addresses_to_dial(const std::vector<UsableAddress>& from,
                                              const std::vector<UsableAddress>& to,
                                              const std::string& said) {
  std::vector<DialledAddress> dialled;
  if (!said.empty()) {
    for (const UsableAddress& at : to)
      if (at.address == said) return {{at, true}};
    UsableAddress missing;
    missing.address = said;
    return {{missing, true}};
  }
  for (const UsableAddress& at : to)
    if (std::ranges::any_of(
            from, [&](const UsableAddress& own) { return network_of(own) == network_of(at); }))
      dialled.push_back({at, true});
  if (dialled.empty())
    for (const UsableAddress& at : to) dialled.push_back({at, false});
  return dialled;
}

namespace {

std::string link_text(const UsableAddress& at) {
  const double speed = double(at.speed_mbps) / 1e3;
  return format("MTU {}{}", at.mtu, speed > 0 ? format(" {:g} Gb/s", speed) : "");
}

// Interfaces of a host with MTU and speed, whatever the others have.
void add_links(const SurveyedHost& host, const std::vector<UsableAddress>& usable,
               Diagnosis& diagnosis) {
  std::map<std::string, std::string> links;
  for (const auto& at : usable) links[at.interface] = link_text(at);
  std::string text;
  for (const auto& [name, link] : links)
    text += format("{}{} {}", text.empty() ? "" : ", ", name, link);
  add_check(diagnosis, "network", host, text.empty() ? "none" : text);
}

}  // namespace

void add_network_checks(const Survey& survey, Diagnosis& diagnosis) {
  const auto usable = usable_addresses(survey.hosts);
  std::vector<LinkOnNetwork> links;
  for (size_t i = 0; i < survey.hosts.size(); ++i) {
    if (survey.hosts[i].facts) add_links(survey.hosts[i], usable[i], diagnosis);
    for (const auto& at : usable[i])
      links.push_back(
          {survey.hosts[i].spec.host(), plain(at.interface), network_of(at), link_text(at)});
  }
  for (Finding& finding : odd_links(links)) diagnosis.checks.push_back(std::move(finding));
}

namespace {

void add_reach(const Survey& survey, const PairResult& pair, Diagnosis& diagnosis) {
  Finding& check = add_check(diagnosis, "reach", survey.hosts[size_t(pair.from)],
                             launcher::reach_word(pair.result.end));
  Subject& at = check.at;
  at.kind = SubjectKind::link;
  at.peer = survey.hosts[size_t(pair.to)].spec.host();
  at.device = pair.interface;
  if (pair.result.end == ReachEnd::ok) {
    check.measured = format("{:.1f}", pair.result.round_trip_us);
    check.unit = "us";
    return;
  }
  fail(check, "ok",
       format("{} cannot reach {} at {}{}: {}", at.host, at.peer, pair.result.address,
              pair.interface.empty() ? "" : format(" ({})", pair.interface), pair.result.text),
       remedy_of(pair.result.end));
}

// A pair of hosts counts as failed when one shared network fails, or every route.
struct PairVerdict {
  int from = 0, to = 0;
  bool failed = false;
  std::vector<const PairResult*> results;  // those that count
};

std::vector<PairVerdict> verdicts(const Survey& survey) {
  std::map<std::pair<int, int>, PairVerdict> by_pair;
  for (const PairResult& pair : survey.pairs) {
    PairVerdict& verdict = by_pair[{pair.from, pair.to}];
    verdict.from = pair.from;
    verdict.to = pair.to;
    verdict.results.push_back(&pair);
  }
  std::vector<PairVerdict> list;
  for (auto& [key, verdict] : by_pair) {
    const auto good = [](const PairResult* pair) { return pair->result.end == ReachEnd::ok; };
    auto& results = verdict.results;
    const bool any = std::ranges::any_of(results, good);
    // One path that works is enough: routed ones that fail do not count then.
    if (any)
      std::erase_if(results, [&](const PairResult* pair) { return !pair->shared && !good(pair); });
    verdict.failed = !std::ranges::all_of(results, good);
    list.push_back(std::move(verdict));
  }
  return list;
}

}  // namespace

void add_reach_checks(const Survey& survey, Diagnosis& diagnosis) {
  std::vector<Host> ends;
  std::vector<EndTrial> trials;
  for (const SurveyedHost& host : survey.hosts) ends.push_back(host.spec.host());
  for (const PairVerdict& verdict : verdicts(survey)) {
    trials.push_back({size_t(verdict.from), size_t(verdict.to), verdict.failed});
    for (const PairResult* pair : verdict.results) add_reach(survey, *pair, diagnosis);
  }
  const auto usable = usable_addresses(survey.hosts);
  for (size_t i = 0; i < usable.size() && survey.hosts.size() > 1; ++i) {
    if (!survey.hosts[i].facts || !usable[i].empty()) continue;
    fail(add_check(diagnosis, "reach", survey.hosts[i], "no address"),
         "an address that other hosts can use",
         format("{} has no address that others could reach", survey.hosts[i].spec.name),
         "give it an address of its own on an interface that is up");
  }
  for (size_t i = 0; i < survey.hosts.size(); ++i) {
    const size_t first = same_host(survey.hosts, i);
    if (first == i) continue;
    const std::string text =
        format("{} and {} are one host", survey.hosts[first].spec.name, survey.hosts[i].spec.name);
    Finding& check = add_check(diagnosis, "reach", survey.hosts[i], "the same host");
    fail(check, "a host that the list has once", text, "name each host once in the list of hosts");
    check.reason = kOfLauncher;
    diagnosis.culprits.push_back({SubjectKind::launcher,
                                  survey.self.host,
                                  1.0,
                                  format("its list has a host twice: {}", text),
                                  false,
                                  {}});
  }
  if (survey.untested_pairs > 0) {
    Finding& check = diagnosis.checks.emplace_back();
    check.name = "reach";
    check.measured = std::to_string(survey.untested_pairs);
    check.unit = "pairs";
    check.leave_out(
        format(
            "{} pairs of hosts were not tested: with more than {} hosts only a ring and a random "
            "matching are",
            survey.untested_pairs, kAllPairs),
        format("run it for at most {} hosts at a time to test all their pairs", kAllPairs));
  }
  for (Culprit& culprit : blame_ends(trials, ends, {"test of the network", "tests of the network"}))
    diagnosis.culprits.push_back(std::move(culprit));
}

}  // namespace collctl::cmd
