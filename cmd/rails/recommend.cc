// Settings by which jobs use the good paths.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/measure/timing.h"
#include "cmd/rails/judge.h"

namespace collctl::cmd {

// Names of NICs, of one kind of link, between which every path is good: whoever has most bad ones
// is left out, until none is left. Variables are the same on all hosts, so a name is in or out on
// all.
std::vector<std::string> RailsJudge::best_names() const {
  std::vector<std::string> best;
  double best_sum = 0;
  std::set<std::string> links;
  for (const RailsHost& host : r_.hosts)
    for (const RailsNic& nic : host.nics)
      if (nic.rdma == v_.rdma) links.insert(nic.link);
  for (const std::string& link : links) {
    std::vector<std::string> names;
    for (const RailsHost& host : r_.hosts)
      for (const RailsNic& nic : host.nics)
        if (nic.link == link && nic.rdma == v_.rdma &&
            std::ranges::find(names, nic.name) == names.end())
          names.push_back(nic.name);
    const auto among = [&](const RailAt& at) {
      const auto in = [&](const std::string& name) {
        return std::ranges::find(names, name) != names.end();
      };
      return nic_from(r_, at).link == link && nic_to(r_, at).link == link && counts(at) &&
             in(nic_from(r_, at).name) && in(nic_to(r_, at).name);
    };
    while (true) {
      std::map<std::string, int> bad_of;
      for (const RailAt& at : cells_)
        if (among(at) && bad(at)) {
          ++bad_of[nic_from(r_, at).name];
          ++bad_of[nic_to(r_, at).name];
        }
      const auto worst = std::ranges::max_element(
          bad_of, [](const auto& a, const auto& b) { return a.second < b.second; });
      if (worst == bad_of.end()) break;
      std::erase(names, worst->first);
    }
    double sum = 0;
    for (const RailAt& at : cells_)
      if (among(at)) sum += cell_at(r_, at).GBps;
    if (sum > best_sum) best = names, best_sum = sum;
  }
  return best;
}

void RailsJudge::recommend_ports(const std::vector<std::string>& names) {
  // A device with one port anywhere needs no port behind its name.
  std::map<std::string, std::set<std::string>> ports;
  for (const RailsHost& host : r_.hosts)
    for (const RailsNic& nic : host.nics)
      ports[nic.name.substr(0, nic.name.find(':'))].insert(nic.name);
  std::string list;
  for (const std::string& name : names) {
    const std::string device = name.substr(0, name.find(':'));
    list += (list.empty() ? "=" : ",") + (ports[device].size() == 1 ? device : name);
  }
  v_.recommended = "COLLCTL_IB_HCA=" + list;
  std::set<int> indexes;
  for (const RailAt& at : cells_) {
    const auto in = [&](const RailsNic& nic) {
      return std::ranges::find(names, nic.name) != names.end();
    };
    if (!counts(at) || !in(nic_from(r_, at)) || !in(nic_to(r_, at))) continue;
    indexes.insert(cell_at(r_, at).from_gid);
    indexes.insert(cell_at(r_, at).to_gid);
  }
  if (indexes.size() == 1 && *indexes.begin() >= 0)
    v_.recommended += format(" COLLCTL_IB_GID_INDEX={}", *indexes.begin());
  else if (indexes.size() > 1)
    v_.note =
        "the ports' GID indexes differ: leave COLLCTL_IB_GID_INDEX unset, then each "
        "connection takes those that fit";
  if (v_.rail_only) v_.recommended += " COLLCTL_CROSS_NIC=0";
}

// Sockets use one interface: the fastest.
void RailsJudge::recommend_interface(const std::vector<std::string>& names) {
  std::string best;
  double best_GBps = 0;
  for (const std::string& name : names) {
    std::vector<double> values;
    for (const RailAt& at : cells_)
      if (same_rail(at) && nic_from(r_, at).name == name) values.push_back(cell_at(r_, at).GBps);
    const bool everywhere = std::ranges::all_of(r_.hosts, [&](const auto& host) {
      return std::ranges::any_of(host.nics, [&](const RailsNic& nic) { return nic.name == name; });
    });
    if (const double usual = median(values); everywhere && usual > best_GBps)
      best = name, best_GBps = usual;
  }
  if (!best.empty()) v_.recommended = "COLLCTL_SOCKET_IFNAME==" + best;
}

// Why no names serve the host: it has no NIC of the kind, or this path keeps the host's own out.
std::string RailsJudge::why_not_served(const RailsHost& host) const {
  std::string why = format("{} has none that can be used", host.host);
  for (const RailsNic& nic : host.nics) {
    if (nic.rdma != v_.rdma) continue;
    for (const RailAt& at : cells_)
      if (bad(at) && (nic_from(r_, at).name == nic.name || nic_to(r_, at).name == nic.name))
        return format("{} is bad", rail_text(r_, at));
    why = format("{} of {} goes with none of the others'", nic.name, host.host);
  }
  return why;
}

void RailsJudge::recommend() {
  const std::vector<std::string> names = best_names();
  for (const RailsHost& host : r_.hosts) {
    const bool served = std::ranges::any_of(host.nics, [&](const RailsNic& nic) {
      return nic.rdma == v_.rdma && std::ranges::find(names, nic.name) != names.end();
    });
    if (served) continue;
    v_.note = format("no choice of NICs by name connects all hosts well: {}", why_not_served(host));
    return;
  }
  v_.rdma ? recommend_ports(names) : recommend_interface(names);
  if (v_.recommended.empty() && v_.note.empty())
    v_.note = "no interface of one name connects all hosts well";
}

}  // namespace collctl::cmd
