// The suite of the network: `rails` between all fit hosts, then again among those whose paths are
// bad and some good ones, for longer, until cmd/judge/blame can say who it is.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/peer_closed.h"
#include "cmd/check/check.h"
#include "cmd/judge/blame.h"
#include "cmd/measure/timing.h"
#include "cmd/rails/rails.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

constexpr int kMostRounds = 6;  // of measuring again
constexpr double kConnectSeconds = 10;
constexpr int kSparseFrom = 64;        // hosts: fewer measure every pair, these some of each host
constexpr double kSeconds = 0.02;      // of streaming on a path
constexpr double kAgainSeconds = 0.1;  // of streaming on a path that is measured again; 0.02 flips
// Of the packets of a path that had to be sent again, and as many times as on the usual path: more
// is bad whatever the speed. Bursts that fill a switch's queue stay below.
constexpr double kResent = 0.05, kResentOfUsual = 4;
constexpr double kOfPort = 0.5;  // of an RDMA port's rate: less is bad whatever the others have

class RailsRecord : public TaskSink {
 public:
  RailsRecord(const CheckRun& run, std::string what) : run_(run), what_(std::move(what)) {}
  Status record(const std::string& json) override {
    text = json;
    return {};
  }
  void progress(const std::string& what) override { run_.progress(what_ + ", " + what); }
  void phase(int, const std::string&) override {}
  std::string text;

 private:
  const CheckRun& run_;
  std::string what_;
};

struct BrokenLink {
  std::string from, to;  // hosts
  std::string text;
};

// The parts of the network and what was measured of them.
class Network {
 public:
  explicit Network(const std::vector<std::string>& hosts) : hosts_(hosts) {
    for (const std::string& host : hosts) parts_.add(SubjectKind::host, host);
  }

  // Every path of a report as a trial; the last report's words are those that are told.
  void add(const RailsReport& report, const RailsFindings& found, double below) {
    std::vector<double> resents;
    for (const RailPair& pair : report.pairs)
      for (const RailResult& cell : pair.cells)
        if (cell.end == RailEnd::ok && cell.resent >= 0) resents.push_back(cell.resent);
    // Few suspects among themselves have no usual value: the first job's, of most hosts, holds.
    if (usual_resent_ < 0 && !resents.empty()) usual_resent_ = median(resents);
    const double most_resent = std::max(kResent, kResentOfUsual * usual_resent_);
    for (size_t p = 0; p < report.pairs.size(); ++p) {
      const RailsHost& from = report.hosts[size_t(report.pairs[p].from)];
      const RailsHost& to = report.hosts[size_t(report.pairs[p].to)];
      if (!parts_.contains(from.host) || !parts_.contains(to.host)) continue;
      for (size_t i = 0; i < from.nics.size(); ++i)
        for (size_t j = 0; j < to.nics.size(); ++j) {
          const RailResult& cell = report.pairs[p].cells[i * to.nics.size() + j];
          if (cell.end == RailEnd::unlike) continue;
          if (found.rail_only && from.nics[i].name != to.nics[j].name) continue;
          Trial trial;
          const int a = parts_.number(from.host), b = parts_.number(to.host);
          trial.parts = {std::min(a, b), std::max(a, b)};
          // The NIC of a host that has one is the host: no measurement tells them apart.
          if (from.nics.size() > 1)
            trial.parts.push_back(
                parts_.add(SubjectKind::nic, from.host + " " + from.nics[i].name));
          if (to.nics.size() > 1)
            trial.parts.push_back(parts_.add(SubjectKind::nic, to.host + " " + to.nics[j].name));
          trial.parts.push_back(parts_.add_link(end_name(from.host, from.nics[i].name),
                                                end_name(to.host, to.nics[j].name)));
          const double rate = std::min(from.nics[i].rate_Gbps, to.nics[j].rate_Gbps);
          const auto usual = found.medians.find(rate);
          const double part = slow_below(from, to, below);
          const double median = usual == found.medians.end() ? 0 : usual->second;
          double expected = part * median;
          if (from.nics[i].rdma && to.nics[j].rdma)
            expected = std::max(expected, kOfPort * rate / 8);
          trial.ratio = cell.end != RailEnd::ok ? 0
                        : expected > 0          ? cell.GBps / expected * part
                                                : 1;
          const bool lossy = cell.end == RailEnd::ok && cell.resent > most_resent;
          trial.bad = cell.end != RailEnd::ok || cell.GBps < expected || lossy;
          if (!trial.bad && cell.GBps < below * median) {
            ++pardoned_;
            busy_ = from.busy.empty() ? format("{}: {}", to.host, to.busy)
                                      : format("{}: {}", from.host, from.busy);
          }
          trials_.push_back(std::move(trial));
          Last& last = last_[{from.host, from.nics[i].name, to.host, to.nics[j].name}];
          last = {trials_.back().bad,
                  cell.end != RailEnd::ok ? cell.text : format("{:.3g} GB/s", cell.GBps)};
          if (lossy) last.text += format(", {:.2g} % of its packets sent again", 100 * cell.resent);
        }
    }
  }

  // Two hosts of which one could not even connect to the other when the ranks found each other: no
  // byte passed either way.
  void add_unconnected(const BrokenLink& link) {
    if (!parts_.contains(link.from) || !parts_.contains(link.to)) return;
    const int a = parts_.number(link.from), b = parts_.number(link.to);
    const int between = parts_.add_link(link.from, link.to);
    for (int way = 0; way < 2; ++way)
      trials_.push_back(
          {.parts = {std::min(a, b), std::max(a, b), between}, .bad = true, .ratio = 0});
    last_[{link.from, "", link.to, ""}] = {true, link.text};
  }

  Blame blamed() const { return blame(parts_.all(), trials_); }
  std::vector<std::string> to_measure(int round) const {
    std::vector<std::string> list;
    for (const HostGroup& group : next_round(parts_.all(), trials_, int(hosts_.size()), round))
      for (const int host : group) list.push_back(hosts_[size_t(host)]);
    return list;
  }
  const Suspects& parts() const { return parts_; }
  const std::vector<Trial>& trials() const { return trials_; }
  // Paths that were slow, but not very, while an end was busy; and one such end with why.
  size_t pardoned() const { return pardoned_; }
  const std::string& busy() const { return busy_; }
  // The two hosts of a trial.
  std::pair<std::string, std::string> ends(const Trial& trial) const {
    return {hosts_[size_t(trial.parts[0])], hosts_[size_t(trial.parts[1])]};
  }
  // "node03 eth0 -> node02 eth0: connection timed out" of what was bad last, at most a few.
  std::string examples(const std::string& part) const {
    std::string text;
    int shown = 0, more = 0;
    for (const auto& [path, last] : last_) {
      const auto& [from, from_nic, to, to_nic] = path;
      const bool of = part == from || part == to || part == from + " " + from_nic ||
                      part == to + " " + to_nic ||
                      part == Suspects::link_name(end_name(from, from_nic), end_name(to, to_nic));
      if (!last.bad || !of) continue;
      if (++shown > 2) {
        ++more;
        continue;
      }
      text += format("{}{} -> {}: {}", text.empty() ? "" : "; ", end_name(from, from_nic),
                     end_name(to, to_nic), last.text);
    }
    return more > 0 ? format("{}; and {} more", text, more) : text;
  }

 private:
  struct Last {
    bool bad = false;
    std::string text;
  };
  static std::string end_name(const std::string& host, const std::string& nic) {
    return nic.empty() ? host : host + " " + nic;
  }

  std::vector<std::string> hosts_;
  Suspects parts_;
  std::vector<Trial> trials_;
  double usual_resent_ = -1;
  size_t pardoned_ = 0;
  std::string busy_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Last> last_;
};

// What ranks said they could not connect to.
std::vector<BrokenLink> broken_links(const JobOutcome& outcome) {
  std::vector<BrokenLink> list;
  for (const RankEnd& end : outcome.ranks) {
    // Others say the same after it.
    if (!end.error || !base::says_broken_way(*end.error) ||
        !end.error->message.starts_with(format("rank {} ", end.rank)))
      continue;
    for (const RankEnd& to : outcome.ranks)
      if (to.rank == end.error->rank && to.host != end.host)
        list.push_back({end.host, to.host, end.error->message});
  }
  return list;
}

// Measures the paths between hosts. Where two of them cannot connect at all the job as a whole does
// not start: then it is done once without the one and once without the other, so that only the path
// between these two stays without a measurement.
class Measuring {
 public:
  Measuring(CheckRun& run, Network& network) : run_(run), network_(network) {}
  Status all(const std::vector<std::string>& hosts, double seconds, const std::string& what) {
    std::vector<std::vector<std::string>> todo = {hosts};
    for (int jobs = 0; !todo.empty(); ++jobs) {
      if (jobs == kMostJobs)
        return Error(ErrorCode::incomplete,
                     format("too many links cannot be connected: {} jobs did not start", jobs),
                     "collctl doctor -H tries the hosts' addresses one by one");
      const std::vector<std::string> some = std::move(todo.back());
      todo.pop_back();
      if (some.size() < 2) continue;
      std::vector<BrokenLink> broken;
      COLL_TRY(job(some, seconds, what, broken));
      if (broken.empty()) continue;
      for (const BrokenLink& link : broken) network_.add_unconnected(link);
      // Sure is what fails twice.
      const BrokenLink& first = broken.front();
      if (some.size() > 2) {
        todo.push_back({first.from, first.to});
        for (const std::string& end : {first.from, first.to}) {
          todo.push_back(some);
          std::erase(todo.back(), end);
        }
      }
    }
    return {};
  }
  double median_GBps() const { return median_GBps_; }

 private:
  static constexpr int kMostJobs = 24;

  Status job(const std::vector<std::string>& hosts, double seconds, const std::string& what,
             std::vector<BrokenLink>& broken) {
    RailsSpec spec;
    spec.seconds = seconds;
    spec.sparse_from = kSparseFrom;
    if (run_.line.has("net")) spec.net = run_.line.text("net");
    TaskSpec task{.task = &kRailsTask, .settings = {}, .options = spec.to_json()};
    task.settings.device_request = DeviceRequest::cpu;
    LaunchOptions launch = run_.launch_of(hosts);
    launch.per_host = 1;
    // A link that is broken costs this much: not the minute that a large job may take. Of the
    // ranks only, as hosts on which much is running may need longer to come up.
    task.settings.start_timeout_s =
        std::min(launch.start_timeout_s, kConnectSeconds + 0.02 * double(hosts.size()));
    RailsRecord sink(run_, what);
    const JobOutcome outcome = run_task_job(launch, task, sink);
    if (outcome.error) {
      broken = broken_links(outcome);
      if (broken.empty()) return *outcome.error;
      return {};
    }
    if (sink.text.empty()) return Error(ErrorCode::defect, "no rank reported anything");
    COLL_ASSIGN(const RailsReport report, read_rails(sink.text));
    RailsFindings found = judge_rails(report, run_.options.below);
    // Few suspects among themselves have no usual value: that of the first job, of most hosts,
    // holds.
    if (medians_.empty()) {
      medians_ = found.medians;
      median_GBps_ = found.median_GBps;
    }
    found.medians = medians_;
    add_paths(run_.paths, rails_paths(report, found));
    network_.add(report, found, run_.options.below);
    return {};
  }

  CheckRun& run_;
  Network& network_;
  std::map<double, double> medians_;
  double median_GBps_ = 0;
};

const char* remedy_for(SubjectKind kind) {
  switch (kind) {
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

void report_blame(CheckRun& run, const Network& network, const Blame& found) {
  for (const Blamed& one : found.culprits) {
    const Suspect& part = network.parts()[one.part];
    Finding finding{.name = "pairs/blame"};
    finding.n = uint64_t(one.bad);
    finding.of = uint64_t(one.tried);
    const std::string what =
        one.median_ratio == 0 ? "does not work"
                              : format("has {:.0f} % of what others have", 100 * one.median_ratio);
    const std::string counts =
        format("{} of {} measurements through it are bad{}", one.bad, one.tried,
               one.intermittent ? ", the others good: it comes and goes" : "");
    if (!one.named()) {
      finding.at.kind = SubjectKind::job;
      finding.fail(ErrorCode::failed,
                   format("one of these is at fault, the measurements cannot say which: {} ({})",
                          names_of(one, network.parts()), network.examples(part.name)),
                   "more hosts beside them would tell: collctl check with a good host more");
      run.findings.push_back(std::move(finding));
      continue;
    }
    const std::string evidence = format("{}: {} ({})", counts, what, network.examples(part.name));
    finding.at.kind = part.kind;
    finding.at.host =
        part.kind == SubjectKind::link ? "" : part.name.substr(0, part.name.find(' '));
    if (part.kind == SubjectKind::nic)
      finding.at.device = part.name.substr(part.name.find(' ') + 1);
    finding.fail(ErrorCode::failed,
                 format("{} {}: {}", subject_word(part.kind), part.name, evidence),
                 remedy_for(part.kind));
    run.culprits.push_back({finding.at.kind, part.name,
                            one.tried == 0 ? 0 : double(one.bad) / one.tried, evidence, false});
    if (part.kind == SubjectKind::host || part.kind == SubjectKind::nic)
      run.out.try_emplace(finding.at.host, "pairs");
    run.findings.push_back(std::move(finding));
  }
}

}  // namespace

Status check_pairs(CheckRun& run) {
  const std::vector<std::string> hosts = run.fit();
  Network network(hosts);
  Measuring measuring(run, network);
  COLL_TRY(measuring.all(hosts, run.options.level == CheckLevel::full ? kAgainSeconds : kSeconds,
                         "all pairs"));
  // Of two hosts nobody can say which it is, however often they are asked.
  const int most = hosts.size() > 2 ? kMostRounds : 1;
  for (int round = 0; round < most; ++round) {
    const std::vector<std::string> again = network.to_measure(round);
    if (again.size() < 2) break;
    const Status measured =
        measuring.all(again, kAgainSeconds, format("{} hosts once more", again.size()));
    if (measured.ok()) continue;
    if (measured.error().code == ErrorCode::interrupted) return measured.error();
    Finding untested{.name = "pairs/again"};
    untested.leave_out(format("{} of {} hosts could not be measured again: {}", again.size(),
                              hosts.size(), measured.error().chain()),
                       measured.error().hint);
    run.findings.push_back(std::move(untested));
    break;
  }
  const Blame found = network.blamed();
  report_blame(run, network, found);
  std::set<int> explained_by;
  for (const Blamed& one : found.culprits) explained_by.insert(one.part);
  size_t bad = 0;
  for (const Trial& trial : network.trials()) {
    if (!trial.bad) continue;
    ++bad;
    if (std::any_of(trial.parts.begin(), trial.parts.end(),
                    [&](int part) { return explained_by.contains(part); }))
      run.broken.insert(network.ends(trial));
  }
  for (const auto& [a, b] : run.broken) {
    add_broken_path(run.paths, a, b);
    add_broken_path(run.paths, b, a);
  }
  Finding all{.name = "pairs/paths"};
  all.n = network.trials().size() - bad;
  all.of = network.trials().size();
  all.measured = format("{:.4g}", measuring.median_GBps());
  all.unit = "GB/s";
  all.basis = "median of all paths";
  if (int(hosts.size()) >= kSparseFrom)
    all.cell = format("{} {}, every host with some others", all.measured, all.unit);
  if (!found.unexplained.empty()) {
    all.status = FindingStatus::warn;
    all.message = format("{} were bad once and good when they were measured again",
                         counted(found.unexplained.size(), "path"));
  }
  run.findings.push_back(std::move(all));
  if (network.pardoned() > 0) {
    Finding busy{.name = "pairs/busy", .status = FindingStatus::warn};
    busy.message = format("slow while an end was busy, which says little: {} ({})",
                          counted(network.pardoned(), "path"), network.busy());
    busy.remedy = "measure again when the hosts are idle: collctl check --only pairs";
    run.findings.push_back(std::move(busy));
  }
  return {};
}

}  // namespace collctl::cmd
