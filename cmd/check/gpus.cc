// The suite of each host's GPUs among themselves and with its memory: gpu-test on many hosts at
// the same time; hosts with a figure that is bad have it measured again, longer, before it counts.
#include "cmd/check/gpus.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "cmd/check/node.h"

namespace collctl::cmd {
namespace {

constexpr double kFigureSeconds = 0.008, kFullFigureSeconds = 0.03;  // of each figure
constexpr double kFigureLonger = 4;                                  // what is measured again

std::vector<NodeJob> gpu_jobs(const std::vector<Host>& hosts, double seconds) {
  std::vector<NodeJob> jobs;
  for (const Host& host : hosts)
    jobs.push_back({.host = host,
                    .kind = NodeJobKind::gpus,
                    .name = "gpu-test",
                    .words = {"gpu-test", format("--seconds={:g}", seconds)}});
  return jobs;
}

Result<GpuReport> gpu_report_of(const NodeJob& job) {
  if (job.error) return *job.error;
  auto report = read_gpu_report(job.output);
  if (!report) return no_report(job);
  report->host = job.host;
  return report;
}

void fail_host(CheckRun& run, const Host& host, const Error& error) {
  run.tally.plan(host, 1, "measurements");
  run.out.try_emplace(host, "gpus");
  run.findings.push_back(
      host_finding("gpus/run", host)
          .fail(error.code, format("{}: gpu-test: {}", host, error.chain()), error.hint));
}

// A pair that has no way of its own is looked at as well: that is told.
void tally_figures(CheckRun& run, const GpuReport& report) {
  const size_t gpus = report.gpus.size();
  run.tally.plan(report.host, gpus * (gpus - 1) + std::max(gpus, report.legs.size()),
                 "measurements");
  for (const GpuPair& pair : report.pairs)
    if (pair.of(PairFigure::write) > 0 || !pair.why.empty())
      run.tally.did(report.host, format("{} {}", pair.from, pair.to));
  for (const HostLeg& leg : report.legs)
    if (leg.to_GBps > 0) run.tally.did(report.host, format("{} node {}", leg.gpu, leg.node));
}

// Hosts whose figures could not be measured again, and why.
using NotAgain = std::map<Host, std::string>;

Result<NotAgain> measure_again(CheckRun& run, const std::set<Host>& suspects, double seconds) {
  NotAgain lost;
  std::vector<NodeJob> jobs = gpu_jobs({suspects.begin(), suspects.end()}, seconds);
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  for (const NodeJob& job : jobs) {
    const auto again = gpu_report_of(job);
    const auto first = std::ranges::find(run.gpus, job.host, &GpuReport::host);
    if (again && again->gpus.size() == first->gpus.size())
      keep_better(*first, *again);
    else
      lost[job.host] = again ? "it had another number of GPUs" : again.error().chain();
  }
  return lost;
}

}  // namespace

Status check_gpus(CheckRun& run) {
  if (run.line.has("device") && run.line.text("device") == "cpu") {
    run.nothing_there = "--device cpu";
    return {};
  }
  const double seconds =
      run.options.level == CheckLevel::full ? kFullFigureSeconds : kFigureSeconds;
  std::vector<NodeJob> jobs = gpu_jobs(run.fit(), seconds);
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  std::vector<Host> without;
  for (const NodeJob& job : jobs) {
    auto report = gpu_report_of(job);
    if (!report) {
      fail_host(run, job.host, report.error());
      continue;
    }
    if (report->gpus.empty()) {
      without.push_back(job.host);
      continue;
    }
    tally_figures(run, *report);
    run.gpus.push_back(std::move(*report));
  }
  if (without.size() == jobs.size()) {
    run.nothing_there =
        jobs.size() == 1 ? "the host has no NVIDIA GPU" : "no host has an NVIDIA GPU";
    return {};
  }
  for (const Host& host : without) {
    Finding finding{.name = "gpus/none", .at = {.kind = SubjectKind::host, .host = host}};
    finding.reason = kNothingThere;
    finding.message = format("{}: no NVIDIA GPU", host);
    run.findings.push_back(std::move(finding));
  }
  GpusFindings found = judge_gpus(run.gpus, run.options.below, run.options.floors);
  NotAgain lost;
  if (const std::set<Host> suspects = found.suspects; !suspects.empty()) {
    COLL_ASSIGN(lost, measure_again(run, suspects, kFigureLonger * seconds));
    found = judge_gpus(run.gpus, run.options.below, run.options.floors);
    for (const Host& host : suspects) {
      if (found.suspects.contains(host) || lost.contains(host)) continue;
      found.findings.push_back(
          host_finding("gpus/again", host)
              .warn(format("{}: a figure was too slow once, and good when measured again", host)));
    }
  }
  for (const Finding& finding : found.findings)  // which counts the first time
    if (finding.code == ErrorCode::bad_data) lost.erase(finding.at.host);
  std::erase_if(found.culprits, [&](const Culprit& one) { return lost.contains(one.host); });
  for (Finding& finding : found.findings) {
    const auto why = lost.find(finding.at.host);
    if (finding.status == FindingStatus::fail && why != lost.end())
      finding.leave_out(
          format("{}; it could not be measured again: {}", finding.message, why->second));
    if (finding.status == FindingStatus::fail) run.out.try_emplace(finding.at.host, "gpus");
    run.findings.push_back(std::move(finding));
  }
  run.culprits.insert(run.culprits.end(), found.culprits.begin(), found.culprits.end());
  for (const GpuReport& report : run.gpus)
    if (!report.busy.empty()) run.busy[report.host] = report.busy;
  return {};
}

void keep_better(GpuReport& report, const GpuReport& again) {
  const auto more = [](double& value, double other) { value = std::max(value, other); };
  const size_t pairs = std::min(report.pairs.size(), again.pairs.size());
  for (size_t p = 0; p < pairs; ++p) {
    GpuPair& pair = report.pairs[p];
    const GpuPair& other = again.pairs[p];
    for (size_t f = 0; f < kPairFigures; ++f) {
      double& value = pair.figures[f];
      if (PairFigure(f) != PairFigure::latency)
        more(value, other.figures[f]);
      else if (other.figures[f] > 0 && (value <= 0 || other.figures[f] < value))
        value = other.figures[f];
    }
    for (const std::string& figure : other.wrong)
      if (std::ranges::count(pair.wrong, figure) == 0) pair.wrong.push_back(figure);
  }
  for (size_t g = 0; g < std::min(report.gpus.size(), again.gpus.size()); ++g)
    for (double GpuEnd::*value :
         {&GpuEnd::to_all, &GpuEnd::from_all, &GpuEnd::sends_of_all, &GpuEnd::gets_of_all})
      more(report.gpus[g].*value, again.gpus[g].*value);
  for (size_t l = 0; l < std::min(report.legs.size(), again.legs.size()); ++l) {
    for (double HostLeg::*value : {&HostLeg::to_GBps, &HostLeg::from_GBps, &HostLeg::both_GBps})
      more(report.legs[l].*value, again.legs[l].*value);
    report.legs[l].wrong |= again.legs[l].wrong;
  }
  if (!report.busy.empty()) report.busy = again.busy;  // what was bad without others is bad
}

}  // namespace collctl::cmd
