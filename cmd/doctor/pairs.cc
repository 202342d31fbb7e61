// The network between hosts: which addresses count, who dials whom, and what the results say.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/format.h"
#include "cmd/doctor/doctor.h"

namespace collctl::cmd {
namespace {

using launcher::ReachEnd;

// Both families in 16 bytes; IPv4 as a mapped address.
std::optional<std::array<uint8_t, 16>> address_bytes(const std::string& text) {
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes[10] = bytes[11] = 0xff;
  if (inet_pton(AF_INET, text.c_str(), bytes.data() + 12) == 1) return bytes;
  return std::nullopt;
}

bool is_v4(const std::string& text) {
  return text.find(':') == std::string::npos;
}

bool is_link_local(const std::string& address) {
  const auto bytes = address_bytes(address);
  if (!bytes) return true;
  if (is_v4(address)) return (*bytes)[12] == 169 && (*bytes)[13] == 254;
  return (*bytes)[0] == 0xfe && ((*bytes)[1] & 0xc0) == 0x80;
}

// The rule by which the transports choose interfaces when nobody names one.
bool carries_data(const base::NetInterface& interface) {
  if (!interface.up || interface.loopback) return false;
  for (const char* other : {"docker", "lo", "virbr"})
    if (interface.name.compare(0, std::char_traits<char>::length(other), other) == 0) return false;
  return true;
}

const char* remedy_of(ReachEnd end) {
  switch (end) {
    case ReachEnd::refused:
      return "allow TCP between the hosts: the firewall rejects it";
    case ReachEnd::no_route:
      return "check routes and cables: ip route get ADDRESS";
    case ReachEnd::timeout:
      return "allow TCP between the hosts; if ping works, a firewall drops it";
    case ReachEnd::stranger:
      return "find who else has this address: arping, or a proxy between the hosts";
    default:
      return "look at the interface and its address on both hosts: ip -s address; "
             "COLLCTL_SOCKET_IFNAME chooses another one";
  }
}

}  // namespace

std::vector<std::vector<UsableAddress>> usable_addresses(const std::vector<SurveyedHost>& hosts) {
  std::map<std::string, int> owners;
  for (const SurveyedHost& host : hosts) {
    if (!host.facts) continue;
    std::set<std::string> own;
    for (const auto& interface : host.facts->interfaces)
      for (const auto& address : interface.addresses) own.insert(address.text);
    for (const auto& address : own) ++owners[address];
  }
  std::vector<std::vector<UsableAddress>> usable(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!hosts[i].facts) continue;
    for (const auto& interface : hosts[i].facts->interfaces) {
      if (!carries_data(interface)) continue;
      for (const auto& address : interface.addresses)
        if (!is_link_local(address.text) && owners[address.text] == 1)
          usable[i].push_back(
              {interface.name, address.text, address.prefix, interface.mtu, interface.speed_mbps});
    }
  }
  return usable;
}

std::string network_of(const UsableAddress& at) {
  auto bytes = address_bytes(at.address);
  if (!bytes) return at.address;
  const int first = is_v4(at.address) ? 96 : 0;
  for (int bit = first + std::max(at.prefix, 0); bit < 128; ++bit)
    (*bytes)[size_t(bit / 8)] &= uint8_t(~(0x80 >> bit % 8));
  char text[INET6_ADDRSTRLEN] = {};
  if (is_v4(at.address))
    inet_ntop(AF_INET, bytes->data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, bytes->data(), text, sizeof text);
  return format("{}/{}", text, at.prefix);
}

std::vector<std::pair<int, int>> pairs_to_test(const std::vector<SurveyedHost>& hosts,
                                               uint64_t seed) {
  std::vector<int> asked;
  for (size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].facts) asked.push_back(int(i));
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
    if (std::any_of(from.begin(), from.end(),
                    [&](const UsableAddress& own) { return network_of(own) == network_of(at); }))
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

// What a host has, whatever the others have.
void add_links(const SurveyedHost& host, const std::vector<UsableAddress>& usable,
               Diagnosis& diagnosis) {
  std::map<std::string, std::string> links;
  for (const auto& at : usable) links[at.interface] = link_text(at);
  Finding check;
  check.name = "network";
  check.host = host.spec.name;
  for (const auto& [name, link] : links)
    check.measured += format("{}{} {}", check.measured.empty() ? "" : ", ", name, link);
  if (check.measured.empty()) check.measured = "none";
  diagnosis.checks.push_back(std::move(check));
}

Finding link_check(const SurveyedHost& host, const UsableAddress& at, const std::string& most,
                 const std::string& others) {
  Finding check;
  check.name = "network";
  check.host = host.spec.name;
  check.device = at.interface;
  check.status = FindingStatus::fail;
  check.odd = true;
  check.measured = link_text(at);
  check.cell = at.interface + " " + check.measured;
  check.expected = most;
  check.message =
      most.empty() ? format("{} on {}: the hosts differ: {}", at.interface, network_of(at), others)
                   : format("{} on {} has {}, most hosts have {}", at.interface, network_of(at),
                            check.measured, most);
  check.remedy =
      "give all interfaces of a network one MTU (ip link set DEV mtu N); see why a link is "
      "slow (ethtool DEV)";
  return check;
}

}  // namespace

void add_network_checks(const Survey& survey, Diagnosis& diagnosis) {
  const auto usable = usable_addresses(survey.hosts);
  std::map<std::string, std::vector<std::pair<size_t, const UsableAddress*>>> networks;
  for (size_t i = 0; i < survey.hosts.size(); ++i) {
    if (survey.hosts[i].facts) add_links(survey.hosts[i], usable[i], diagnosis);
    for (const auto& at : usable[i]) networks[network_of(at)].emplace_back(i, &at);
  }
  std::set<std::pair<size_t, std::string>> said;  // IPv4 and IPv6 stand on one interface
  for (const auto& [network, members] : networks) {
    std::vector<std::string> values;
    for (const auto& [host, at] : members) values.push_back(link_text(*at));
    const std::string most = usual_value(values), others = listed_values(values);
    for (const auto& [host, at] : members)
      if (link_text(*at) != most && said.emplace(host, at->interface).second)
        diagnosis.checks.push_back(link_check(survey.hosts[host], *at, most, others));
  }
}

namespace {

Finding reach_check(const Survey& survey, const PairResult& pair) {
  Finding check;
  check.name = "reach";
  check.host = survey.hosts[size_t(pair.from)].spec.name;
  check.peer = survey.hosts[size_t(pair.to)].spec.name;
  check.device = pair.interface;
  if (pair.result.end == ReachEnd::ok) {
    check.measured = format("{:.1f}", pair.result.round_trip_us);
    check.unit = "us";
    return check;
  }
  check.status = FindingStatus::fail;
  check.measured = launcher::reach_word(pair.result.end);
  check.expected = "ok";
  check.message =
      format("{} cannot reach {} at {}{}: {}", check.host, check.peer, pair.result.address,
             pair.interface.empty() ? "" : format(" ({})", pair.interface), pair.result.text);
  check.remedy = remedy_of(pair.result.end);
  return check;
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
    const bool any = std::any_of(results.begin(), results.end(), good);
    // Of the routes one is enough; the others say nothing.
    if (any)
      std::erase_if(results, [&](const PairResult* pair) { return !pair->shared && !good(pair); });
    verdict.failed = !std::all_of(results.begin(), results.end(), good);
    list.push_back(std::move(verdict));
  }
  return list;
}

// Who is behind the failed pairs: a host when at least half of all its pairs failed, and they are
// not all with another such host; else the link.
void blame(const Survey& survey, const std::vector<PairVerdict>& pairs, Diagnosis& diagnosis) {
  std::vector<int> tried(survey.hosts.size()), failed(survey.hosts.size());
  for (const PairVerdict& pair : pairs)
    for (const int host : {pair.from, pair.to}) {
      ++tried[size_t(host)];
      failed[size_t(host)] += pair.failed ? 1 : 0;
    }
  // The worst first; what it explains is taken from its peers.
  std::vector<size_t> order(survey.hosts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return failed[a] * std::max(tried[b], 1) > failed[b] * std::max(tried[a], 1);
  });
  std::vector<int> left = failed;
  std::set<size_t> guilty;
  for (const size_t host : order) {
    // Of two hosts alone nobody can say which it is.
    if (tried[host] <= 2 || left[host] * 2 < tried[host]) continue;
    guilty.insert(host);
    diagnosis.culprits.push_back(
        {"host", survey.hosts[host].spec.name, double(failed[host]) / tried[host],
         format("{} of {} tests of the network with it failed", failed[host], tried[host]), false});
    for (const PairVerdict& pair : pairs)
      if (pair.failed && (size_t(pair.from) == host || size_t(pair.to) == host))
        --left[size_t(size_t(pair.from) == host ? pair.to : pair.from)];
  }
  for (const PairVerdict& pair : pairs)
    if (pair.failed && guilty.count(size_t(pair.from)) == 0 && guilty.count(size_t(pair.to)) == 0)
      diagnosis.culprits.push_back({"link",
                                    format("{} -> {}", survey.hosts[size_t(pair.from)].spec.name,
                                           survey.hosts[size_t(pair.to)].spec.name),
                                    1.0, "the test of the network between them failed", false});
}

}  // namespace

void add_reach_checks(const Survey& survey, Diagnosis& diagnosis) {
  const auto pairs = verdicts(survey);
  for (const PairVerdict& verdict : pairs)
    for (const PairResult* pair : verdict.results)
      diagnosis.checks.push_back(reach_check(survey, *pair));
  const auto usable = usable_addresses(survey.hosts);
  for (size_t i = 0; i < usable.size() && survey.hosts.size() > 1; ++i) {
    if (!survey.hosts[i].facts || !usable[i].empty()) continue;
    Finding check;
    check.name = "reach";
    check.host = survey.hosts[i].spec.name;
    check.status = FindingStatus::fail;
    check.measured = "no address";
    check.expected = "an address that other hosts can use";
    check.message = format("{} has no address that others could reach", check.host);
    check.remedy = "give it an address of its own on an interface that is up";
    diagnosis.checks.push_back(std::move(check));
  }
  if (survey.untested_pairs > 0) {
    Finding check;
    check.name = "reach";
    check.status = FindingStatus::not_tested;
    check.measured = std::to_string(survey.untested_pairs);
    check.unit = "pairs";
    check.message = format(
        "{} pairs of hosts were not tested: with more than {} hosts only a ring and a random "
        "matching are",
        survey.untested_pairs, kAllPairs);
    check.remedy =
        format("run it for at most {} hosts at a time to test all their pairs", kAllPairs);
    diagnosis.checks.push_back(std::move(check));
  }
  blame(survey, pairs, diagnosis);
}

}  // namespace collctl::cmd
