// The suite of GPU memory over the network: `rails --memory gpu` between all fit hosts, judged as
// `rails` judges it; each GPU beside two other hosts.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/job/device_choice.h"
#include "cmd/rails/memory_judge.h"

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

Status check_gpu_net(CheckRun& run) {
  if (interpret_device(run.line) == DeviceRequest::cpu) {
    run.nothing_there = "--device cpu";
    return {};
  }
  const std::vector<Host> hosts = run.fit();
  COLL_ASSIGN(const RailsReport report, measure_rails(run, hosts, runtime::MemoryChoice::gpu));
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
  run.culprits.insert(run.culprits.end(), found.culprits.begin(), found.culprits.end());
  Finding all{.name = "paths"};
  all.n = found.good;
  all.of = found.tried;
  add(std::move(all));
  return {};
}

}  // namespace collctl::cmd
