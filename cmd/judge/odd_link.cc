#include "cmd/judge/odd_link.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostOfValue = 3;  // hosts of one value, in words

// "MTU 1500 on node01, node02; MTU 9000 on node03 and 4 more"
std::string whose_values(const std::vector<const LinkOnNetwork*>& members) {
  std::map<std::string, std::vector<Host>> by_value;
  for (const LinkOnNetwork* at : members) by_value[at->value].push_back(at->host);
  std::string text;
  for (const auto& [value, hosts] : by_value) {
    text += (text.empty() ? "" : "; ") + value;
    for (size_t i = 0; i < std::min(hosts.size(), kMostOfValue); ++i)
      text += format("{}{}", i == 0 ? " on " : ", ", hosts[i]);
    if (hosts.size() > kMostOfValue) text += format(" and {} more", hosts.size() - kMostOfValue);
  }
  return text;
}

}  // namespace

std::string usual_value(const std::vector<std::string>& values) {
  std::map<std::string, size_t> counts;
  for (const auto& value : values)
    if (++counts[value] * 2 > values.size()) return value;
  return "";
}

std::vector<Finding> odd_links(std::span<const LinkOnNetwork> links) {
  std::map<std::string, std::vector<const LinkOnNetwork*>> networks;
  for (const LinkOnNetwork& at : links) networks[at.network].push_back(&at);
  std::set<std::pair<Host, std::string>> said;  // IPv4 and IPv6 stand on one interface
  std::vector<Finding> list;
  for (const auto& [network, members] : networks) {
    std::vector<std::string> values;
    for (const LinkOnNetwork* at : members) values.push_back(at->value);
    const std::string most = usual_value(values);
    for (const LinkOnNetwork* at : members) {
      if (at->value == most || !said.emplace(at->host, at->interface).second) continue;
      Finding& finding = list.emplace_back();
      finding.name = "network";
      finding.at = {.kind = SubjectKind::nic, .host = at->host, .device = at->interface};
      finding.measured = at->value;
      finding.expected = most;
      finding.odd = true;
      finding.cell = at->interface + " " + at->value;
      if (!most.empty()) finding.basis = "most hosts have it";
      finding.fail(ErrorCode::failed,
                   most.empty() ? format("{} on {}: the hosts differ: {}", at->interface, network,
                                         whose_values(members))
                                : format("{}: {} on {} has {}, most hosts have {}", at->host,
                                         at->interface, network, at->value, most),
                   "give all interfaces of a network one MTU (ip link set DEV mtu N); see why a "
                   "link is slow (ethtool DEV)");
    }
  }
  return list;
}

}  // namespace collctl::cmd
