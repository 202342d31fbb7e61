#include "runtime/plan/job_hosts.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "base/format.h"

namespace collctl::runtime {

std::vector<Host> job_hosts(const std::vector<Host>& told, const HostGroups& groups) {
  const bool listed = std::none_of(told.begin(), told.end(),
                                   [](const Host& host) { return host.id == HostId::none; });
  std::set<HostId> places;
  std::map<std::string, int> called;
  for (const auto& ranks : groups) {
    const Host& first = told[size_t(ranks[0])];
    places.insert(first.id);
    ++called[first.name];
  }
  if (listed && places.size() == groups.size()) return told;
  std::vector<Host> hosts(told.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    std::string name = told[size_t(groups[g][0])].name;
    if (!listed && called[name] > 1) name += format("@rank{}", groups[g][0]);
    for (const int32_t rank : groups[g]) hosts[size_t(rank)] = {HostId(int32_t(g)), name};
  }
  return hosts;
}

void name_hosts(std::vector<transport::PeerInfo>& peers, const HostGroups& groups) {
  std::vector<Host> told;
  for (const transport::PeerInfo& peer : peers) told.push_back(host_of(peer));
  const std::vector<Host> hosts = job_hosts(told, groups);
  for (size_t r = 0; r < peers.size(); ++r) {
    peers[r].host_id = int32_t(hosts[r].id);
    std::snprintf(peers[r].host, sizeof peers[r].host, "%s", hosts[r].name.c_str());
  }
}

Host host_of(const transport::PeerInfo& peer) {
  return {HostId(peer.host_id), std::string(peer.host, ::strnlen(peer.host, sizeof peer.host))};
}

}  // namespace collctl::runtime
