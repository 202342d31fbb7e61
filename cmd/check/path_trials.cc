#include "cmd/check/path_trials.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/measure/timing.h"

namespace collctl::cmd {
namespace {

// Share of a path's packets that had to be sent again, and as many times as on the usual path: more
// is bad whatever the speed. Bursts that fill a switch's queue stay below.
constexpr double kResent = 0.05, kResentOfUsual = 4;
constexpr double kOfPort = 0.5;  // of an RDMA port's rate: less is bad whatever the others have

std::string end_name(const std::string& host, const std::string& nic) {
  return nic.empty() ? host : host + " " + nic;
}

// Whether a path goes through the part.
bool is_of(const Suspect& part, const std::string& from, const std::string& from_nic,
           const std::string& to, const std::string& to_nic) {
  const std::string out = end_name(from, from_nic), in = end_name(to, to_nic);
  if (part.kind == SubjectKind::link)
    return part.name == (part.way == Way::both ? Suspects::link_name(out, in) : out + " -> " + in);
  return (part.way != Way::in && (part.name == from || part.name == out)) ||
         (part.way != Way::out && (part.name == to || part.name == in));
}

}  // namespace

PathTrials::PathTrials(const std::vector<std::string>& hosts, Tally& tally)
    : hosts_(hosts), tally_(tally) {
  const size_t ways = int(hosts.size()) < kSparseFrom ? 2 * (hosts.size() - 1) : 2;
  for (const std::string& host : hosts) {
    parts_.add(SubjectKind::host, host);
    tally.plan(host, ways, "paths to other hosts");
  }
}

Status PathTrials::known(const std::string& host) const {
  if (parts_.contains(host)) return {};
  return Error(ErrorCode::defect,
               format("the ranks report on {}, which is none of the hosts", host));
}

Status PathTrials::add(const RailsReport& report, const RailsFindings& found, double below) {
  for (const RailsHost& host : report.hosts) COLL_TRY(known(host.host));
  std::vector<double> resents;
  for (const RailPair& pair : report.pairs)
    for (const RailResult& cell : pair.cells)
      if (cell.end == RailEnd::ok && cell.resent >= 0) resents.push_back(cell.resent);
  // Few suspects among themselves have no usual value: the first job's, of most hosts, holds.
  if (usual_resent_ < 0 && !resents.empty()) usual_resent_ = median(resents);
  most_resent_ = std::max(kResent, kResentOfUsual * usual_resent_);
  for (const RailPair& pair : report.pairs) {
    const RailsHost& from = report.hosts[size_t(pair.from)];
    const RailsHost& to = report.hosts[size_t(pair.to)];
    for (size_t i = 0; i < from.nics.size(); ++i)
      for (size_t j = 0; j < to.nics.size(); ++j) {
        const RailResult& cell = pair.cells[i * to.nics.size() + j];
        if (cell.end == RailEnd::unlike) continue;
        if (found.rail_only && from.nics[i].name != to.nics[j].name) continue;
        add_cell(from, i, to, j, cell, found, below);
      }
  }
  return {};
}

void PathTrials::add_cell(const RailsHost& from, size_t i, const RailsHost& to, size_t j,
                          const RailResult& cell, const RailsFindings& found, double below) {
  const RailsNic &out = from.nics[i], &in = to.nics[j];
  Trial trial = trial_between(from.host, to.host);
  // The NIC of a host that has one is the host: no measurement tells them apart.
  add_nic(trial, from, i, Way::out);
  add_nic(trial, to, j, Way::in);
  add_link(trial, end_name(from.host, out.name), end_name(to.host, in.name));
  const double rate = std::min(out.rate_Gbps, in.rate_Gbps);
  const auto usual = found.medians.find(rate);
  const double part = slow_below(from, to, below);
  const double median = usual == found.medians.end() ? 0 : usual->second;
  double expected = part * median;
  if (out.rdma && in.rdma) expected = std::max(expected, kOfPort * rate / 8);
  trial.ratio = cell.end != RailEnd::ok ? 0 : expected > 0 ? cell.GBps / expected * part : 1;
  const bool lossy = cell.end == RailEnd::ok && cell.resent > most_resent_;
  trial.bad = cell.end != RailEnd::ok || cell.GBps < expected || lossy;
  if (!trial.bad && cell.GBps < below * median) {
    ++pardoned_;
    busy_ = from.busy.empty() ? format("{}: {}", to.host, to.busy)
                              : format("{}: {}", from.host, from.busy);
  }
  Last& last = last_[{from.host, out.name, to.host, in.name}];
  last = {trial.bad, cell.end != RailEnd::ok ? cell.text : format("{:.3g} GB/s", cell.GBps)};
  if (lossy) last.text += format(", {:.2g} % of its packets sent again", 100 * cell.resent);
  trials_.push_back(std::move(trial));
  did(from.host, to.host);
}

Status PathTrials::add_unconnected(const BrokenLink& link) {
  COLL_TRY(known(link.from));
  COLL_TRY(known(link.to));
  for (const auto& [from, to] : {std::pair(link.from, link.to), {link.to, link.from}}) {
    Trial trial = trial_between(from, to);
    trial.bad = true;
    trial.ratio = 0;
    add_link(trial, from, to);
    trials_.push_back(std::move(trial));
    did(from, to);
  }
  last_[{link.from, "", link.to, ""}] = {true, link.text};
  return {};
}

std::vector<std::string> PathTrials::to_measure(int round) const {
  std::vector<std::string> list;
  for (const HostGroup& group : next_round(parts_.all(), trials_, int(hosts_.size()), round))
    for (const int host : group) list.push_back(hosts_[size_t(host)]);
  return list;
}

std::string PathTrials::examples(const Suspect& part) const {
  std::string text;
  int shown = 0, more = 0;
  for (const auto& [path, last] : last_) {
    const auto& [from, from_nic, to, to_nic] = path;
    if (!last.bad || !is_of(part, from, from_nic, to, to_nic)) continue;
    if (++shown > 2) {
      ++more;
      continue;
    }
    text += format("{}{} -> {}: {}", text.empty() ? "" : "; ", end_name(from, from_nic),
                   end_name(to, to_nic), last.text);
  }
  return more > 0 ? format("{}; and {} more", text, more) : text;
}

void PathTrials::did(const std::string& from, const std::string& to) {
  tally_.did(from, "to " + to);
  tally_.did(to, "from " + from);
}

// The hosts come first in it, the lower number before the other: ends() and next_round() rely on
// it.
Trial PathTrials::trial_between(const std::string& from, const std::string& to) {
  const int a = parts_.number(from), b = parts_.number(to);
  Trial trial;
  trial.parts = {std::min(a, b), std::max(a, b)};
  trial.parts.push_back(parts_.add(SubjectKind::host, from, Way::out));
  trial.parts.push_back(parts_.add(SubjectKind::host, to, Way::in));
  return trial;
}

void PathTrials::add_nic(Trial& trial, const RailsHost& host, size_t nic, Way way) {
  if (host.nics.size() < 2) return;
  const std::string name = host.host + " " + host.nics[nic].name;
  trial.parts.push_back(parts_.add(SubjectKind::nic, name));
  trial.parts.push_back(parts_.add(SubjectKind::nic, name, way));
}

void PathTrials::add_link(Trial& trial, const std::string& from, const std::string& to) {
  trial.parts.push_back(parts_.add_link(from, to));
  trial.parts.push_back(parts_.add_link_from(from, to));
}

}  // namespace collctl::cmd
