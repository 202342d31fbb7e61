#include "cmd/rails/path_trials.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/rails/usual.h"

namespace collctl::cmd {
namespace {

// Share of a path's packets that had to be sent again, and as many times as on the usual path: more
// is bad whatever the speed. Bursts that fill a switch's queue stay below.
constexpr double kResent = 0.02, kResentOfUsual = 4;
// A share of an RDMA port's rate: less is bad whatever the others have, for who asks for that much
// of these.
constexpr double kOfPort = 0.5;

const char* remedy_for(const Suspect& part, bool loses_large) {
  if (loses_large) return kMtuRemedy;
  if (part.at.kind != SubjectKind::link && part.way == Way::out)
    return "look at its transmit side, as what it receives is good: ethtool -S (tx errors, "
           "pauses), "
           "tc qdisc, cable, the receiving side of its switch port";
  if (part.at.kind != SubjectKind::link && part.way == Way::in)
    return "look at its receive side, as what it sends is good: ethtool -S (rx errors, drops), "
           "firewall, cable, the sending side of its switch port";
  switch (part.at.kind) {
    case SubjectKind::host:
      return "look at its NICs, cables, switch ports, routes and firewall: collctl doctor -H, "
             "ethtool -S, ibstat";
    case SubjectKind::nic:
      return "look at this NIC's cable, transceiver, switch port and PCIe width: ethtool, ibstat, "
             "collctl topo -H";
    default:
      return "both hosts reach others: look at what is between them (switch, route, firewall rule, "
             "a single cable)";
  }
}

}  // namespace

PathTrials::PathTrials(const RailsReport& report, bool rail_only,
                       const std::map<double, double>& usual, double below)
    : report_(report),
      rail_only_(rail_only),
      below_(below),
      most_resent_(std::max(kResent, kResentOfUsual * usual_resent(report, rail_only))) {
  for (const RailsHost& host : report.hosts)
    parts_.add({.kind = SubjectKind::host, .host = host.host});
  std::map<std::pair<int, int>, size_t> place;
  for (size_t p = 0; p < report.pairs.size(); ++p)
    place[{report.pairs[p].from, report.pairs[p].to}] = p;
  for (const RailPair& pair : report.before) add(pair, place.at({pair.from, pair.to}), usual);
  for (size_t p = 0; p < report.pairs.size(); ++p) add(report.pairs[p], p, usual);
}

void PathTrials::add(const RailPair& pair, size_t place, const std::map<double, double>& usual) {
  const auto &from = report_.hosts[size_t(pair.from)].nics,
             &to = report_.hosts[size_t(pair.to)].nics;
  for (size_t i = 0; i < from.size(); ++i)
    for (size_t j = 0; j < to.size(); ++j) {
      const RailResult& cell = pair.cells[i * to.size() + j];
      if (cell.end == RailEnd::unlike || (rail_only_ && from[i].name != to[j].name)) continue;
      const auto at = usual.find(std::min(from[i].rate_Gbps, to[j].rate_Gbps));
      add_cell({place, i, j}, cell, at == usual.end() ? 0 : at->second);
    }
}

// Hosts come first in a trial, the lower number before the other: to_measure() relies on it. On one
// host, whose NICs are tried against each other, nothing but these can be at fault. `back`: of what
// goes from the receiver to the sender; `beside`: of what the hosts have besides these NICs.
std::vector<int> PathTrials::parts_of(const RailAt& at, bool back, bool beside) {
  const RailPair& pair = report_.pairs[at.pair];
  const RailsHost &one = report_.hosts[size_t(pair.from)], &other = report_.hosts[size_t(pair.to)];
  const RailsHost &from = back ? other : one, &to = back ? one : other;
  const size_t out = back ? at.to : at.from, in = back ? at.from : at.to;
  std::vector<int> parts;
  if (beside) {
    parts = {std::min(pair.from, pair.to), std::max(pair.from, pair.to)};
    parts.push_back(parts_.add({.kind = SubjectKind::link, .host = one.host, .peer = other.host}));
    return parts;
  }
  if (!report_.one_host) {
    parts = {std::min(pair.from, pair.to), std::max(pair.from, pair.to)};
    parts.push_back(parts_.add({.kind = SubjectKind::host, .host = from.host}, Way::out));
    parts.push_back(parts_.add({.kind = SubjectKind::host, .host = to.host}, Way::in));
  }
  add_nic(parts, from, out, Way::out);
  add_nic(parts, to, in, Way::in);
  const Subject link{.kind = SubjectKind::link,
                     .host = from.host,
                     .device = from.nics[out].name,
                     .peer = to.host,
                     .peer_device = to.nics[in].name};
  parts.push_back(parts_.add(link));
  parts.push_back(parts_.add(link, Way::out));
  // The two NICs of a loop may be one.
  std::sort(parts.begin() + (report_.one_host ? 0 : 2), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

void PathTrials::add_cell(const RailAt& at, const RailResult& cell, double usual) {
  const RailPair& pair = report_.pairs[at.pair];
  const RailsHost &from = report_.hosts[size_t(pair.from)], &to = report_.hosts[size_t(pair.to)];
  const RailsNic &out = from.nics[at.from], &in = to.nics[at.to];
  // The answer goes the other way: where that alone is lost, this way is good.
  const bool back = cell.lost == runtime::RailLost::back;
  if (back) trials_.push_back({.parts = parts_of(at, false)});
  Trial trial{.parts =
                  parts_of(at, back, !report_.one_host && cell.lost == runtime::RailLost::beside)};
  const bool works = cell.end == RailEnd::ok;
  const double part = slow_below(from, to, below_);
  double expected = part * usual;
  if (below_ >= kOfPort && out.rdma && in.rdma)
    expected = std::max(expected, kOfPort * std::min(out.rate_Gbps, in.rate_Gbps) / 8);
  const bool lossy = works && below_ > 0 && cell.resent > most_resent_;
  trial.ratio = !works ? 0 : expected > 0 ? cell.GBps / expected * part : 1;
  trial.bad = !works || cell.GBps < expected || lossy;
  Last& last = last_[at];
  last.pardoned = !trial.bad && cell.GBps < below_ * usual;
  last.large_lost = cell.end == RailEnd::large_lost;
  last.was_bad |= last.bad;
  last.bad = trial.bad;
  last.trial = trials_.size();
  last.text = works ? format("{:.3g} GB/s", cell.GBps) : cell.text;
  if (lossy) last.text += format(", {:.2g} % of its packets sent again", 100 * cell.resent);
  trials_.push_back(std::move(trial));
}

// The NIC of a host that has one is the host: no measurement tells them apart.
void PathTrials::add_nic(std::vector<int>& parts, const RailsHost& host, size_t nic, Way way) {
  if (host.nics.size() < 2 && !report_.one_host) return;
  const Subject at{.kind = SubjectKind::nic, .host = host.host, .device = host.nics[nic].name};
  parts.push_back(parts_.add(at));
  parts.push_back(parts_.add(at, way));
}

// Nobody can say which of two hosts it is, however often they are asked.
std::vector<int> PathTrials::to_measure(int round) const {
  std::vector<int> list;
  if (report_.one_host || (report_.hosts.size() < 3 && round > 0)) return list;
  for (const HostGroup& group : next_round(parts_.all(), trials_, int(report_.hosts.size()), round))
    list.insert(list.end(), group.begin(), group.end());
  return list;
}

size_t PathTrials::came_back() const {
  return size_t(std::ranges::count_if(
      last_, [](const auto& each) { return each.second.was_bad && !each.second.bad; }));
}

bool PathTrials::loses_large(int part) const {
  bool any = false;
  for (const auto& [at, last] : last_) {
    if (!last.bad || std::ranges::count(trials_[last.trial].parts, part) == 0) continue;
    if (!last.large_lost) return false;
    any = true;
  }
  return any;
}

std::string PathTrials::examples(int part) const {
  std::string text;
  int shown = 0, more = 0;
  for (const auto& [at, last] : last_) {
    if (!last.bad || std::ranges::count(trials_[last.trial].parts, part) == 0) continue;
    if (++shown > 2) {
      ++more;
      continue;
    }
    text += format("{}{}: {}", text.empty() ? "" : "; ", rail_text(report_, at), last.text);
  }
  return more > 0 ? format("{}; and {} more", text, more) : text;
}

PathBlame path_blame(const PathTrials& paths, const Blame& found) {
  PathBlame out;
  for (const Blamed& one : found.culprits) {
    const Suspect& part = paths.parts()[one.part];
    Finding& finding = out.findings.emplace_back();
    finding.name = "blame";
    finding.n = uint64_t(one.bad);
    finding.of = uint64_t(one.tried);
    if (!one.named()) {
      finding.fail(ErrorCode::failed,
                   format("one of these is at fault, the measurements cannot say which: {} ({})",
                          names_of(one, paths.parts()), paths.examples(one.part)),
                   "more hosts beside them would tell: give a good one as well");
      continue;
    }
    const std::string what =
        one.median_ratio == 0 ? "does not work"
                              : format("has {:.0f} % of what others have", 100 * one.median_ratio);
    const std::string counts =
        format("{} of {} measurements through it are bad{}", one.bad, one.tried,
               one.intermittent ? ", the others good: it comes and goes" : "");
    const bool is_link = part.at.kind == SubjectKind::link;
    const char* way = is_link || part.way == Way::both ? ""
                      : part.way == Way::out           ? "what it sends: "
                                                       : "what it receives: ";
    const std::string evidence =
        format("{}{}: {} ({})", way, counts, what, paths.examples(one.part));
    finding.at.kind = part.at.kind;
    if (!is_link) finding.at = part.at;
    finding.fail(ErrorCode::failed,
                 format("{} {}: {}", subject_word(part.at.kind), part.name(), evidence),
                 remedy_for(part, paths.loses_large(one.part)));
    if (part.way != Way::both && !is_link)
      finding.reason = part.way == Way::out ? "sends" : "receives";
    out.culprits.push_back({finding.at.kind, part.name(),
                            one.tried == 0 ? 0 : double(one.bad) / one.tried, evidence, false,
                            finding.at.host});
  }
  return out;
}

}  // namespace collctl::cmd
