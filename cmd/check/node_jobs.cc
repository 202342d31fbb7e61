// Each host's runs are processes of this program, as a person would run it there.
#include <poll.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/wait.h"
#include "cmd/check/node.h"
#include "cmd/job/interrupt.h"

namespace collctl::cmd {

namespace {

using launcher::ChildProcess;

constexpr double kSlackSeconds = 30;  // beyond what its own deadlines allow

std::vector<std::string> argv_of(const CheckRun& run, const NodeJob& job) {
  constexpr uint32_t kScopes[] = {kBench, kTimedTask, kTask, kTask, kTask, kTask};  // by kind
  std::vector<std::string> argv = {base::kSelfPath};
  const bool remote = !run.launch.hosts.hosts.empty();
  if (remote) argv.insert(argv.end(), {"run", "--hostfile", "-"});
  argv.push_back(job.words.front());
  for (const auto& [name, values] : run.line.given)
    if (const Option* option = find_option(name, kScopes[size_t(job.kind)]);
        option != nullptr &&
        (option->group == Group::launch || option->group == Group::hosts || name == "device" ||
         name == "integrity") &&
        name != "hosts" && name != "hostfile" && name != "ranks" && name != "allow-missing" &&
        name != "timeout" && (name != "ranks-per-host" || !is_one_rank(job.kind)))
      for (const std::string& value : values)
        argv.push_back(takes_value(*option) ? "--" + name + "=" + value : "--" + name);
  if (remote && is_one_rank(job.kind)) argv.push_back("--ranks-per-host=1");
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
    job.child->write(base::bytes_of(text));
  }
  job.child->close_input();
  job.limits = run.options.limits;
  job.expect = run.options.expect;
  job.floors = &run.options.floors;
  job.deadline = Deadline::after_seconds(
      run.launch.start_timeout_s +
      (job.limit_s > 0 ? job.limit_s : node_limit_s(run.options.level)) + kSlackSeconds);
  return {};
}

// Takes the output of a job so far; the job is over when it ended or its time is up.
void take(NodeJob& job) {
  job.child->progress();
  job.output += job.child->output;
  job.child->output.clear();
  job.errors += job.child->errors;
  job.child->errors.clear();
  if (job.child->start_error()) job.error = job.child->start_error();
  if (job.output.size() > kMostNodeReport)
    job.error = Error(ErrorCode::defect, "its report has no end");
  if (!job.error && !job.child->over() && job.deadline->passed())
    job.error = Error(ErrorCode::deadline, format("{} did not end in time", job.name));
  if (job.error && !job.child->over()) job.child->kill();
  if (!job.error && !job.child->over()) return;
  job.over = true;
  job.exit_code = job.child->exit_code();
  job.child.reset();
}

}  // namespace

void run_jobs(CheckRun& run, std::vector<NodeJob>& jobs, size_t at_once) {
  Interrupts interrupts(false);
  std::set<Host> busy;
  for (size_t over = 0; over < jobs.size();) {
    for (NodeJob& job : jobs) {
      if (job.begun || busy.size() >= at_once || busy.contains(job.host)) continue;
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

namespace {

constexpr uint64_t kMostAtLevel[] = {1u << 20, 4u << 20, kMostBytesOnCores};
constexpr int kIterations[] = {5, 10, 20};

}  // namespace

std::vector<kernels::Collective> check_collectives(CheckLevel level) {
  using kernels::Collective;
  if (level == CheckLevel::quick) return {Collective::all_reduce, Collective::all_to_all};
  std::vector<Collective> all;
  for (int i = 0; i < kernels::kCollectiveCount; ++i) all.push_back(Collective(i));
  return all;
}

SizeRange level_sizes(CheckLevel level) {
  return {.min_bytes = 8, .max_bytes = kMostAtLevel[size_t(level)], .step_factor = 32};
}

void end_at_most(SizeRange& sizes) {
  uint64_t least = sizes.max_bytes;
  while (least / sizes.step_factor >= sizes.min_bytes) least /= sizes.step_factor;
  sizes.min_bytes = least;
}

std::vector<std::string> node_sizes(const CheckOptions& options, bool longer) {
  const SizeRange& range = options.sizes;
  std::vector<std::string> words = {
      "--min-bytes=" + std::to_string(range.min_bytes),
      "--max-bytes=" + std::to_string(range.max_bytes),
      "--step-factor=" + std::to_string(range.step_factor),
      "--iters=" + std::to_string(kIterations[size_t(options.level)] * (longer ? 4 : 1)),
      "--warmup=2",
      "--in-place=0"};
  if (options.plateau) words.emplace_back("--plateau");
  return words;
}

std::vector<std::string> way_sizes(CheckLevel level) {
  return {"--min-bytes=8",     level == CheckLevel::full ? "--max-bytes=2M" : "--max-bytes=128K",
          "--step-factor=128", "--iters=2",
          "--warmup=0",        "--in-place=0"};
}

double node_limit_s(CheckLevel level) {
  constexpr double kSeconds[] = {60, 120, 600};
  return kSeconds[size_t(level)];
}

BenchSpec cluster_spec(const CheckOptions& options, const BenchOp& op) {
  BenchSpec spec;
  spec.collective = op;
  static_cast<SizeRange&>(spec) = options.sizes;
  spec.max_bytes_given = true;
  spec.plateau = options.plateau;
  spec.iterations = kIterations[size_t(options.level)];
  spec.warmup = 2;
  spec.in_place = InPlace::out_of_place;
  return spec;
}

}  // namespace collctl::cmd
