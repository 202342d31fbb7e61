// The suite of the installed NCCL. Facts come from a rank on each host; then each collective runs
// twice over all of them, by NCCL and by ours in one job: once watched (every element of NCCL's
// result, its log, its RAS) and once timed, as the log would cost time.
#include "cmd/check/nccl.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "cmd/check/cluster.h"
#include "cmd/check/node.h"
#include "cmd/job/device_choice.h"
#include "cmd/measure/versus.h"

namespace collctl::cmd {
namespace {

constexpr int kAgainLonger = 4;
constexpr const char* kVariant = "default";
constexpr double kFactsSeconds = 60;

// The collectives that NCCL has as calls of its own.
std::vector<BenchSpec> nccl_specs(const CheckRun& run) {
  using kernels::Collective;
  std::vector<BenchSpec> specs;
  for (const Collective collective : check_collectives(run.options.level)) {
    if (collective == Collective::gather || collective == Collective::scatter ||
        !versus_serves(kVariant, collective))
      continue;
    BenchSpec& spec = specs.emplace_back(cluster_spec(run.options, collective));
    spec.versus = {kVariant};
    spec.versus_as_is = true;
    spec.device_request = interpret_device(run.line);
    spec.op_timeout_s = run.launch.op_timeout_s;
    if (run.line.has("net")) spec.net = run.line.text("net");
  }
  return specs;
}

Result<std::vector<NcclHost>> ask_facts(CheckRun& run) {
  std::vector<NodeJob> jobs;
  for (const Host& host : run.fit()) {
    run.tally.plan(host, 1, "measurements");
    jobs.push_back({.host = host,
                    .kind = NodeJobKind::nccl,
                    .name = "nccl-facts",
                    .words = {"nccl-facts"},
                    .limit_s = kFactsSeconds});
  }
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  std::vector<NcclHost> hosts;
  for (const NodeJob& job : jobs) {
    auto facts = job.error ? Result<NcclFacts>(*job.error) : read_nccl_facts(job.output);
    if (facts) {
      run.tally.did(job.host, "facts");
      hosts.push_back({job.host, std::move(*facts)});
      continue;
    }
    const Error error = job.error ? *job.error : no_report(job);
    Finding finding = host_finding("nccl/facts", job.host);
    const std::string message = format("{}: nccl-facts: {}", job.host, error.chain());
    if (error.code == ErrorCode::launch) {
      finding.fail(error.code, message, error.hint);
      run.out.try_emplace(job.host, "nccl");
    } else {
      finding.leave_out(message, error.hint);
    }
    run.findings.push_back(std::move(finding));
  }
  return hosts;
}

// Hosts on which NCCL can work. Error incomplete: there is nothing to test, and why.
Result<std::vector<Host>> hosts_of_nccl(CheckRun& run, const std::vector<NcclHost>& facts) {
  std::set<Host> able;
  int gpus = 0;
  std::string without;  // a library, in its loader's words
  for (const NcclHost& host : facts) {
    if (host.facts.gpus == 0) continue;
    if (host.facts.library.path.empty() || !host.facts.library.missing.empty()) {
      if (without.empty()) without = format("{}: {}", host.host, host.facts.library.missing);
      continue;
    }
    able.insert(host.host);
    gpus += host.facts.gpus;
  }
  const bool any_gpu =
      std::ranges::any_of(facts, [](const NcclHost& host) { return host.facts.gpus > 0; });
  if (!any_gpu)
    return Error(ErrorCode::incomplete, facts.size() == 1
                                            ? format("{} has no NVIDIA GPU", facts[0].host)
                                            : std::string("no host has an NVIDIA GPU"));
  if (able.empty())
    return Error(ErrorCode::incomplete, without,
                 "install NCCL, or name its folder in LD_LIBRARY_PATH (-x LD_LIBRARY_PATH takes "
                 "yours to the hosts)");
  if (gpus < 2)
    return Error(ErrorCode::incomplete, "there is one GPU, and nothing that NCCL could join it to");
  std::vector<Host> hosts;
  if (run.fit().size() > 1) {
    COLL_ASSIGN(hosts, partners_of(run, "nccl"));
  } else {
    hosts = run.fit();
  }
  std::erase_if(hosts, [&](const Host& host) { return !able.contains(host); });
  if (hosts.empty()) return Error(ErrorCode::incomplete, "no host is left that has GPUs and NCCL");
  for (const NcclHost& host : facts) {
    if (host.facts.gpus > 0) continue;
    Finding finding{.name = "nccl/none", .at = {.kind = SubjectKind::host, .host = host.host}};
    finding.reason = kNothingThere;
    finding.message = format("{}: no NVIDIA GPU", host.host);
    run.findings.push_back(std::move(finding));
  }
  return hosts;
}

// One collective, by both.
class Beside {
 public:
  Beside(CheckRun& run, const std::vector<Host>& hosts, BenchSpec spec, const NcclMeasure& measure)
      : run_(run),
        hosts_(hosts),
        spec_(std::move(spec)),
        name_(name_of(spec_.collective)),
        measure_(measure) {}

  // False: NCCL has failed, and the next collective would likewise.
  Result<bool> judge(NcclReport& all) {
    BenchReport watched, timed;
    COLL_ASSIGN(std::optional<Error> error, measure_(run_, hosts_, watching(), name_, watched));
    if (!error) {
      spec_.check = false;
      COLL_ASSIGN(error, measure_(run_, hosts_, spec_, name_ + ", timed", timed));
    }
    if (error) {
      add_error(*error);
      return false;
    }
    std::vector<NcclRow> rows = nccl_rows(timed);
    COLL_TRY(again(rows, timed));
    add_watched(watched, rows);
    take_busy(timed);
    std::vector<Finding> found = nccl_speed_findings(rows, run_.options.below);
    spoil_busy(found);
    for (Finding& finding : nccl_data_findings(watched)) found.push_back(std::move(finding));
    for (Finding& finding : found) run_.findings.push_back(std::move(finding));
    if (rows.empty()) {
      say_nothing_measured(timed);
    } else {
      for (const Host& host : hosts_) run_.tally.did(host, name_);
    }
    for (NcclRow& row : rows) all.rows.push_back(std::move(row));
    take_seen(watched, all);
    return true;
  }

 private:
  BenchSpec watching() const {
    BenchSpec spec = spec_;
    spec.versus_watched = true;
    spec.iterations = 1;
    spec.warmup = 0;
    return spec;
  }

  // Both sides once more and longer, before a difference counts.
  Status again(std::vector<NcclRow>& rows, BenchReport& timed) {
    if (!nccl_differs(rows, run_.options.below)) return {};
    spec_.iterations *= kAgainLonger;
    BenchReport longer;
    COLL_ASSIGN(const auto failed, measure_(run_, hosts_, spec_, name_ + " again", longer));
    if (failed) {
      not_again_ = failed->chain();
      return {};
    }
    rows = nccl_rows(longer);
    for (NcclRow& row : rows) row.again = true;
    timed = std::move(longer);
    return {};
  }

  // NCCL's words name rank and host; who has failed first in it is not known, so nobody is accused.
  void add_error(const Error& error) {
    Finding finding{.name = "nccl/" + name_};
    const std::string message =
        format("{}{}: {}", error.host.empty() ? "" : error.host + ": ", name_, error.chain());
    if (error.code == ErrorCode::unavailable || error.code == ErrorCode::usage)
      finding.leave_out(message, error.hint);
    else
      finding.fail(error.code, message, error.hint);
    run_.findings.push_back(std::move(finding));
    for (const Host& host : hosts_) run_.tally.did(host, name_);
  }

  void say_nothing_measured(const BenchReport& timed) {
    Finding finding{.name = "nccl/" + name_};
    std::string why;
    if (timed.closing)
      for (const LeftOut& out : timed.closing->left_out) why = ": " + out.reason;
    finding.leave_out(format("{}: nothing was measured of NCCL{}", name_, why));
    run_.findings.push_back(std::move(finding));
  }

  void take_busy(const BenchReport& timed) {
    if (!timed.closing) return;
    for (const BusyHost& host : timed.closing->busy)
      if (!host.own_limit) busy_[host.host] = host.why;
    run_.busy.insert(busy_.begin(), busy_.end());
  }

  void spoil_busy(std::vector<Finding>& found) const {
    for (Finding& finding : found) {
      const bool slow =
          finding.status == FindingStatus::fail || finding.status == FindingStatus::warn;
      const bool excused = finding.status == FindingStatus::warn ||  // without figures to compare
                           is_excusable(finding);
      if (slow && !busy_.empty() && excused)
        spoil(finding, format("{}; {} was busy ({}), so this says little", finding.message,
                              busy_.begin()->first, busy_.begin()->second));
      else if (slow && !not_again_.empty())
        finding.leave_out(
            format("{}; it could not be measured again: {}", finding.message, not_again_));
    }
  }

  static void take_seen(const BenchReport& watched, NcclReport& all) {
    if (watched.header) {
      all.ranks = watched.header->ranks;
      const std::string& said = watched.header->versus;
      all.name = said.substr(0, said.find(':'));
      std::map<std::string, uint64_t> links;
      for (const LinkLine& link : watched.header->links) ++links[link.via];
      for (const auto& [via, count] : links) {
        auto known = std::ranges::find(all.own_ways, via, &OwnWay::via);
        if (known == all.own_ways.end()) known = all.own_ways.insert(known, {via, 0});
        known->links = std::max(known->links, count);
      }
    }
    if (!watched.closing) return;
    for (const NcclOnHost& host : watched.closing->nccl) {
      const auto known = std::ranges::find(all.seen, host.host, &NcclOnHost::host);
      NcclOnHost mine = host;
      mine.log.choices.clear();  // they stand in the rows
      if (known == all.seen.end())
        all.seen.push_back(std::move(mine));
      else
        take_worse(*known, std::move(mine));
    }
  }

  // Several runs on a host: all ways and warnings, and the RAS that has most to say.
  static void take_worse(NcclOnHost& known, NcclOnHost&& next) {
    for (NcclWay& way : next.log.ways)
      if (std::ranges::find(known.log.ways, way.via, &NcclWay::via) != known.log.ways.end())
        way.channels = 0;
    add_log(known.log, std::move(next.log));
    const auto bad = [](const RasAnswer& ras) {
      return !ras.status
                 ? 1
                 : 2 * int(!ras.status->problems.empty()) + 4 * int(!ras.status->missing.empty());
    };
    if (bad(next.ras) > bad(known.ras)) known.ras = std::move(next.ras);
  }

  CheckRun& run_;
  const std::vector<Host>& hosts_;
  BenchSpec spec_;
  const std::string name_;
  const NcclMeasure& measure_;
  std::string not_again_;
  BusyHosts busy_;
};

}  // namespace

Status check_nccl_of(CheckRun& run, std::vector<NcclHost> facts, const NcclMeasure& measure) {
  NcclReport& report = run.nccl.emplace();
  report.hosts = std::move(facts);
  for (Finding& finding : nccl_fact_findings(report.hosts)) {
    if (finding.status == FindingStatus::fail && finding.at.host.named())
      run.out.try_emplace(finding.at.host, "nccl");
    run.findings.push_back(std::move(finding));
  }
  COLL_ASSIGN(const std::vector<Host> hosts, hosts_of_nccl(run, report.hosts));
  const std::vector<BenchSpec> specs = nccl_specs(run);
  for (const Host& host : hosts) run.tally.plan(host, specs.size(), "measurements");
  for (const BenchSpec& spec : specs) {
    Beside beside(run, hosts, spec, measure);
    COLL_ASSIGN(const bool on, beside.judge(report));
    if (!on) break;
  }
  for (Finding& finding : nccl_seen_findings(report)) run.findings.push_back(std::move(finding));
  return {};
}

Status check_nccl(CheckRun& run) {
  if (interpret_device(run.line) == DeviceRequest::cpu)
    return Error(ErrorCode::incomplete, "NCCL works on GPUs, and --device cpu is given");
  COLL_ASSIGN(std::vector<NcclHost> facts, ask_facts(run));
  if (facts.empty()) return Error(ErrorCode::incomplete, "no host said which NCCL it has");
  return check_nccl_of(run, std::move(facts), measure_on);
}

}  // namespace collctl::cmd
