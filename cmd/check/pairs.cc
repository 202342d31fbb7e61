// The suite of the network: `rails` between all fit hosts, judged as `rails` judges it.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/rails/rails.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

constexpr int kSparseFrom = 64;  // hosts: fewer measure every pair, these some of each host
constexpr double kSeconds = 0.02, kFullSeconds = 0.1;  // of streaming on a path
constexpr double kLargeSeconds = 60;                   // of large sizes of GPU memory, of all paths

}  // namespace

RailsSpec rails_spec(const CheckOptions& options, runtime::MemoryChoice memory) {
  const bool full = options.level == CheckLevel::full;
  RailsSpec spec;
  spec.seconds = full ? kFullSeconds : kSeconds;
  spec.sparse_from = kSparseFrom;
  spec.below = options.below;
  spec.memory = memory;
  spec.every_nic = full;
  if (memory == runtime::MemoryChoice::host) return spec;
  if (options.given) {
    spec.max_bytes = std::min(options.given->max_bytes, kMostCurveBytes);
    spec.min_bytes = std::min(options.given->min_bytes, spec.max_bytes);
  }
  if (full && options.plateau) spec.large_s = kLargeSeconds;
  return spec;
}

Result<RailsReport> measure_rails(const CheckRun& run, const std::vector<Host>& hosts,
                                  RailsSpec spec) {
  const bool of_hosts = spec.memory == runtime::MemoryChoice::host;
  if (run.line.has("net")) spec.net = run.line.text("net");
  TaskSpec task{.task = &kRailsTask, .options = json_of(spec)};
  task.settings.device_request = DeviceRequest::cpu;
  LaunchOptions launch = run.launch_of(hosts);
  launch.per_host = 1;
  LastRecord sink(
      [&](const std::string& what) { run.progress(of_hosts ? "all pairs, " + what : what); });
  const JobOutcome outcome = run_task_job(launch, task, sink);
  if (outcome.error) return *outcome.error;
  if (sink.text.empty()) return Error(ErrorCode::defect, "no rank reported anything");
  return read_rails(sink.text);
}

// Planned: both ways between each host and every other; of kSparseFrom hosts or more at least one
// pair of each. Error defect: the report is about a host that took no part.
Status tally_paths(const std::vector<Host>& hosts, const RailsReport& report, Tally& tally) {
  const size_t ways = int(hosts.size()) < kSparseFrom ? 2 * (hosts.size() - 1) : 2;
  for (const Host& host : hosts) tally.plan(host, ways, "paths to other hosts");
  for (const RailsHost& host : report.hosts)
    if (std::ranges::find(hosts, host.host) == hosts.end())
      return Error(ErrorCode::defect,
                   format("the ranks report on {}, which is none of the hosts", host.host));
  for (const RailPair& pair : report.pairs) {
    if (std::ranges::all_of(pair.cells,
                            [](const RailResult& cell) { return cell.end == RailEnd::unlike; }))
      continue;
    const Host &from = report.hosts[size_t(pair.from)].host,
               &to = report.hosts[size_t(pair.to)].host;
    tally.did(from, "to " + to.name);
    tally.did(to, "from " + from.name);
  }
  return {};
}

std::vector<Finding> port_findings(const RailsReport& report, const Floors& floors) {
  std::map<std::pair<size_t, size_t>, double> best;  // GB/s by host and NIC
  const auto nic = [&](int host, size_t at) -> const RailsNic& {
    return report.hosts[size_t(host)].nics[at];
  };
  for (const RailPair& pair : report.pairs) {
    const size_t across = report.hosts[size_t(pair.to)].nics.size();
    for (size_t c = 0; c < pair.cells.size(); ++c) {
      if (pair.cells[c].end != RailEnd::ok) continue;
      const size_t out = c / across, in = c % across;
      const double there = nic(pair.from, out).rate_Gbps, here = nic(pair.to, in).rate_Gbps;
      const auto note = [&](int host, size_t at) {
        double& value = best[{size_t(host), at}];
        value = std::max(value, pair.cells[c].GBps);
      };
      if (here >= there) note(pair.from, out);
      if (there >= here) note(pair.to, in);
    }
  }
  std::vector<Finding> found;
  for (const auto& [at, GBps] : best) {
    const RailsHost& host = report.hosts[at.first];
    const RailsNic& port = host.nics[at.second];
    const Floor* floor = find_port_floor(floors, port.rate_Gbps);
    if (floor == nullptr || port.link != "InfiniBand" || !host.busy.empty()) continue;
    Finding& finding = found.emplace_back();
    finding.name = "port";
    finding.at = {.kind = SubjectKind::nic, .host = host.host, .device = port.name};
    finding.measured = format("{:.4g}", GBps);
    finding.expected = format("{:.4g}", floor->GBps);
    finding.unit = "GB/s";
    finding.basis = format("{}, {}", floor->source, floor->date);
    if (GBps >= floor->GBps) continue;
    finding.warn(
        format("{} {}: {:.4g} GB/s on its best path, a port of {:g} Gb/s has {}", host.host,
               port.name, GBps, port.rate_Gbps, floor->text()),
        "look at its PCIe width and rate, the NUMA node it is on, and the active MTU: collctl topo "
        "-H, ibstat");
  }
  return found;
}

Status check_pairs(CheckRun& run) {
  const std::vector<Host> hosts = run.fit();
  COLL_ASSIGN(const RailsReport report,
              measure_rails(run, hosts, rails_spec(run.options, runtime::MemoryChoice::host)));
  COLL_TRY(tally_paths(hosts, report, run.tally));
  const RailsFindings found = judge_rails(report, run.options.below);
  add_paths(run.paths, rails_paths(report, found));
  run.busy = busy_hosts(report);
  const auto add = [&](Finding finding) {
    finding.name = "pairs/" + finding.name;
    run.findings.push_back(std::move(finding));
  };
  for (const Finding& finding : found.checks)
    if (finding.name != "rail" && finding.status != FindingStatus::pass) add(finding);
  for (const Finding& finding : found.checks)
    if ((finding.name == "blame" || finding.name == "network") && finding.at.host.named())
      run.out.try_emplace(finding.at.host, "pairs");
  run.culprits.insert(run.culprits.end(), found.culprits.begin(), found.culprits.end());
  for (const auto& [a, b] : found.broken)
    run.broken.insert({report.hosts[size_t(a)].host, report.hosts[size_t(b)].host});
  for (Finding& port : port_findings(report, run.options.floors)) add(std::move(port));
  for (const size_t path : found.unexplained) add(found.checks[path]);
  Finding all{.name = "paths"};
  all.of = found.tried;
  all.n = found.good - found.slow.size();
  all.measured = format("{:.4g}", found.median_GBps);
  all.unit = "GB/s";
  all.basis = "median of all paths";
  if (int(hosts.size()) >= kSparseFrom)
    all.cell = format("{} {}, every host with some others", all.measured, all.unit);
  if (found.came_back > 0)
    all.warn(format("{} once bad, and good when measured again", counted(found.came_back, "path")));
  add(std::move(all));
  return {};
}

}  // namespace collctl::cmd
