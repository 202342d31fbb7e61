#include "cmd/job/start.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/version.h"
#include "cmd/job/config.h"
#include "cmd/job/host_places.h"
#include "cmd/text/hosts.h"
#include "launcher/local/local.h"
#include "launcher/local/rank_start.h"
#include "launcher/ssh/prompt.h"

namespace collctl::cmd {
namespace {

using launcher::HostPhase;
using launcher::HostPool;

Result<StartedJob> start_local(const LaunchOptions& options,
                               const std::vector<std::string>* program) {
  COLL_ASSIGN(const LocalPlan plan, plan_local(options, program != nullptr));
  COLL_ASSIGN(const uint16_t port, base::free_port());
  std::vector<launcher::RankProcess> processes;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    launcher::RankProcess p =
        launcher::rank_process(program == nullptr ? std::vector<std::string>() : *program);
    const RankPlace place{.rank = rank,
                          .size = plan.ranks,
                          .local_rank = rank,
                          .local_size = plan.ranks,
                          .node = 0,
                          .master_address = "127.0.0.1",
                          .master_port = port};
    COLL_ASSIGN(p.environment, local_environment(place, options.export_env, p.control));
    p.cores = plan.cores[size_t(rank)];
    p.must_bind = plan.must_bind;
    p.null_stdin = program == nullptr || !reads_stdin(options, rank);
    processes.push_back(std::move(p));
  }
  StartedJob job;
  COLL_ASSIGN(job.group, launcher::LocalJob::start(processes));
  job.host_of.assign(size_t(plan.ranks), base::this_host());
  job.gpus_of.assign(size_t(plan.ranks), options.gpus);
  for (int rank = 0; rank < plan.ranks; ++rank) job.local_rank.push_back(rank);
  return job;
}

// "hosts: 12 of 16 up; 3 connecting (node03, node07, node09); 1 failed (node11)"
std::string roster_line(const HostPool& pool) {
  std::vector<std::string> names[int(HostPhase::failed) + 1];
  for (int i = 0; i < pool.size(); ++i)
    names[int(pool.host(i).phase())].push_back(pool.host(i).spec().name);
  std::string line = format("hosts: {} of {} up", names[int(HostPhase::up)].size(), pool.size());
  for (int phase = 0; phase <= int(HostPhase::failed); ++phase) {
    const auto& here = names[phase];
    if (here.empty() || phase == int(HostPhase::up) || phase == int(HostPhase::left)) continue;
    line += format("; {} {} ({})", here.size(), launcher::phase_name(HostPhase(phase)),
                   folded_hosts(here));
  }
  return line;
}

// How many of the hosts, from the first on, get ranks for certain when slots are not known before:
// -n needs no more than that. The others are asked all the same: they were named.
int needed_hosts(const LaunchOptions& options) {
  int hosts = 0, places = 0;
  for (const launcher::HostSpec& host : options.hosts.hosts) {
    const bool enough = options.ranks > 0 && places >= options.ranks;
    if (enough && options.map_by == launcher::MapBy::slot && options.allow_missing == 0) break;
    ++hosts;
    places += options.per_host > 0 ? options.per_host : host.slots.value_or(1);
  }
  return hosts;
}

Status wait_for_hosts(HostPool& pool, const LaunchOptions& options, Signals& signals,
                      Deadline deadline) {
  const bool whole = options.timeout_s > 0 && options.timeout_s < options.start_timeout_s;
  bool over = false;  // the time of the whole job, not only of its start
  // Time in which this process did not run is no host's.
  const int64_t asked_before_ns = launcher::asked_ns();
  const auto until = [&] {
    return whole ? deadline
                 : Deadline::at_ns(deadline.at() + launcher::asked_ns() - asked_before_ns);
  };
  while (!pool.settled()) {
    const int wake = signals.fd();
    COLL_TRY(pool.turn(until(), {&wake, 1}));
    while (const auto number = signals.take())
      if (Interrupts::ends(*number)) return interrupted_error(*number);
    if (options.talk.transient) options.talk.transient(roster_line(pool));
    if (!until().passed()) continue;
    over = whole && !pool.settled();
    pool.fail_late_hosts(whole ? options.timeout_s : options.start_timeout_s,
                         whole ? "--timeout" : "--start-timeout");
  }
  if (options.talk.transient) options.talk.transient("");
  const std::vector<int> failed = pool.failed();
  if (over) {
    Error late = pool.failure(failed);
    late.code = ErrorCode::deadline;
    return late;
  }
  std::vector<int> needed = failed;
  std::erase_if(needed, [&](int host) { return host >= needed_hosts(options); });
  if (int(needed.size()) > options.allow_missing || int(failed.size()) == pool.size())
    return pool.failure(needed.empty() ? failed : needed);
  if (!failed.empty() && options.talk.note)
    options.talk.note("left out: " + pool.failure(failed).message);
  return {};
}

Result<StartedJob> start_on_hosts(const LaunchOptions& options,
                                  const std::vector<std::string>* program, Signals& signals,
                                  std::vector<HostEnd>& hosts) {
  const bool whole = options.timeout_s > 0 && options.timeout_s < options.start_timeout_s;
  const Deadline deadline =
      Deadline::after_seconds(whole ? options.timeout_s : options.start_timeout_s);
  const int64_t asked_before_ns = launcher::asked_ns();
  COLL_ASSIGN(launcher::PoolOptions wanted, pool_options(options));
  wanted.ssh.stop_fd = signals.fd();
  COLL_ASSIGN(std::unique_ptr<HostPool> pool, HostPool::make(options.hosts.hosts, wanted));
  Status ready = wait_for_hosts(*pool, options, signals, deadline);
  update_hosts(*pool, hosts);
  if (!ready) return std::move(ready.error());
  COLL_ASSIGN(const launcher::RemoteStart what, remote_start(*pool, options, program));
  for (size_t host = 0; host < hosts.size(); ++host)
    hosts[host].ranks = what.placement.ranks_of[host];
  if (const std::string idle = idle_hosts_note(hosts, int(what.placement.host_of.size()));
      !idle.empty() && options.talk.note)
    options.talk.note(idle);
  StartedJob job;
  for (const int host : what.placement.host_of) {
    job.host_of.push_back(pool->host(host).spec().host());
    job.gpus_of.push_back(visible_gpus(pool->host(host), options));
  }
  for (int host = 0; host < pool->size(); ++host)
    if (!what.placement.ranks_of[size_t(host)].empty())
      job.gpus.push_back(gpus_of(pool->host(host), options));
  job.local_rank = what.placement.local_rank;
  job.one_host = std::ranges::all_of(what.placement.host_of,
                                     [&](int host) { return host == what.placement.host_of[0]; });
  std::optional<int> ended;  // by which signal; what is meant for programs comes too early here
  const auto stop = [&] {
    while (const auto number = signals.take())
      if (Interrupts::ends(*number)) ended = number;
    return ended.has_value();
  };
  const auto until =
      Deadline::at_ns(deadline.at() + (whole ? 0 : launcher::asked_ns() - asked_before_ns));
  auto started = launcher::RemoteJob::start(std::move(pool), what, until, signals.fd(), stop);
  if (ended) return interrupted_error(*ended);
  if (!started) {
    Error e = std::move(started.error());
    if (e.code == ErrorCode::deadline) e.message += whole ? " (--timeout)" : " (--start-timeout)";
    return e;
  }
  for (const std::string& note : (*started)->notes())
    if (options.talk.note) options.talk.note(note);
  job.remote = started->get();
  job.group = std::move(*started);
  return job;
}

}  // namespace

std::vector<std::string> StartedJob::names() const {
  std::vector<std::string> list;
  for (const Host& host : host_of) list.push_back(host.name);
  return list;
}

bool reads_stdin(const LaunchOptions& options, int rank) {
  return options.stdin_mode == "all" || (options.stdin_mode == "0" && rank == 0);
}

Result<StartedJob> start_job(const LaunchOptions& options, const std::vector<std::string>* program,
                             Signals& signals, std::vector<HostEnd>& hosts) {
  if (options.launcher == LauncherKind::ssh)
    return start_on_hosts(options, program, signals, hosts);
  return start_local(options, program);
}

std::unique_ptr<launcher::Guard> launcher_guard(const LaunchOptions& options) {
  if (options.launcher != LauncherKind::ssh) return nullptr;
  auto guard = launcher::Guard::start(0);
  if (guard) return std::move(*guard);
  COLL_INFO(init, "no guard for what this launcher may leave: {}", guard.error().chain());
  return nullptr;
}

Result<launcher::PoolOptions> pool_options(const LaunchOptions& options) {
  launcher::PoolOptions pool;
  pool.ssh = options.ssh;
  pool.stage.version = base::kVersion;
  pool.stage.path = options.remote_path;
  pool.stage.staging = options.stage;
  pool.stage.patience_s = options.start_timeout_s;
  for (const std::string& given : options.binary_for) {
    const size_t equals = std::min(given.find('='), given.size());
    const std::string machine = given.substr(0, equals);
    if (!launcher::is_machine_name(machine) || equals + 1 >= given.size())
      return Error(ErrorCode::usage, format("--binary-for: expected MACHINE=PATH, got '{}'", given),
                   "--binary-for aarch64=build/aarch64/collctl");
    if (machine == base::machine_name())
      return Error(ErrorCode::usage,
                   format("--binary-for {}: hosts of this architecture get this binary", given),
                   "name those of another one, as uname -m says there");
    pool.binary_for[machine] = given.substr(equals + 1);
  }
  pool.fanout = options.fanout;
  pool.tree_width = options.tree_width;
  pool.always_ssh = options.launcher_named;
  COLL_ASSIGN(pool.heartbeat_s, base::knob_seconds(base::KnobId::heartbeat_timeout));
  return pool;
}

}  // namespace collctl::cmd
