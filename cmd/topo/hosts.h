// `topo -H`: the machines of all hosts, which of them are equal, and how the others differ. Asking
// is the only part that is not pure. Threads: one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/job.h"
#include "cmd/judge/finding.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {

// The question to an agent, and its answer: the machine it is on (collctl.topo-answer/1).
inline constexpr const char* kAskTopology = "topology";
Result<std::string> topology_answer();

struct HostTopology {
  Host host;
  std::optional<Error> error = {};  // why there is no view: not reached, or its detection failed
  std::optional<TopoView> view = {};
  std::vector<topology::NodeGraphs> graphs = {};  // its channels, for the JSON
};
// The other side of topology_answer(). Untrusted. Errors: launch; usage as view_of.
Result<TopoView> view_of_answer(const std::string& answer, const std::string& host);

// Every host of the launch detects its own machine; without hosts this one does. Errors are this
// machine's; what is wrong with a host stands in its entry.
Result<std::vector<HostTopology>> ask_topologies(const LaunchOptions& launch);

// Hosts (by index) with equal machines: bus ids and names may differ, what hangs where and how fast
// may not. Most hosts first; unreached hosts are in none.
std::vector<std::vector<int>> group_hosts(const std::vector<HostTopology>& hosts);

// Findings for each host: whether it could be asked (else launch), has the machine of most, and
// what is odd about its own; `strict`: a warning is a failure.
std::vector<Finding> hosts_findings(const std::vector<HostTopology>& hosts,
                                    const std::vector<std::vector<int>>& groups, bool strict);

// The machine that most have as a tree, then what differs, then who did not answer.
std::string hosts_text(const std::vector<HostTopology>& hosts,
                       const std::vector<std::vector<int>>& groups, const TreeStyle& style);
// {"schema":"collctl.topo-hosts/1","hosts":[{"host":..,"topo":{..}}],..}
std::string hosts_json(const std::vector<HostTopology>& hosts,
                       const std::vector<std::vector<int>>& groups);

// "%h" in it is the host's name.
std::string file_of_host(std::string pattern, const std::string& host);
// A topology file FOLDER/HOST.xml of each host that answered. The folder is made when it is
// missing. Error unavailable.
Status save_hosts(const std::vector<HostTopology>& hosts, const std::string& folder);
// Every host against a machine that is as it should be: `golden` is one machine, whose serial
// numbers do not count, or a folder that save_hosts() has made, in which each host has its own.
struct HostsDiff {
  std::string text, json;         // collctl.topo-hosts-diff/1
  std::vector<Finding> findings;  // one of each host
};
Result<HostsDiff> diff_hosts(const std::vector<HostTopology>& hosts, const std::string& golden);

}  // namespace collctl::cmd
