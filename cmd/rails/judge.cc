// Judgement of the paths between NICs: which fail, which are slow.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/judge/odd_link.h"
#include "cmd/measure/timing.h"
#include "cmd/rails/judge.h"
#include "cmd/rails/memory_judge.h"

namespace collctl::cmd {
namespace {

const char* remedy_of(const RailResult& cell, bool rdma) {
  if (cell.lost == runtime::RailLost::beside)
    return "RDMA ports connect by TCP between their hosts' addresses, which does not pass here: "
           "look "
           "at route, cable and firewall of that network (collctl doctor -H); "
           "COLLCTL_SOCKET_IFNAME chooses another";
  switch (cell.end) {
    case RailEnd::no_address:
      return "give both ports an address of one kind (RoCE v2 over IPv4), or choose by "
             "COLLCTL_IB_GID_INDEX: show_gids lists them";
    case RailEnd::unreachable:
      return "check routes and firewalls between the interfaces: ip route get ADDRESS oif DEV";
    case RailEnd::silent:
      return rdma
                 ? "check that both ports are in one fabric (cables, VLAN, partition key) and, for "
                   "RoCE, that UDP port 4791 passes; ibv_rc_pingpong -d DEV tries it alone"
                 : "allow TCP between the interfaces; a firewall that drops it, or replies that "
                   "leave by another interface (rp_filter), look like this";
    case RailEnd::large_lost:
      return kMtuRemedy;
    case RailEnd::bad_data:
      return "do not use this path: look at the NICs' and the switches' error counters";
    default:
      return "collctl doctor -H with these two hosts looks at their limits, drivers and ports";
  }
}

Finding finding_at(const RailsReport& r, const RailAt& at) {
  const RailPair& pair = r.pairs[at.pair];
  Finding finding{.name = "rail"};
  finding.at = {.kind = SubjectKind::link,
                .host = r.hosts[size_t(pair.from)].host,
                .device = nic_from(r, at).name,
                .peer = r.hosts[size_t(pair.to)].host,
                .peer_device = nic_to(r, at).name};
  return finding;
}

}  // namespace

// Where no NIC reaches one of another name, but each its own, the fabric is of rails.
bool RailsJudge::is_rail_only() const {
  size_t own = 0, other = 0, others = 0;
  for (const RailAt& at : cells_) {
    const RailEnd end = cell_at(r_, at).end;
    if (end == RailEnd::unlike) continue;
    if (same_rail(at)) {
      own += end == RailEnd::ok ? 1 : 0;
    } else {
      ++others;
      other += end == RailEnd::ok ? 1 : 0;
    }
  }
  return own > 0 && others > 0 && other == 0;
}

void RailsJudge::count() {
  std::vector<double> all;
  for (const RailAt& at : cells_) {
    if (!counts(at)) continue;
    ++v_.tried;
    if (cell_at(r_, at).end != RailEnd::ok) continue;
    ++v_.good;
    all.push_back(cell_at(r_, at).GBps);
    if (paths_.bad(at)) v_.slow.push_back(at);
  }
  v_.median_GBps = median(all);
  v_.least_GBps = all.empty() ? 0 : *std::ranges::min_element(all);
  v_.came_back = paths_.came_back();
}

void RailsJudge::find_hosts() {
  for (const RailsHost& host : r_.hosts) {
    const bool has =
        std::ranges::any_of(host.nics, [&](const RailsNic& nic) { return nic.rdma == v_.rdma; });
    if (has) continue;
    Finding& finding = v_.checks.emplace_back(host_finding("rdma", host.host));
    finding.fail(
        ErrorCode::failed,
        !v_.rdma ? format("{} has no network interface that can be used", host.host)
                 : format("{} has no RDMA port that can be used, other hosts have: {}", host.host,
                          host.why_no_rdma.empty() ? "none was found" : host.why_no_rdma),
        "collctl doctor says more; --net socket tries the interfaces of all hosts");
    finding.reason = "host";
  }
  if (r_.one_host || r_.pairs.empty()) return;
  for (size_t h = 0; h < r_.hosts.size(); ++h) {
    const auto is_in = [h](const RailPair& pair) {
      return pair.from == int(h) || pair.to == int(h);
    };
    if (std::ranges::any_of(r_.pairs, is_in)) continue;
    const Host& host = r_.hosts[h].host;
    v_.checks.push_back(
        host_finding("rail", host).leave_out(format("{}: no path of it was measured", host)));
  }
}

// A pair of NICs without a path in this fabric is no finding against anybody.
void RailsJudge::check_paths() {
  for (const RailAt& at : cells_) {
    const RailResult& cell = cell_at(r_, at);
    const bool good = cell.end == RailEnd::ok;
    Finding& finding = v_.checks.emplace_back(finding_at(r_, at));
    finding.unit = "GB/s";
    if (good) finding.measured = format("{:.6g}", cell.GBps);
    if (!counts(at)) {
      if (!good) finding.status = FindingStatus::not_tested;
      finding.message = cell.text;
      continue;
    }
    const auto known = usual_.find(rate(at));
    const double usual = known == usual_.end() ? 0 : known->second;
    if (below_ > 0) {
      finding.expected = format("{:.6g}", below_ * usual);
      finding.basis = format("{:g} of what is usual of paths", below_);
      if (rate(at) > 0) finding.basis += format(" at {:g} Gb/s", rate(at));
    }
    if (!paths_.bad(at)) continue;
    if (!is_explained(paths_.trials()[paths_.last_trial(at)]))
      v_.unexplained.push_back(v_.checks.size() - 1);
    finding.reason = good ? "slow" : rail_word(cell.end);
    if (good)
      finding.fail(ErrorCode::failed,
                   format("{}: {}, {:.3g} is usual", rail_text(r_, at), paths_.text(at), usual),
                   "look at width and rate of the link (ibstat, ethtool), its error counters, and "
                   "the NIC's PCI slot (collctl topo)");
    else
      finding.fail(cell.end == RailEnd::bad_data ? ErrorCode::bad_data : ErrorCode::failed,
                   format("{}: {}", rail_text(r_, at), cell.text),
                   remedy_of(cell, nic_from(r_, at).rdma));
  }
  const auto fails = [](const Finding& f) { return f.status == FindingStatus::fail; };
  if (v_.tried > 0 || std::ranges::any_of(v_.checks, fails)) return;
  Finding& none = v_.checks.emplace_back();
  none.name = "rail";
  none.fail(ErrorCode::failed, "there is no path between NICs to test");
  none.reason = "none";
}

// One finding for each host that was busy, or one for all where most hosts were.
void RailsJudge::find_spoilt() {
  std::map<size_t, size_t> by_host;
  size_t all = 0;
  for (const RailAt& at : cells_) {
    if (!counts(at) || !paths_.pardoned(at)) continue;
    ++all;
    for (const int host : {r_.pairs[at.pair].from, r_.pairs[at.pair].to})
      if (!r_.hosts[size_t(host)].busy.empty()) ++by_host[size_t(host)];
  }
  if (by_host.empty()) return;
  const auto add = [&](size_t paths, size_t host) -> Finding& {
    Finding& finding = v_.checks.emplace_back();
    finding.name = kBusyHost;
    return spoil(finding,
                 format("slow while an end was busy, which says little: {} path{} ({}: {})", paths,
                        paths == 1 ? "" : "s", r_.hosts[host].host, r_.hosts[host].busy));
  };
  if (2 * busy_hosts(r_).size() > r_.hosts.size()) {
    add(all, by_host.begin()->first);
    return;
  }
  for (const auto& [host, paths] : by_host)
    add(paths, host).at = {.kind = SubjectKind::host, .host = r_.hosts[host].host};
}

// Sockets go by the smaller MTU of two ends, so such a host may have no path that is bad.
void RailsJudge::find_odd_links() {
  std::vector<LinkOnNetwork> links;
  for (const RailsHost& host : r_.hosts)
    for (const RailsNic& nic : host.nics)
      if (!nic.network.empty())
        links.push_back({host.host, nic.name, nic.network, format("MTU {}", nic.mtu)});
  std::set<std::string> told;
  for (Finding& finding : odd_links(links)) {
    if (finding.expected.empty()) {  // nobody's more than the others'
      finding.at = {};
      if (!told.insert(finding.message).second) continue;
    } else {
      v_.culprits.push_back(
          {SubjectKind::nic, subject_name(finding.at), 1, finding.message, false, finding.at.host});
    }
    v_.summary.push_back(finding.message);
    v_.checks.push_back(std::move(finding));
  }
}

void RailsJudge::find_culprits() {
  const Blame found = paths_.blamed();
  PathBlame blamed = path_blame(paths_, found);
  v_.checks = std::move(blamed.findings);
  v_.culprits = std::move(blamed.culprits);
  for (const Blamed& one : found.culprits) behind_.insert(one.part);
  if (r_.one_host) return;
  for (const Trial& trial : paths_.trials())
    if (trial.bad && is_explained(trial)) v_.broken.insert({trial.parts[0], trial.parts[1]});
}

RailsFindings RailsJudge::run() {
  for (const RailsHost& host : r_.hosts)
    for (const RailsNic& nic : host.nics) v_.rdma |= nic.rdma;
  v_.rail_only = rail_only_;
  v_.usual = usual_;
  count();
  find_culprits();
  find_hosts();
  check_paths();
  find_spoilt();
  find_odd_links();
  recommend();
  const size_t bad_hosts =
      size_t(std::ranges::count_if(v_.checks, [](const auto& f) { return f.reason == "host"; }));
  if (bad_hosts > 0)
    v_.summary.push_back(format("{} of {} hosts without {}", bad_hosts, r_.hosts.size(),
                                v_.rdma ? "RDMA" : "a NIC"));
  if (v_.good < v_.tried)
    v_.summary.push_back(format("{} of {} paths between NICs fail", v_.tried - v_.good, v_.tried));
  if (!v_.slow.empty())
    v_.summary.push_back(
        format("{} of {} are below {:g} of what is usual", v_.slow.size(), v_.tried, below_));
  if (v_.tried == 0) v_.summary.push_back("there is no path between NICs to test");
  return std::move(v_);
}

double slow_below(const RailsHost& from, const RailsHost& to, double below) {
  constexpr double kBusyPart = 0.5;
  return from.busy.empty() && to.busy.empty() ? below : kBusyPart * below;
}

BusyHosts busy_hosts(const RailsReport& report) {
  BusyHosts busy;
  for (const RailsHost& host : report.hosts)
    if (!host.busy.empty()) busy[host.host] = host.busy;
  return busy;
}

void settle_busy(const BusyGuard& guard, const RailsReport& report, RailsFindings& found) {
  guard.settle(found.checks, 0, report.hosts.size());
  for (const Finding& finding : found.checks) {
    if (finding.name != kBusyHost || finding.status != FindingStatus::fail) continue;
    found.summary.push_back(finding.message);
    found.culprits.push_back(
        {SubjectKind::host, finding.at.host.name, 1, finding.message, false, finding.at.host});
  }
}

std::vector<int> hosts_in_doubt(const RailsReport& report, double below, int round) {
  return RailsJudge(report, below).paths().to_measure(round);
}

RailsFindings judge_rails(const RailsReport& report, double below) {
  RailsFindings found;
  if (report.memory != runtime::MemoryChoice::gpu)
    found = RailsJudge(report, below).run();
  else
    for (const RailsHost& host : report.hosts)
      for (const RailsNic& nic : host.nics) found.rdma |= nic.rdma;
  found.below = below;
  MemoryFindings memories = judge_memories(report, below);
  for (const size_t path : memories.unexplained)
    found.unexplained.push_back(found.checks.size() + path);
  const auto add = [](auto& to, auto& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
  };
  add(found.checks, memories.checks);
  add(found.culprits, memories.culprits);
  add(found.summary, memories.summary);
  return found;
}

}  // namespace collctl::cmd
