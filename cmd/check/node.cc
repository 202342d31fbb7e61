// The suite of each host alone: collectives among its own ranks, every element checked, by every
// way that joins them; windows; copies in its memory and its GPUs'. The hosts have nothing to do
// with each other here, so each gets a process of its own of this program, as a person would run it
// there, and many run at the same time.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/node.h"
#include "cmd/measure/timing.h"

namespace collctl::cmd {
namespace {

std::vector<std::string> collective_words(kernels::Collective collective,
                                          const std::vector<std::string>& more) {
  std::vector<std::string> words = {kernels::name_of(collective)};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Every collective by every way that could join the ranks of a host, in every protocol and by every
// algorithm; what a machine has not is left out by what it says.
std::vector<NodeJob> ways_of(const Host& host, bool on_gpus, CheckLevel level) {
  std::vector<NodeJob> jobs;
  for (const kernels::Collective collective : check_collectives(level)) {
    if (collective == kernels::Collective::barrier) continue;  // moves nothing
    for (const char* transport : {"p2p", "shm", "net"}) {
      if (!on_gpus && std::string_view(transport) == "p2p") continue;
      std::vector<std::string> words = collective_words(collective, way_sizes(level));
      words.insert(words.end(), {format("--transport={}", transport), "--algo=all", "--proto=all"});
      jobs.push_back({.host = host,
                      .name = format("{}/{}", kernels::name_of(collective), transport),
                      .words = std::move(words),
                      .optional = true});
    }
  }
  return jobs;
}

// The same on a host once more, longer.
NodeJob longer_job(const CheckRun& run, const Host& host, const NodeJob& like) {
  std::vector<std::string> words = like.words;
  if (like.kind == NodeJobKind::collective) {
    words.resize(1);
    for (const std::string& size : node_sizes(run.options, true)) words.push_back(size);
  }
  return {.host = host, .kind = like.kind, .name = like.name, .words = std::move(words)};
}

bool is_slow(const Finding& finding) {
  return says_too_slow(finding) || finding.reason == kBelowFloor ||
         (finding.reason == kBusyHost && finding.status == FindingStatus::not_tested);
}

// A run that misses a limit is repeated, longer, before it counts.
void measure_slow_again(CheckRun& run, std::vector<NodeJob>& jobs) {
  std::vector<NodeJob> again;
  std::vector<NodeJob*> suspects;
  for (NodeJob& job : jobs) {
    if (job.kind == NodeJobKind::window) continue;
    const NodeResult first = judge_job(job);
    if (std::ranges::none_of(first.findings, is_slow)) continue;
    suspects.push_back(&job);
    again.push_back(longer_job(run, job.host, job));
  }
  if (again.empty()) return;
  run_jobs(run, again);
  if (run.interrupted) return;
  for (size_t i = 0; i < again.size(); ++i) {
    NodeResult second = judge_job(again[i]);
    if (second.report || (again[i].kind == NodeJobKind::memory && !second.speeds.empty()))
      *suspects[i] = std::move(again[i]);
    else
      suspects[i]->not_again = second.findings.back().message;
  }
}

// The figures of one kind, by host.
class NodeSpeeds {
 public:
  void add(const Host& host, const NodeResult& result) {
    for (const auto& [what, speed] : result.speeds) by_what_[what][host] = speed;
    if (!result.busy.empty()) busy_[host] = result.busy;
  }
  const BusyHosts& busy() const { return busy_; }
  // A slow host is measured once more, with nothing else of ours at the same time.
  Status judge(CheckRun& run, const std::map<std::string, NodeJob>& jobs) {
    for (const auto& [what, by_host] : by_what_) {
      if (by_host.size() < 3) continue;  // with two, nobody knows which is usual
      std::vector<double> values;
      for (const auto& [host, speed] : by_host) values.push_back(speed.GBps);
      const double usual = median(values), least = run.options.below * usual;
      for (const auto& [host, speed] : by_host)
        if (speed.GBps < least) COLL_TRY(judge_slow(run, what, host, usual, by_host.size(), jobs));
    }
    return {};
  }

 private:
  Status judge_slow(CheckRun& run, const std::string& what, const Host& host, double usual,
                    size_t hosts, const std::map<std::string, NodeJob>& jobs) {
    const double least = run.options.below * usual, before = by_what_[what][host].GBps;
    const bool collective = jobs.contains(what);
    const NodeJob& like = jobs.at(collective ? what : "memory-test");
    std::vector<NodeJob> again;
    again.push_back(longer_job(run, host, like));
    run_jobs(run, again);
    if (run.interrupted) return *run.interrupted;
    NodeResult result = judge_job(again[0]);
    const NodeResult::Speed seen = result.speeds[what];
    if (seen.GBps >= least) {
      correct_first(run, what, host, before, seen);
      return {};
    }
    Finding finding = host_finding(format("node/{}/speed", what), host);
    if (!seen.device.empty()) {
      finding.at.kind = SubjectKind::gpu;
      finding.at.device = seen.device;
    }
    if (seen.GBps <= 0) {
      finding.leave_out(format(
          "{}: {} at {:.4g} GB/s, the median of the hosts is {:.4g}; it could not be measured "
          "again: {}",
          host, what, before, usual,
          result.findings.empty() ? "nothing was reported" : result.findings.front().message));
      run.findings.push_back(std::move(finding));
      return {};
    }
    finding.measured = format("{:.4g}", seen.GBps);
    finding.expected = format("{:.4g}", least);
    finding.unit = "GB/s";
    finding.basis = format("{:g} of the median of {} hosts", run.options.below, hosts);
    finding.n = finding.of = 2;
    const std::string name = host.name + (seen.device.empty() ? "" : " GPU " + seen.device);
    const std::string message = format("{}: {} at {:.4g} GB/s, the median of the hosts is {:.4g}",
                                       name, what, seen.GBps, usual);
    if (!result.busy.empty()) busy_[host] = result.busy;
    const std::string busy = busy_.contains(host) ? busy_.at(host) : "";
    if (!busy.empty() && is_excusable(seen.GBps, usual)) {
      spoil(finding, format("{}; the host was busy ({}), so this says little", message, busy),
            "measure again when the hosts are idle: collctl check --only node");
    } else {
      const std::string why = !busy.empty() ? "; the host was busy: " + busy
                              : result.held_back.empty()
                                  ? ""
                                  : "; the host was held back: " + result.held_back;
      finding.fail(ErrorCode::failed, message + why,
                   !why.empty() ? kBusyRemedy
                                : "compare clocks and power limits (nvidia-smi -q -d "
                                  "CLOCK,PERFORMANCE), memory and PCIe (collctl topo -H)");
      run.out.try_emplace(host, "node");
      run.culprits.push_back({finding.at.kind, name, 1, finding.message, false, host});
    }
    run.findings.push_back(std::move(finding));
    return {};
  }

  // The second figure is the one that was judged, and stands in the report beside the first.
  static void correct_first(CheckRun& run, const std::string& what, const Host& host, double before,
                            const NodeResult::Speed& seen) {
    for (Finding& finding : run.findings) {
      if (finding.name != "node/" + what || finding.at.host != host) continue;
      if (!seen.device.empty() && finding.at.device != seen.device) continue;
      finding.measured = format("{:.4g}", seen.GBps);
      if (finding.status != FindingStatus::pass) continue;
      finding.warn(format(
          "{}: {} at {:.4g} GB/s was too slow once, beside other hosts' runs, and good when it "
          "was measured again",
          host, what, before));
    }
  }

  std::map<std::string, std::map<Host, NodeResult::Speed>> by_what_;  // then by host
  BusyHosts busy_;
};

// NVLinks that do not carry the data of their GPUs are a fault; without any it is how such a
// machine is.
void judge_detour(CheckRun& run, const Host& host, const std::string& detour) {
  Finding finding = host_finding("node/gpu-links", host);
  const std::string message =
      format("{}: {}, so that windows between them were not tested", host, detour);
  if (run.nvlinked.contains(host)) {
    finding.fail(
        ErrorCode::failed, message,
        "collctl topo shows the paths and what stands in their way; look for P2P_LEVEL and "
        "P2P_DISABLE in the environment, and at nvidia-smi nvlink -s");
    run.out.try_emplace(host, "node");
    run.culprits.push_back({SubjectKind::host, host.name, 1, message, false, host});
  } else {
    finding.warn(message);
  }
  run.findings.push_back(std::move(finding));
}

}  // namespace

Status check_node(CheckRun& run) {
  const CheckLevel level = run.options.level;
  const std::vector<Host> fit = run.fit();
  std::map<std::string, NodeJob> kinds;  // by what their speed is called
  std::vector<NodeJob> jobs;
  const auto add = [&](NodeJobKind kind, const std::string& name,
                       const std::vector<std::string>& words) {
    kinds.emplace(name, NodeJob{.kind = kind, .name = name, .words = words});
    for (const Host& host : fit)
      jobs.push_back({.host = host, .kind = kind, .name = name, .words = words});
  };
  for (const kernels::Collective collective : check_collectives(level))
    add(NodeJobKind::collective, kernels::name_of(collective),
        collective_words(collective, node_sizes(run.options)));
  add(NodeJobKind::memory, "memory-test", {"memory-test"});
  NodeSpeeds speeds;
  std::map<Host, NodeResult> first;  // by host, of its first collective
  const auto judge_all = [&](std::vector<NodeJob>& done) {
    for (const NodeJob& job : done) {
      NodeResult result = judge_job(job);
      if (result.measured()) run.tally.did(job.host, job.name);
      for (const Finding& finding : result.findings) {
        if (finding.status == FindingStatus::fail) run.out.try_emplace(job.host, "node");
        run.findings.push_back(finding);
      }
      speeds.add(job.host, result);
      if (result.report) run.measured.push_back(std::move(*result.report));
      if (result.ranks > 0) first.try_emplace(job.host, std::move(result));
    }
  };
  for (const NodeJob& job : jobs) run.tally.plan(job.host, 1, "runs");
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  measure_slow_again(run, jobs);
  if (run.interrupted) return *run.interrupted;
  judge_all(jobs);
  for (const auto& [host, result] : first)
    if (!result.detour.empty()) judge_detour(run, host, result.detour);
  // Now it is known who has ranks on GPUs, and more than one.
  jobs.clear();
  for (const Host& host : run.fit()) {
    const auto known = first.find(host);
    if (level == CheckLevel::quick || known == first.end() || known->second.ranks < 2) continue;
    for (NodeJob& job : ways_of(host, known->second.on_gpus, level)) jobs.push_back(std::move(job));
    // It takes memory that all ranks map.
    if (known->second.detour.empty())
      jobs.push_back({.host = host,
                      .kind = NodeJobKind::window,
                      .name = "window-test",
                      .words = {"window-test"}});
  }
  for (const NodeJob& job : jobs) run.tally.plan(job.host, 1, "runs");
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  judge_all(jobs);
  Status judged = speeds.judge(run, kinds);
  run.busy = speeds.busy();
  return judged;
}

}  // namespace collctl::cmd
