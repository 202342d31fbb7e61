// The suite of the network: `rails` between all fit hosts, then again among those whose paths are
// bad and some good ones, for longer, until cmd/judge/blame can say who it is.
#include <algorithm>

#include "base/format.h"
#include "base/peer_closed.h"
#include "cmd/check/check.h"
#include "cmd/check/path_trials.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

constexpr int kMostRounds = 6;  // of measuring again
constexpr double kConnectSeconds = 10;
constexpr double kSeconds = 0.02;      // of streaming on a path
constexpr double kAgainSeconds = 0.1;  // of streaming on a path that is measured again; 0.02 flips

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

// What ranks said they could not connect to.
std::vector<BrokenLink> broken_links(const JobOutcome& outcome) {
  std::vector<BrokenLink> list;
  for (const RankEnd& end : outcome.ranks) {
    // Others say the same after it.
    if (!end.error || !base::says_broken_way(*end.error) || end.error->from != end.rank) continue;
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
  Measuring(CheckRun& run, PathTrials& network) : run_(run), network_(network) {}
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
      for (const BrokenLink& link : broken) COLL_TRY(network_.add_unconnected(link));
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
    return network_.add(report, found, run_.options.below);
  }

  CheckRun& run_;
  PathTrials& network_;
  std::map<double, double> medians_;
  double median_GBps_ = 0;
};

const char* remedy_for(const Suspect& part) {
  if (part.kind != SubjectKind::link && part.way == Way::out)
    return "look at its transmit side, as what it receives is good: ethtool -S (tx errors, "
           "pauses), "
           "tc qdisc, cable, the receiving side of its switch port";
  if (part.kind != SubjectKind::link && part.way == Way::in)
    return "look at its receive side, as what it sends is good: ethtool -S (rx errors, drops), "
           "firewall, cable, the sending side of its switch port";
  switch (part.kind) {
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

void report_blame(CheckRun& run, const PathTrials& network, const Blame& found) {
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
                          names_of(one, network.parts()), network.examples(part)),
                   "more hosts beside them would tell: collctl check with a good host more");
      run.findings.push_back(std::move(finding));
      continue;
    }
    const char* way = part.kind == SubjectKind::link || part.way == Way::both ? ""
                      : part.way == Way::out                                  ? "what it sends: "
                                             : "what it receives: ";
    const std::string evidence = format("{}{}: {} ({})", way, counts, what, network.examples(part));
    finding.at.kind = part.kind;
    finding.at.host =
        part.kind == SubjectKind::link ? "" : part.name.substr(0, part.name.find(' '));
    if (part.kind == SubjectKind::nic)
      finding.at.device = part.name.substr(part.name.find(' ') + 1);
    finding.fail(ErrorCode::failed,
                 format("{} {}: {}", subject_word(part.kind), part.name, evidence),
                 remedy_for(part));
    if (part.way != Way::both) finding.reason = part.way == Way::out ? "sends" : "receives";
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
  PathTrials network(hosts, run.tally);
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
