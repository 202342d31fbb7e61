#include "cmd/job/start.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/site_files.h"
#include "base/socket.h"
#include "base/version.h"
#include "cmd/job/config.h"
#include "cmd/text/hosts.h"
#include "kernels/cuda/launcher/launcher.h"
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

std::string join_ints(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) text += format("{}{}", text.empty() ? "" : ",", value);
  return text;
}

// CUDA_VISIBLE_DEVICES of the ranks, where the hostfile or -x says it; else it is the host's own.
std::optional<std::string> given_visible(const launcher::HostLink& host,
                                         const LaunchOptions& options) {
  using Devices = launcher::HostSpec::Devices;
  const launcher::HostSpec& spec = host.spec();
  if (spec.devices == Devices::none) return "";
  if (spec.devices == Devices::listed) return join_ints(spec.device_list);
  constexpr std::string_view kName = "CUDA_VISIBLE_DEVICES=";
  for (const std::string& variable : exported_environment(options.export_env))
    if (variable.starts_with(kName)) return variable.substr(kName.size());
  return std::nullopt;
}

int visible_gpus(const launcher::HostLink& host, const LaunchOptions& options) {
  const int all = host.hello().gpus;
  const auto given = given_visible(host, options);
  return given ? launcher::gpus_left(*given, all) : all;
}

// GPUs of a host: from its own answer and this launcher's knowledge of the ranks there.
HostGpus gpus_of(const launcher::HostLink& host, const LaunchOptions& options) {
  using Devices = launcher::HostSpec::Devices;
  const launcher::AgentHello& hello = host.hello();
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  HostGpus gpus;
  gpus.host = host.spec().host();
  gpus.usable = kernels.built ? visible_gpus(host, options) : 0;
  gpus.there = std::max(hello.gpus_on_pci, hello.gpus);
  if (!hello.visible.empty()) gpus.visible = hello.visible[0];
  if (const auto variable = given_visible(host, options)) gpus.visible = *variable;
  gpus.left_out = host.spec().devices == Devices::none;
  if (!kernels.built)
    gpus.why_not = kernels.why_not;
  else if (gpus.visible)
    gpus.why_not = format("CUDA_VISIBLE_DEVICES={} names none", *gpus.visible);
  else if (hello.driver.empty())
    gpus.why_not = "no NVIDIA driver is loaded";
  else
    gpus.why_not = format("driver {} shows no GPU whose device file is there", hello.driver);
  return gpus;
}

// A host that names no slots has as many as this one has ranks by default: plan_local says how.
int default_ranks(const launcher::HostLink& host, const LaunchOptions& options, bool program) {
  const int gpus = program || options.gpus_on_hosts ? visible_gpus(host, options) : 0;
  return gpus > 0 ? gpus : std::max(host.hello().cores, 1);
}

Result<launcher::JobPlacement> place(const HostPool& pool, const LaunchOptions& options,
                                     bool program) {
  std::vector<launcher::HostSpec> specs;
  std::vector<int> index;  // into the pool
  for (int i = 0; i < pool.size(); ++i) {
    if (pool.host(i).phase() != HostPhase::up) continue;
    specs.push_back(pool.host(i).spec());
    if (!specs.back().slots) specs.back().slots = default_ranks(pool.host(i), options, program);
    index.push_back(i);
  }
  std::vector<launcher::HostSlots> slots = launcher::host_slots(specs, 1);
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i].slots_said = pool.host(index[i]).spec().slots.has_value();
  launcher::PlaceOptions wanted{.ranks = options.ranks,
                                .per_host = options.per_host,
                                .map_by = options.map_by,
                                .oversubscribe = options.oversubscribe};
  int total = 0;
  for (const auto& host : slots) total += options.per_host > 0 ? options.per_host : host.slots;
  // Hosts that were left out take their ranks along.
  if (!pool.failed().empty() && !wanted.oversubscribe) wanted.ranks = std::min(wanted.ranks, total);
  COLL_ASSIGN(const launcher::JobPlacement found, launcher::place_ranks(slots, wanted));
  launcher::JobPlacement placement = found;
  placement.ranks_of.assign(size_t(pool.size()), {});
  for (size_t i = 0; i < index.size(); ++i)
    placement.ranks_of[size_t(index[i])] = found.ranks_of[i];
  for (int& host : placement.host_of) host = index[size_t(host)];
  return placement;
}

// Devices that the hostfile gives a host, as the variables that every tool reads.
void add_devices(std::vector<std::string>& environment, const launcher::HostSpec& spec) {
  using Devices = launcher::HostSpec::Devices;
  if (spec.devices == Devices::none) environment.push_back("CUDA_VISIBLE_DEVICES=");
  if (spec.devices == Devices::listed)
    environment.push_back("CUDA_VISIBLE_DEVICES=" + join_ints(spec.device_list));
  std::string nics;
  for (const std::string& nic : spec.nics) nics += (nics.empty() ? "" : ",") + nic;
  if (!nics.empty()) environment.push_back("COLLCTL_IB_HCA=" + nics);
}

std::string master_address(const launcher::HostLink& host) {
  if (!host.spec().address.empty()) return host.spec().address;
  return host.hello().address.empty() ? host.spec().name : host.hello().address;
}

Result<launcher::RemoteStart> remote_start(const HostPool& pool, const LaunchOptions& options,
                                           const std::vector<std::string>* program) {
  launcher::RemoteStart start;
  COLL_ASSIGN(start.placement, place(pool, options, program != nullptr));
  const auto& placement = start.placement;
  const auto exported = exported_environment(options.export_env);
  start.defaults = base::site_variables();
  for (int host = 0; host < pool.size(); ++host) {
    start.environment.push_back(exported);
    add_devices(start.environment.back(), pool.host(host).spec());
  }
  std::vector<int> node(size_t(pool.size()), -1);  // the host's number among those with ranks
  int nodes = 0;
  for (size_t host = 0; host < node.size(); ++host)
    if (!placement.ranks_of[host].empty()) node[host] = nodes++;
  const int size = int(placement.host_of.size());
  const launcher::HostLink& first = pool.host(placement.host_of.at(0));
  for (int rank = 0; rank < size; ++rank) {
    const auto host = size_t(placement.host_of[size_t(rank)]);
    launcher::AgentRank r;
    if (program != nullptr) r.argv = *program;
    r.null_stdin = program == nullptr || !reads_stdin(options, rank);
    r.environment =
        place_variables({.rank = rank,
                         .size = size,
                         .local_rank = placement.local_rank[size_t(rank)],
                         .local_size = int(placement.ranks_of[host].size()),
                         .node = node[host],
                         .master_address = nodes == 1 ? "127.0.0.1" : master_address(first),
                         .master_port = first.hello().free_port});
    start.ranks.push_back(std::move(r));
  }
  char folder[4096];
  if (::getcwd(folder, sizeof folder) != nullptr) start.folder = folder;
  const bool on_gpus =
      options.gpus_on_hosts && std::ranges::all_of(placement.host_of, [&](int host) {
        return visible_gpus(pool.host(host), options) > 0;
      });
  COLL_ASSIGN(const launcher::BindTo bind_to, program != nullptr
                                                  ? launcher::parse_bind_to(options.bind_to)
                                                  : launcher::bind_of(options.bind_to, on_gpus));
  start.bind_to = launcher::name_of(bind_to);
  COLL_ASSIGN(start.heartbeat_s, base::knob_seconds(base::KnobId::heartbeat_timeout));
  start.grace_s = options.grace_s;
  return start;
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

void update_hosts(const HostPool& pool, std::vector<HostEnd>& hosts) {
  hosts.resize(size_t(pool.size()));
  for (int i = 0; i < pool.size(); ++i) {
    const launcher::HostLink& link = pool.host(i);
    HostEnd& end = hosts[size_t(i)];
    end.host = link.spec().host();
    if (end.bootstrapping < 0 || link.error()) end.phase = launcher::phase_name(link.phase());
    end.client = link.client();
    end.times = link.times();
    // One that is lost after all its ranks have ended took its part.
    if (end.done < 0) end.error = link.error();
  }
}

void note_progress(std::vector<HostEnd>& hosts, const launcher::RankGroup& group, int rank,
                   const std::function<bool(int)>& running, double now_s) {
  for (HostEnd& host : hosts) {
    const auto& ranks = host.ranks;
    if (std::ranges::find(ranks, rank) == ranks.end()) continue;
    const bool ended = std::ranges::none_of(ranks, [&](int r) { return group.running(r); });
    if (host.bootstrapping < 0) host.bootstrapping = now_s;
    if (host.running < 0 && std::ranges::all_of(ranks, running)) host.running = now_s;
    if (host.done < 0 && ended && !host.error) host.done = now_s;
    host.phase = host.done >= 0 ? "done" : host.running >= 0 ? "running" : "bootstrapping";
    return;
  }
}

std::optional<Error> left_out(const std::vector<HostEnd>& hosts) {
  std::vector<std::string> names;
  for (const HostEnd& host : hosts)
    if (host.error) names.push_back(host.host.name);
  if (names.empty()) return std::nullopt;
  return Error(ErrorCode::incomplete, format("{} of {} hosts took no part: {}", names.size(),
                                             hosts.size(), folded_hosts(names)));
}

std::string idle_hosts_note(const std::vector<HostEnd>& hosts, int ranks) {
  std::vector<std::string> idle;  // those left out have a note of their own
  for (const HostEnd& host : hosts)
    if (host.ranks.empty() && !host.error) idle.push_back(host.host.name);
  if (idle.empty()) return "";
  const int all = int(hosts.size());
  std::string spread = "--map-by host";
  if (ranks < all) spread = format("-n {} --map-by host", all);
  if (ranks >= all && ranks % all == 0) spread += format(" or -N {}", ranks / all);
  return format("no ranks on {} of {} hosts: {}; {} puts some on every host", idle.size(), all,
                folded_hosts(idle), spread);
}

void forward_talk(launcher::RemoteJob& job, const LaunchOptions& options) {
  for (const auto& [host, text] : job.take_talk()) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (options.talk.note) options.talk.note(format("{}: {}", host, line));
  }
}

}  // namespace collctl::cmd
