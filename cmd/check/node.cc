// The suite of each host alone: collectives among its own ranks, every element checked, by every
// way that joins them; windows; copies in its memory and its GPUs'. The hosts have nothing to do
// with each other here, so each gets a process of its own of this program, as a person would run it
// there, and many run at the same time.
#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/wait.h"
#include "cmd/check/check.h"
#include "cmd/check/collectives.h"
#include "cmd/job/interrupt.h"
#include "cmd/judge/json.h"
#include "cmd/measure/timing.h"
#include "cmd/memory_test/memory_test.h"
#include "cmd/report/read.h"
#include "launcher/ssh/child.h"

namespace collctl::cmd {
namespace {

using launcher::ChildProcess;

constexpr size_t kAtOnce = 16;        // of them at the same time
constexpr double kSlackSeconds = 30;  // beyond what its own deadlines allow
constexpr size_t kMostReport = 64 << 20;

enum class NodeKind : uint8_t { collective, window, memory };

// One host, one run of a command.
struct NodeJob {
  std::string host;
  NodeKind kind = NodeKind::collective;
  std::string name;                // of what is run; of a collective with the transport
  std::vector<std::string> words;  // of its own on the command line, the command first
  // A way that this machine may not have: then it is no fault.
  bool optional = false;
  std::unique_ptr<ChildProcess> child;
  std::optional<Deadline> deadline;
  std::string output, errors;
  std::optional<Error> error;
  Limits limits;          // that it is held against
  std::string not_again;  // why it could not be measured again
  int exit_code = 0;
  bool begun = false, over = false;
};

std::vector<std::string> argv_of(const CheckRun& run, const NodeJob& job) {
  constexpr uint32_t kScopes[] = {kBench, kTimedTask, kTask};  // by kind
  std::vector<std::string> argv = {base::kSelfPath};
  const bool remote = !run.launch.hosts.hosts.empty();
  if (remote) argv.insert(argv.end(), {"run", "--hostfile", "-"});
  argv.push_back(job.words.front());
  for (const auto& [name, values] : run.line.given)
    if (const Option* option = find_option(name, kScopes[size_t(job.kind)]);
        option != nullptr &&
        (option->group == Group::launch || option->group == Group::hosts || name == "device") &&
        name != "hosts" && name != "hostfile" && name != "ranks" && name != "allow-missing" &&
        name != "timeout" && (name != "ranks-per-host" || job.kind != NodeKind::memory))
      for (const std::string& value : values)
        argv.push_back(takes_value(*option) ? "--" + name + "=" + value : "--" + name);
  if (remote && job.kind == NodeKind::memory) argv.push_back("--ranks-per-host=1");
  argv.insert(argv.end(), job.words.begin() + 1, job.words.end());
  argv.insert(argv.end(), {"--json", "--quiet", "--color=never"});
  return argv;
}

Status start(const CheckRun& run, NodeJob& job) {
  COLL_ASSIGN(
      job.child,
      ChildProcess::start({.argv = argv_of(run, job), .own_session = true, .dies_with_us = true}));
  if (!run.launch.hosts.hosts.empty()) {
    const std::string text = launcher::hostfile_text(run.launch_of({job.host}).hosts);
    job.child->write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  job.child->close_input();
  job.limits = run.options.limits;
  job.deadline = Deadline::after_seconds(run.launch.start_timeout_s +
                                         node_limit_s(run.options.level) + kSlackSeconds);
  return {};
}

// What a job has written so far; over when it ended or its time is up.
void take(NodeJob& job) {
  job.child->progress();
  job.output += job.child->output;
  job.child->output.clear();
  job.errors += job.child->errors;
  job.child->errors.clear();
  if (job.child->start_error()) job.error = job.child->start_error();
  if (job.output.size() > kMostReport)
    job.error = Error(ErrorCode::defect, "its report has no end");
  if (!job.error && !job.child->over() && job.deadline->passed())
    job.error = Error(ErrorCode::deadline, format("{} did not end in time", job.name));
  if (job.error && !job.child->over()) job.child->kill();
  if (!job.error && !job.child->over()) return;
  job.over = true;
  job.exit_code = job.child->exit_code();
  job.child.reset();
}

// All of them, one on a host and kAtOnce altogether at a time. A signal ends them and the check.
void run_jobs(CheckRun& run, std::vector<NodeJob>& jobs) {
  Interrupts interrupts(false);
  std::set<std::string> busy;  // hosts
  for (size_t over = 0; over < jobs.size();) {
    for (NodeJob& job : jobs) {
      if (job.begun || busy.size() >= kAtOnce || busy.contains(job.host)) continue;
      job.begun = true;
      if (Status started = start(run, job); !started) {
        job.error = started.error();
        job.over = true;
        ++over;
        continue;
      }
      busy.insert(job.host);
    }
    std::vector<pollfd> fds = {{interrupts.fd(), POLLIN, 0}};
    Deadline wakeup = Deadline::after_seconds(0.5);
    for (const NodeJob& job : jobs) {
      if (!job.begun || job.over) continue;
      job.child->add_interest(fds);
      wakeup = wakeup.earlier(job.child->wakeup());
    }
    if (const auto ready = base::poll_fds(fds, wakeup); !ready) {
      run.interrupted = ready.error();
      return;
    }
    if (const auto signal = interrupts.take(); signal && Interrupts::ends(*signal)) {
      run.interrupted = interrupted_error(*signal);
      for (NodeJob& job : jobs) job.child.reset();  // killed with it; what it started sees that
      return;
    }
    for (NodeJob& job : jobs) {
      if (!job.begun || job.over) continue;
      take(job);
      if (!job.over) continue;
      ++over;
      busy.erase(job.host);
    }
    run.progress(format("{} of {} runs", over, jobs.size()));
  }
}

// What one run says: findings, and speeds that can be held against the other hosts'.
struct NodeResult {
  struct Speed {
    double GBps = 0;
    std::string device;  // the slowest of several; empty: there is one
  };
  std::vector<Finding> findings;
  std::map<std::string, Speed> speeds;  // by what they are of
  std::string busy;                     // why its times say little
  int ranks = 0;
  bool on_gpus = false;
  std::optional<BenchReport> report;
};

// Of a run that left no report, or whose machine has no such way.
void judge_error(const NodeJob& job, const Error& error, Finding& all) {
  if (job.optional && (error.code == ErrorCode::usage || error.code == ErrorCode::unavailable)) {
    all.status = FindingStatus::warn;
    all.message = format("{}: {} cannot serve here: {}", job.host, job.name, error.message);
  } else {
    all.fail(error.code, format("{}: {}: {}", job.host, job.name, error.message), error.hint);
  }
}

// Why a run left no report that can be read.
Error no_report(const NodeJob& job) {
  if (auto failure = read_failure(job.output)) return std::move(*failure);
  const bool known = job.exit_code > 0 && job.exit_code <= int(ErrorCode::defect);
  const std::string last = job.errors.substr(0, job.errors.find('\n'));
  return {known ? ErrorCode(job.exit_code) : ErrorCode::failed,
          format("it ended with exit code {} and no report{}", job.exit_code,
                 last.empty() ? "" : ": " + last)};
}

void judge_collective(const NodeJob& job, Finding& all, NodeResult& result) {
  auto saved = read_report(job.output);
  if (!saved) {
    judge_error(job, no_report(job), all);
    return;
  }
  if (const auto& error = saved->verdict.error()) judge_error(job, *error, all);
  for (Finding& finding : findings_of(saved->report, job.optional ? Limits{} : job.limits)) {
    if (finding.code == ErrorCode{}) continue;
    if (!job.not_again.empty() && says_too_slow(finding))
      finding.leave_out(
          format("{}; it could not be measured again: {}", finding.message, job.not_again));
    finding.name = all.name + "/" + finding.name;
    finding.at.host = job.host;
    if (finding.at.kind == SubjectKind::job) finding.at.kind = SubjectKind::host;
    finding.message = format("{}: {}", job.host, finding.message);
    result.findings.push_back(std::move(finding));
  }
  if (const auto& header = saved->report.header) {
    result.ranks = header->ranks;
    result.on_gpus = header->device == "cuda";
  }
  if (!saved->report.rows.empty() && !job.optional) {
    const Timing& timing = saved->report.rows.back().out_of_place;
    if (timing.busbw_GBps > 0) result.speeds[job.name] = {timing.busbw_GBps, ""};
    all.measured = format("{:.4g}", timing.busbw_GBps);
    all.unit = "GB/s";
  }
  // Left out by a machine whose stores of 16 bytes arrive torn: tested when ranks start.
  const auto& rows = saved->report.rows;
  if (result.on_gpus && job.name == "allreduce/p2p" && all.status == FindingStatus::pass &&
      std::none_of(rows.begin(), rows.end(),
                   [](const BenchRow& row) { return row.protocol == "ll128"; })) {
    all.status = FindingStatus::warn;
    all.message = format("{}: LL128 is not used between its GPUs", job.host);
    all.remedy =
        "COLLCTL_DEBUG=INFO collctl allreduce --proto all says why: no direct way between "
        "them, or stores that arrive torn";
  }
  if (saved->report.closing)
    for (const BusyHost& busy : saved->report.closing->busy) result.busy = busy.why;
  if (!saved->verdict.error() && !job.optional) result.report = std::move(saved->report);
}

void judge_memory(const NodeJob& job, Finding& all, NodeResult& result) {
  const auto report = read_memory(job.output);
  if (!report) {
    judge_error(job, no_report(job), all);
    return;
  }
  for (const MemoryRow& row : report->rows) {
    const bool host = row.device == "host";
    const std::string what = host ? "memory" : row.what == "copy" ? "GPU memory" : row.what;
    Finding finding{.name = format("node/{}", what),
                    .at = {.kind = host ? SubjectKind::host : SubjectKind::gpu, .host = job.host}};
    if (!host) finding.at.device = row.device;
    finding.measured = format("{:.4g}", row.GBps);
    finding.unit = "GB/s";
    if (row.wrong)
      finding.fail(
          ErrorCode::bad_data,
          format("{}: {}: what was copied is not what arrived", job.host,
                 host ? "its memory" : "GPU " + row.device),
          host ? "test its memory (edac-util, memtester)" : "run dcgmi diag -r 3 on this GPU");
    result.findings.push_back(std::move(finding));
    const NodeResult::Speed speed{row.GBps, host ? "" : row.device};
    const auto [at, fresh] = result.speeds.try_emplace(what, speed);
    if (!fresh && row.GBps < at->second.GBps) at->second = speed;
  }
}

// window-test judges itself.
void judge_window(const NodeJob& job, Finding& all) {
  if (const auto error = read_failure(job.output)) {
    judge_error(job, *error, all);
    return;
  }
  auto io = JsonRecord::read(job.output);
  std::optional<Verdict> verdict;
  if (io) io->object("verdict", [&] { verdict = read_verdict(*io, std::nullopt); });
  if (!io || !io->status() || !verdict) {
    judge_error(job, no_report(job), all);
    return;
  }
  if (verdict->ok()) return;
  const std::string why =
      verdict->reasons().empty() ? "it failed" : verdict->reasons().front().message;
  if (verdict->incomplete())
    all.leave_out(format("{}: window-test: {}", job.host, why));
  else
    all.fail(verdict->code(), format("{}: window-test: {}", job.host, why),
             "collctl window-test on this host shows which pairs of ranks and which stage");
}

NodeResult judge_job(const NodeJob& job) {
  NodeResult result;
  Finding all{.name = format("node/{}", job.name),
              .at = {.kind = SubjectKind::host, .host = job.host}};
  if (job.error)
    judge_error(job, *job.error, all);
  else if (job.kind == NodeKind::collective)
    judge_collective(job, all, result);
  else if (job.kind == NodeKind::memory)
    judge_memory(job, all, result);
  else
    judge_window(job, all);
  result.findings.push_back(std::move(all));
  return result;
}

NodeJob node_job(const std::string& host, NodeKind kind, const std::string& name,
                 std::vector<std::string> words) {
  NodeJob job;
  job.host = host;
  job.kind = kind;
  job.name = name;
  job.words = std::move(words);
  return job;
}

std::vector<std::string> collective_words(kernels::Collective collective,
                                          const std::vector<std::string>& more) {
  std::vector<std::string> words = {kernels::name_of(collective)};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Every collective by every way that could join the ranks of a host, in every protocol and by every
// algorithm; what a machine has not is left out by what it says.
std::vector<NodeJob> ways_of(const std::string& host, bool on_gpus, CheckLevel level) {
  std::vector<NodeJob> jobs;
  for (const kernels::Collective collective : check_collectives(level)) {
    if (collective == kernels::Collective::barrier) continue;  // moves nothing
    for (const char* transport : {"p2p", "shm", "net"}) {
      if (!on_gpus && std::string_view(transport) == "p2p") continue;
      std::vector<std::string> words = collective_words(collective, way_sizes(level));
      words.insert(words.end(), {format("--transport={}", transport), "--algo=all", "--proto=all"});
      jobs.push_back(node_job(host, NodeKind::collective,
                              format("{}/{}", kernels::name_of(collective), transport),
                              std::move(words)));
      jobs.back().optional = true;
    }
  }
  return jobs;
}

// The same on a host once more, longer.
NodeJob longer_job(const CheckRun& run, const std::string& host, const NodeJob& like) {
  std::vector<std::string> words = like.words;
  if (like.kind == NodeKind::collective) {
    words.resize(1);
    for (const std::string& size : node_sizes(run.options.level, true)) words.push_back(size);
  }
  return node_job(host, like.kind, like.name, std::move(words));
}

// What misses a limit is measured again, longer, before it counts.
void measure_slow_again(CheckRun& run, std::vector<NodeJob>& jobs) {
  std::vector<NodeJob> again;
  std::vector<NodeJob*> suspects;
  for (NodeJob& job : jobs) {
    if (job.kind != NodeKind::collective) continue;
    const NodeResult first = judge_job(job);
    if (std::none_of(first.findings.begin(), first.findings.end(), says_too_slow)) continue;
    suspects.push_back(&job);
    again.push_back(longer_job(run, job.host, job));
  }
  if (again.empty()) return;
  run_jobs(run, again);
  if (run.interrupted) return;
  for (size_t i = 0; i < again.size(); ++i) {
    NodeResult second = judge_job(again[i]);
    if (second.report)
      *suspects[i] = std::move(again[i]);
    else
      suspects[i]->not_again = second.findings.back().message;
  }
}

// The figures of one kind, by host.
class NodeSpeeds {
 public:
  void add(const std::string& host, const NodeResult& result) {
    for (const auto& [what, speed] : result.speeds) by_what_[what][host] = speed;
    if (!result.busy.empty()) busy_[host] = result.busy;
  }
  // Whoever was slow is measured once more, with nothing else of ours at the same time.
  Status judge(CheckRun& run, const std::map<std::string, NodeJob>& jobs) {
    for (const auto& [what, by_host] : by_what_) {
      if (by_host.size() < 3) continue;  // of two nobody knows which is the usual one
      std::vector<double> values;
      for (const auto& [host, speed] : by_host) values.push_back(speed.GBps);
      const double usual = median(values), least = run.options.below * usual;
      for (const auto& [host, speed] : by_host)
        if (speed.GBps < least) COLL_TRY(judge_slow(run, what, host, usual, by_host.size(), jobs));
    }
    return {};
  }

 private:
  Status judge_slow(CheckRun& run, const std::string& what, const std::string& host, double usual,
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
    if (seen.GBps >= least) return {};
    Finding finding{.name = format("node/{}/speed", what),
                    .at = {.kind = SubjectKind::host, .host = host}};
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
    const std::string name = seen.device.empty() ? host : host + " GPU " + seen.device;
    const std::string message = format("{}: {} at {:.4g} GB/s, the median of the hosts is {:.4g}",
                                       name, what, seen.GBps, usual);
    if (busy_.contains(host) || !result.busy.empty()) {
      finding.status = FindingStatus::warn;
      finding.message = format("{}; the host was busy ({}), so this says little", message,
                               result.busy.empty() ? busy_[host] : result.busy);
    } else {
      finding.fail(ErrorCode::failed, message,
                   "compare clocks and power limits (nvidia-smi -q -d CLOCK,PERFORMANCE), memory "
                   "and PCIe (collctl topo -H)");
      run.out.try_emplace(host, "node");
      run.culprits.push_back({finding.at.kind, name, 1, finding.message, false});
    }
    run.findings.push_back(std::move(finding));
    return {};
  }

  std::map<std::string, std::map<std::string, NodeResult::Speed>> by_what_;  // then by host
  std::map<std::string, std::string> busy_;
};

}  // namespace

Status check_node(CheckRun& run) {
  const CheckLevel level = run.options.level;
  const std::vector<std::string> fit = run.fit();
  std::map<std::string, NodeJob> kinds;  // by what their speed is called
  std::vector<NodeJob> jobs;
  const auto add = [&](NodeKind kind, const std::string& name,
                       const std::vector<std::string>& words) {
    kinds.emplace(name, node_job("", kind, name, words));
    for (const std::string& host : fit) jobs.push_back(node_job(host, kind, name, words));
  };
  for (const kernels::Collective collective : check_collectives(level))
    add(NodeKind::collective, kernels::name_of(collective),
        collective_words(collective, node_sizes(level)));
  add(NodeKind::memory, "memory-test", {"memory-test"});
  NodeSpeeds speeds;
  std::map<std::string, NodeResult> first;  // by host, of its first collective
  const auto judge_all = [&](std::vector<NodeJob>& done) {
    for (const NodeJob& job : done) {
      NodeResult result = judge_job(job);
      for (const Finding& finding : result.findings) {
        if (finding.status == FindingStatus::fail) run.out.try_emplace(job.host, "node");
        run.findings.push_back(finding);
      }
      speeds.add(job.host, result);
      if (result.report) run.measured.push_back(std::move(*result.report));
      if (result.ranks > 0) first.try_emplace(job.host, std::move(result));
    }
  };
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  measure_slow_again(run, jobs);
  if (run.interrupted) return *run.interrupted;
  judge_all(jobs);
  // Now it is known who has ranks on GPUs, and more than one.
  jobs.clear();
  for (const std::string& host : run.fit()) {
    const auto known = first.find(host);
    if (level == CheckLevel::quick || known == first.end() || known->second.ranks < 2) continue;
    for (NodeJob& job : ways_of(host, known->second.on_gpus, level)) jobs.push_back(std::move(job));
    jobs.push_back(node_job(host, NodeKind::window, "window-test", {"window-test"}));
  }
  run_jobs(run, jobs);
  if (run.interrupted) return *run.interrupted;
  judge_all(jobs);
  return speeds.judge(run, kinds);
}

}  // namespace collctl::cmd
