// The suite of load: many hosts at once, each with a process of its own, as in `node`.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/check/node.h"

namespace collctl::cmd {
namespace {

constexpr double kStretchSeconds = 600;  // at most, between two collectives
constexpr int kLeastStretches = 2, kMostStretches = 64;
constexpr double kBurnSlack = 120;  // opening GPUs, a last look at all of the memory

NodeJob burn_job(const Host& host, double seconds) {
  return {.host = host,
          .kind = NodeJobKind::burn,
          .name = "burn-test",
          .words = {"burn-test", format("--burn-for={}s", seconds)},
          .limit_s = 2 * seconds + kBurnSlack};
}

NodeJob collective_job(const CheckRun& run, const Host& host) {
  std::vector<std::string> words = node_sizes(run.options);
  words.insert(words.begin(), "allreduce");
  return {.host = host, .name = "allreduce", .words = std::move(words)};
}

// The run itself failed. A host that cannot run it is not tested; doctor and node name the cause.
Finding failed_run(const NodeJob& job, const Error& error) {
  Finding finding = host_finding("burn/run", job.host);
  const std::string message = format("{}: burn-test: {}", job.host, error.chain());
  if (error.code == ErrorCode::unavailable || error.code == ErrorCode::incomplete)
    finding.leave_out(message, error.hint);
  else
    finding.fail(error.code, message, error.hint);
  return finding;
}

// Without its speed: a host that has just been hot says nothing by that.
void take_collective(CheckRun& run, const NodeJob& job) {
  const NodeResult result = judge_job(job);
  if (result.measured()) run.tally.did(job.host, format("collective {}", job.words.back()));
  for (Finding finding : result.findings) {
    if (finding.status != FindingStatus::fail || says_too_slow(finding) ||
        finding.reason == kBelowFloor)
      continue;
    finding.name = "burn" + finding.name.substr(finding.name.find('/'));
    run.findings.push_back(std::move(finding));
  }
}

// The pieces of a part of a product, of two GPUs that compute it at the same time.
Result<std::array<std::vector<uint64_t>, 2>> ask_pieces(
    CheckRun& run, const std::array<const BurntDevice*, 2>& devices, const BurnPart& part) {
  std::vector<NodeJob> jobs;
  for (const BurntDevice* one : devices) {
    if (!jobs.empty() && jobs[0].host == one->host) continue;
    std::vector<std::string>& words = jobs.emplace_back(burn_job(one->host, 0)).words;
    words.insert(words.end(), {"--part=" + part.what, format("--part-from={}", part.from),
                               format("--part-words={}", part.words)});
  }
  run_jobs(run, jobs, kBurnAtOnce);
  if (run.interrupted) return *run.interrupted;
  std::array<std::vector<uint64_t>, 2> pieces;
  for (size_t i = 0; i < devices.size(); ++i) {
    const NodeJob& job = jobs[std::min(i, jobs.size() - 1)];
    if (job.error) return *job.error;
    const auto report = read_burn(job.output);
    if (!report) return no_report(job);
    const auto device =
        std::ranges::find(report->devices, devices[i]->device.device, &BurnDevice::device);
    if (device == report->devices.end() || device->works.size() != 1 || !device->why_not.empty())
      return Error(ErrorCode::unavailable,
                   format("{}: {}: {}", job.host, devices[i]->device.device,
                          device == report->devices.end() ? "it is gone" : device->why_not));
    pieces[i] = device->works[0].bands;
  }
  return pieces;
}

// Errors: a signal.
Status find_words(CheckRun& run, std::span<const BurntDevice> all,
                  std::vector<BurnDifference>& differences) {
  for (BurnDifference& one : differences) {
    if (run.until && run.until->passed()) {
      one.why = "no time of the budget is left";
      continue;
    }
    const std::array devices{&all[one.device], &all[one.other]};
    auto first = first_difference(
        one.what, [&](const BurnPart& part) { return ask_pieces(run, devices, part); });
    if (run.interrupted) return *run.interrupted;
    if (first)
      one.first = std::move(*first);
    else
      one.why = first.error().chain();
  }
  return {};
}

}  // namespace

int burn_turns(int hosts) {
  return std::max(1, int((size_t(std::max(hosts, 0)) + kBurnAtOnce - 1) / kBurnAtOnce));
}

Status check_burn(CheckRun& run) {
  const std::vector<Host> fit = run.fit();
  const double seconds = run.options.burn_s;
  const int stretches =
      std::clamp(int(std::ceil(seconds / kStretchSeconds)), kLeastStretches, kMostStretches);
  std::vector<NodeJob> jobs;
  for (int stretch = 0; stretch < stretches; ++stretch)
    for (const Host& host : fit) {
      if (stretch > 0) jobs.push_back(collective_job(run, host));
      jobs.push_back(burn_job(host, seconds / stretches));
    }
  for (const Host& host : fit) run.tally.plan(host, size_t(2 * stretches - 1), "runs");
  run_jobs(run, jobs, kBurnAtOnce);
  if (run.interrupted) return *run.interrupted;
  std::map<Host, int> done;
  std::vector<BurntDevice> all;
  for (const NodeJob& job : jobs) {
    const int number = done[job.host]++;
    if (job.kind == NodeJobKind::collective) {
      take_collective(run, job);
      continue;
    }
    auto report = job.error ? *job.error : read_burn(job.output);
    if (!report) {
      run.findings.push_back(failed_run(job, job.error ? *job.error : no_report(job)));
      continue;
    }
    const int stretch = number / 2;  // between two of them is a collective
    run.tally.did(job.host, format("stretch {}", number));
    add_burnt(all, job.host, *report, stretch * seconds / stretches);
  }
  std::vector<BurnDifference> differences = differences_of(all);
  COLL_TRY(find_words(run, all, differences));
  BurnFindings judged = judge_burnt(all, run.options.below, differences);
  for (Culprit& culprit : judged.culprits) run.culprits.push_back(std::move(culprit));
  for (Finding& finding : judged.findings) run.findings.push_back(std::move(finding));
  for (const Finding& finding : run.findings)
    if (finding.status == FindingStatus::fail && finding.name.starts_with("burn/") &&
        std::ranges::find(fit, finding.at.host) != fit.end())
      run.out.try_emplace(finding.at.host, "burn");
  run.burnt = kept_burnt(std::move(all));
  return {};
}

}  // namespace collctl::cmd
