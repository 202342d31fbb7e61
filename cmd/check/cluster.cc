// The suite of all hosts together: collectives over those that are still fit.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/check/cluster.h"
#include "cmd/check/node.h"
#include "cmd/job/device_choice.h"
#include "cmd/judge/bench.h"
#include "cmd/judge/blame.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/uneven.h"

namespace collctl::cmd {
namespace {

class Collected : public BenchSink {
 public:
  Collected(const CheckRun& run, std::string what) : run_(run), what_(std::move(what)) {}
  void on(BenchRecord record) override {
    if (auto* header = std::get_if<BenchHeader>(&record)) report.header = std::move(*header);
    if (auto* row = std::get_if<BenchRow>(&record)) report.rows.push_back(std::move(*row));
    if (auto* closing = std::get_if<BenchClosing>(&record)) report.closing = std::move(*closing);
    if (auto* fault = std::get_if<DataFault>(&record)) report.faults.push_back(std::move(*fault));
  }
  void progress(const std::string& text) override { run_.progress(what_ + ", " + text); }
  void phase(int, const std::string&) override {}
  BenchReport report;

 private:
  const CheckRun& run_;
  std::string what_;
};

// Hosts between which every link works: whoever has most broken ones is left out, until none is
// left.
std::vector<Host> connected(const CheckRun& run, std::vector<Host> hosts) {
  for (;;) {
    std::map<Host, int> broken;
    for (const auto& [a, b] : run.broken) {
      const auto in = [&](const Host& host) {
        return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
      };
      if (!in(a) || !in(b)) continue;
      ++broken[a];
      ++broken[b];
    }
    const auto worst =
        std::max_element(broken.begin(), broken.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (worst == broken.end()) return hosts;
    std::erase(hosts, worst->first);
  }
}

// Wrong data as trials of hosts and links: what may have gone wrong on one of several hops is bad;
// what an all-to-all moved elsewhere meanwhile was right.
class WrongData {
 public:
  WrongData(const char* suite, const std::vector<Host>& hosts) : suite_(suite) {
    for (const Host& host : hosts) parts_.add({.kind = SubjectKind::host, .host = host});
  }
  void add(const BenchReport& report) {
    if (!report.header || report.faults.empty()) return;
    std::vector<Host> host_of(size_t(report.header->ranks));
    for (const HostLine& host : report.header->hosts)
      for (const int rank : host.ranks) host_of.at(size_t(rank)) = host.host;
    // All faults of a row have the same hops; in an all-to-all, even or not, a row has one fault,
    // with its own hops, for each rank where data arrived wrong.
    const BenchOp& op = report.spec.collective;
    const bool each = like(op) == kernels::Collective::all_to_all;
    const auto has_sent = [&](int from, int to) {
      return !is_uneven(op) ||
             uneven_share(from, report.header->ranks, op.pattern)->to[size_t(to)] > 0;
    };
    std::vector<std::vector<DataFault::Hop>> seen;
    size_t rows = 0;
    for (const DataFault& fault : report.faults) {
      if (fault.hops.empty()) continue;
      const auto times = size_t(std::count(seen.begin(), seen.end(), fault.hops));
      if (times > 0 && !each) continue;
      seen.push_back(fault.hops);
      rows = std::max(rows, times + 1);
      Trial trial{.parts = {}, .bad = true, .ratio = 0};
      for (const DataFault::Hop& hop : fault.hops) add_parts(trial, host_of, hop);
      trials_.push_back(std::move(trial));
    }
    if (!each) return;
    for (int from = 0; from < report.header->ranks; ++from)
      for (int to = 0; to < report.header->ranks; ++to) {
        const DataFault::Hop hop{from, to};
        const bool wrong = std::any_of(seen.begin(), seen.end(), [&](const auto& hops) {
          return std::find(hops.begin(), hops.end(), hop) != hops.end();
        });
        if (wrong || host_of[size_t(from)] == host_of[size_t(to)] || !has_sent(from, to)) continue;
        Trial good;
        add_parts(good, host_of, hop);
        trials_.insert(trials_.end(), rows, good);
      }
  }
  void conclude(CheckRun& run) const {
    for (const Blamed& one : blame(parts_.all(), trials_).culprits) {
      Finding finding{.name = format("{}/blame", suite_)};
      if (one.named()) {
        const Suspect& part = parts_[one.part];
        const Subject& at = part.at;
        finding.at.kind = at.kind;
        if (at.kind == SubjectKind::host) finding.at.host = at.host;
        const std::string evidence =
            format("data that goes through it arrives wrong: {} of {} ways", one.bad, one.tried);
        finding.fail(ErrorCode::bad_data,
                     format("{} {}: {}", subject_word(at.kind), part.name(), evidence),
                     "test memory and NICs of the hosts at its ends (memtester, ethtool -S)");
        if (at.kind == SubjectKind::host) run.out.try_emplace(at.host, suite_);
        run.culprits.push_back({at.kind, part.name(),
                                one.tried == 0 ? 0 : double(one.bad) / one.tried, evidence, false,
                                finding.at.host});
      } else {
        finding.at.kind = SubjectKind::job;
        finding.fail(ErrorCode::bad_data,
                     "data arrives wrong because of one of these, which cannot be told apart: " +
                         names_of(one, parts_));
      }
      run.findings.push_back(std::move(finding));
    }
  }

 private:
  void add_parts(Trial& trial, const std::vector<Host>& host_of, const DataFault::Hop& hop) {
    if (hop.from < 0 || hop.to < 0 || size_t(std::max(hop.from, hop.to)) >= host_of.size()) return;
    const Host &a = host_of[size_t(hop.from)], &b = host_of[size_t(hop.to)];
    std::vector<int> some = {parts_.add({.kind = SubjectKind::host, .host = a}),
                             parts_.add({.kind = SubjectKind::host, .host = b})};
    if (a != b) some.push_back(parts_.add({.kind = SubjectKind::link, .host = a, .peer = b}));
    for (const int each : some)
      if (std::find(trial.parts.begin(), trial.parts.end(), each) == trial.parts.end())
        trial.parts.push_back(each);
  }

  const char* const suite_;
  Suspects parts_;
  std::vector<Trial> trials_;
};

// One collective over all hosts. A result that is too slow is measured again, longer, before it
// counts.
class Measured {
 public:
  Measured(CheckRun& run, const char* suite, const std::vector<Host>& hosts, BenchSpec spec,
           const std::function<MeasureOn>& measure)
      : run_(run),
        hosts_(hosts),
        measure_(measure),
        name_(name_of(spec.collective)),
        spec_(std::move(spec)),
        all_{.name = format("{}/{}", suite, name_)} {
    spec_.device_request = interpret_device(run.line);
    spec_.op_timeout_s = run.launch.op_timeout_s;
    if (run.line.has("net")) spec_.net = run.line.text("net");
    spec_.integrity = run.line.has("integrity");
  }

  Status judge(WrongData& wrong) {
    BenchReport report;
    COLL_ASSIGN(std::optional<Error> error, measure_(run_, hosts_, spec_, name_, report));
    std::vector<Finding> found = findings_of(report, run_.options.limits);
    if (!error && std::any_of(found.begin(), found.end(), says_too_slow)) {
      spec_.iterations *= kLonger;
      BenchReport longer;
      COLL_ASSIGN(const auto failed, measure_(run_, hosts_, spec_, name_ + " again", longer));
      if (failed) {
        for (Finding& finding : found)
          if (says_too_slow(finding))
            finding.leave_out(
                format("{}; it could not be measured again: {}", finding.message, failed->chain()),
                failed->hint);
      } else {
        const size_t before = size_t(std::count_if(found.begin(), found.end(), says_too_slow));
        report = std::move(longer);
        found = findings_of(report, run_.options.limits);
        if (std::none_of(found.begin(), found.end(), says_too_slow)) {
          all_.status = FindingStatus::warn;
          all_.message = format(
              "{} of its timings were too slow, and none when they were measured "
              "again",
              before);
        }
      }
    }
    BusyHosts busy;
    if (report.closing)
      for (const BusyHost& host : report.closing->busy)
        if (!host.own_limit) busy[host.host] = host.why;
    if (!busy.empty()) leave_out_spoilt(found);
    const bool misses = std::any_of(found.begin(), found.end(), says_too_slow);
    wrong.add(report);
    conclude(std::move(report), std::move(found), error, busy);
    slow_ = !error && (misses || far_below_);
    run_.busy.merge(busy);
    return {};
  }
  // Too slow for a limit, or far below what the model expects, and work of others is no excuse: the
  // last of run.measured.
  bool slow() const { return slow_; }

 private:
  static constexpr int kLonger = 4;

  void conclude(BenchReport report, std::vector<Finding> found, const std::optional<Error>& error,
                const BusyHosts& busy) {
    if (error && error->cause == base::Cause::unlike) {
      all_.leave_out(error->chain(), error->hint);
    } else if (error) {
      if (!error->host.empty()) {
        all_.at.kind = SubjectKind::host;
        all_.at.host = error->where();
      }
      all_.fail(error->code, error->chain(), error->hint);
    }
    for (Finding& finding : found) {
      if (finding.code == ErrorCode{}) continue;
      finding.name = all_.name + "/" + finding.name;
      run_.findings.push_back(std::move(finding));
    }
    // A job that ended by an error has said so; one without rows and error has done nothing.
    if (error || !report.rows.empty())
      for (const Host& host : hosts_) run_.tally.did(host, name_);
    if (!report.rows.empty()) {
      const BenchRow& last = report.rows.back();
      say_speed(last, all_);
      if (const RowExpected* const standard = last.standard(); standard != nullptr) {
        all_.expected = format("{:.4g}", last.bytes > 0 ? standard->busbw_GBps : standard->time_us);
        all_.basis +=
            format("; expected by the {}, limited by {}", standard->source, standard->limited_by);
      }
    }
    if (!error && !report.rows.empty()) say_if_far_below(report.rows.back(), busy);
    if (report.closing && !report.closing->busy.empty()) {
      const BusyHost& first = report.closing->busy.front();
      if (all_.status == FindingStatus::pass) all_.status = FindingStatus::warn;
      if (all_.status == FindingStatus::warn && !first.own_limit && !far_below_)
        all_.reason = kBusyHost;
      all_.message += format("{}{} {}: {}", all_.message.empty() ? "" : "; ", first.host,
                             first.own_limit ? "was held back"
                             : far_below_    ? "was busy, which is no excuse for so little"
                                             : "was busy, so its time says little",
                             first.why);
    }
    run_.findings.push_back(std::move(all_));
    if (!error) run_.measured.push_back(std::move(report));
  }

  // No fault by itself: the model knows the ports' rates, and not what is between them. Where a
  // host was busy the figure is spoilt, unless it is so low that this is no excuse.
  void say_if_far_below(const BenchRow& row, const BusyHosts& busy) {
    const std::string said = far_below(row);
    if (said.empty()) return;
    if (!busy.empty() && is_excusable(share_of(row), 1)) {
      if (all_.status == FindingStatus::pass || all_.status == FindingStatus::warn)
        spoil(all_, said);
      return;
    }
    far_below_ = true;
    if (all_.status != FindingStatus::pass) return;
    all_.status = FindingStatus::warn;
    all_.message = said;
  }

  CheckRun& run_;
  const std::vector<Host>& hosts_;
  const std::function<MeasureOn>& measure_;
  const std::string name_;
  BenchSpec spec_;
  Finding all_;
  bool far_below_ = false, slow_ = false;
};

}  // namespace

Result<std::vector<Host>> partners_of(CheckRun& run, const char* suite) {
  const std::vector<Host> fit = run.fit();
  std::vector<Host> hosts = connected(run, fit);
  for (const Host& host : fit) {
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) continue;
    Finding finding{.name = format("{}/hosts", suite)};
    finding.at.kind = SubjectKind::host;
    finding.at.host = host;
    finding.leave_out(format("{} took no part: a link of it is broken", host));
    run.findings.push_back(std::move(finding));
  }
  if (hosts.size() < 2)
    return Error(ErrorCode::incomplete, "fewer than two hosts are left that reach each other");
  return hosts;
}

Result<std::optional<BenchReport>> measure_all(CheckRun& run, const char* suite,
                                               const std::vector<Host>& hosts,
                                               const std::vector<BenchSpec>& specs,
                                               const std::function<MeasureOn>& measure) {
  WrongData wrong(suite, hosts);
  for (const Host& host : hosts) run.tally.plan(host, specs.size(), "collectives");
  std::optional<BenchReport> slowest;
  for (const BenchSpec& spec : specs) {
    Measured measured(run, suite, hosts, spec, measure);
    COLL_TRY(measured.judge(wrong));
    if (measured.slow() &&
        (!slowest || share_of(run.measured.back().rows.back()) < share_of(slowest->rows.back())))
      slowest = run.measured.back();
  }
  wrong.conclude(run);
  return slowest;
}

Result<std::optional<Error>> measure_on(CheckRun& run, const std::vector<Host>& hosts,
                                        const BenchSpec& spec, const std::string& what,
                                        BenchReport& report) {
  LaunchOptions launch = run.launch_of(hosts);
  if (spec.split) launch.map_by = launcher::MapBy::slot;  // its ranks count host by host
  // On hosts with GPUs a rank for each.
  const auto task =
      settle_line(run.line, launch, [&](int) -> Result<TaskSpec> { return task_of(spec); });
  if (!task) return std::optional<Error>(task.error());
  Collected sink(run, what);
  const JobOutcome outcome = run_task_job(launch, *task, sink);
  if (outcome.error && outcome.error->code == ErrorCode::interrupted) {
    run.interrupted = outcome.error;
    return *outcome.error;
  }
  report = std::move(sink.report);
  report.spec = spec;
  report.hosts = outcome.hosts;
  return outcome.error;
}

Status check_cluster(CheckRun& run) {
  std::vector<BenchSpec> specs;
  for (const kernels::Collective collective : check_collectives(run.options.level))
    specs.push_back(cluster_spec(run.options, collective));
  COLL_ASSIGN(const std::vector<Host> hosts, partners_of(run, "cluster"));
  COLL_ASSIGN(const auto slowest, measure_all(run, "cluster", hosts, specs));
  return slowest ? find_slow_hosts(run, hosts, *slowest) : Status();
}

}  // namespace collctl::cmd
