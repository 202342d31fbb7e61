// The suite of GPU memory over the network: `rails --memory gpu` between all fit hosts, judged as
// `rails` judges it; each GPU beside two other hosts.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/job/device_choice.h"
#include "cmd/rails/memory_judge.h"
#include "cmd/rails/memory_looks.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

// Planned: what each GPU sends and gets over each NIC near it, at level full over every NIC. Error
// defect: the report is about a host that took no part.
Status tally_gpu_paths(const std::vector<Host>& hosts, const RailsReport& report, bool every_nic,
                       Tally& tally) {
  // A host that has taken no part is no host without a GPU.
  for (const Host& host : hosts)
    if (std::ranges::find(report.hosts, host, &RailsHost::host) == report.hosts.end())
      tally.plan(host, 1, "paths of GPU memory");
  for (const RailsHost& host : report.hosts) {
    if (report.one_host && &host != &report.hosts.front()) break;  // the same one again
    if (std::ranges::find(hosts, host.host) == hosts.end())
      return Error(ErrorCode::defect,
                   format("the ranks report on {}, which is none of the hosts", host.host));
    size_t ways = 0;
    for (const runtime::RailGpu& gpu : host.gpus.list)
      for (const runtime::GpuToNic& nic : gpu.nics) ways += every_nic || nic.near ? 2 : 0;
    if (!host.gpus.list.empty()) tally.plan(host.host, ways, "paths of GPU memory");
  }
  for (const runtime::MemoryTrial& trial : report.trials)
    for (const auto& [at, gpu, nic] : {std::tuple(trial.from, trial.from_gpu, trial.from_nic),
                                       std::tuple(trial.to, trial.to_gpu, trial.to_nic)}) {
      if (gpu == runtime::kHostMemory) continue;
      const Host& host = report.hosts[size_t(at)].host;
      tally.did(host, format("{} over {}", gpu, nic));
      tally.did(host, format("{} over {}, back", gpu, nic));
    }
  return {};
}

std::vector<Finding> size_findings(const RailsReport& report, const CheckOptions& options,
                                   const std::string& why) {
  const RailsSpec spec = rails_spec(options, runtime::MemoryChoice::gpu);
  const size_t steps = spec.sizes().size(), sizes = steps + (spec.large_s > 0 ? 1 : 0);
  const MemoryLooks looks(report, options.below);
  std::vector<Finding> found;
  for (size_t size = 0; size < sizes; ++size) {
    Finding alone, both;
    uint64_t least_bytes = ~uint64_t{0}, most_bytes = 0;
    double alone_GBps = 0, both_GBps = 0;
    for (const Looked& one : looks.all()) {
      const runtime::MemoryTrial& trial = report.trials[one.at.trial];
      if (!one.last || !one.counts || trial.of_hosts() || !trial.ok()) continue;
      ++alone.of;
      if (trial.curve.size() <= size) continue;
      ++alone.n;
      const runtime::MemoryPoint& point = trial.curve[size];
      least_bytes = std::min(least_bytes, point.bytes);
      most_bytes = std::max(most_bytes, point.bytes);
      const auto keep = [&](Finding& slowest, double& GBps, double value) {
        if (GBps > 0 && value >= GBps) return;
        GBps = value;
        slowest.at = looks.path_of(one);
      };
      keep(alone, alone_GBps, one.at.back ? point.back_GBps : point.there_GBps);
      keep(both, both_GBps, point.both_GBps);
    }
    const bool large = size == steps;
    if (large && alone.n < alone.of) {
      Finding& without = found.emplace_back(Finding{.name = "sizes"});
      without.leave_out(format("{} of {} paths of GPU memory have no large size: {}",
                               alone.of - alone.n, alone.of, why));
    }
    if (alone.n == 0) continue;
    alone.name = size + 1 == sizes ? "large" : "size " + human_bytes(most_bytes);
    alone.measured = format("{:.4g}", alone_GBps);
    alone.unit = "GB/s";
    alone.basis = least_bytes == most_bytes
                      ? format("at {}", human_bytes(most_bytes))
                      : format("at {} to {}", human_bytes(least_bytes), human_bytes(most_bytes));
    both.name = alone.name + " both ways";
    both.measured = format("{:.4g}", both_GBps);
    both.unit = alone.unit;
    both.basis = alone.basis;
    both.n = alone.n;
    both.of = alone.of;
    found.push_back(std::move(alone));
    found.push_back(std::move(both));
  }
  if (options.given && options.given->max_bytes > spec.max_bytes) {
    Finding& most = found.emplace_back(Finding{.name = "sizes", .status = FindingStatus::warn});
    most.message = format("GPU memory was sent at sizes of up to {}, which is the most, and not {}",
                          human_bytes(spec.max_bytes), human_bytes(options.given->max_bytes));
  }
  return found;
}

Status check_gpu_net(CheckRun& run) {
  if (interpret_device(run.line) == DeviceRequest::cpu) {
    run.nothing_there = "--device cpu";
    return {};
  }
  const std::vector<Host> hosts = run.fit();
  RailsSpec spec = rails_spec(run.options, runtime::MemoryChoice::gpu);
  // At most half of what --budget leaves, which is less where later suites need it.
  if (run.until)
    spec.large_s = std::clamp(double(run.until->remaining_ns()) / 2e9, 0.0, spec.large_s);
  const std::string why =
      format("the {:.0f} s for them are too few{}", spec.large_s, run.until ? " (--budget)" : "");
  COLL_ASSIGN(const RailsReport report, measure_rails(run, hosts, std::move(spec)));
  const auto has_none = [](const RailsHost& host) {
    return host.gpus.list.empty() && host.gpus.why_none.empty();
  };
  if (std::ranges::all_of(report.hosts, has_none)) {
    run.nothing_there = "no host has an NVIDIA GPU";
    return {};
  }
  COLL_TRY(tally_gpu_paths(hosts, report, run.options.level == CheckLevel::full, run.tally));
  run.busy = busy_hosts(report);
  MemoryFindings found = judge_memories(report, run.options.below);
  const auto add = [&](Finding finding) {
    finding.name = "gpu-net/" + finding.name;
    const bool names = finding.name == "gpu-net/blame" || finding.name == "gpu-net/gpudirect";
    if (names && finding.status == FindingStatus::fail && finding.at.host.named())
      run.out.try_emplace(finding.at.host, "gpu-net");
    run.findings.push_back(std::move(finding));
  };
  for (const RailsHost& host : report.hosts) {
    if (!has_none(host)) continue;
    Finding none{.name = "none", .at = {.kind = SubjectKind::host, .host = host.host}};
    none.reason = kNothingThere;
    none.message = format("{}: no NVIDIA GPU", host.host);
    add(std::move(none));
  }
  const auto is_without = [&](const Finding& finding) {
    return std::ranges::any_of(report.hosts, [&](const RailsHost& host) {
      return has_none(host) && finding.at.kind == SubjectKind::host && finding.at.host == host.host;
    });
  };
  for (const Finding& finding : found.checks)
    if (finding.status != FindingStatus::pass && !is_without(finding) &&
        (finding.name != "gpu-path" || finding.status == FindingStatus::not_tested))
      add(finding);
  for (const size_t path : found.unexplained) add(found.checks[path]);
  for (Finding& finding : found.worst) add(std::move(finding));
  for (Finding& finding : size_findings(report, run.options, why)) add(std::move(finding));
  run.culprits.insert(run.culprits.end(), found.culprits.begin(), found.culprits.end());
  Finding all{.name = "paths"};
  all.n = found.good;
  all.of = found.tried;
  add(std::move(all));
  return {};
}

}  // namespace collctl::cmd
