#include "cmd/job/config.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/rank_env.h"
#include "base/record.h"
#include "cmd/job/device_choice.h"
#include "launcher/hosts/placement.h"
#include "launcher/local/rank_start.h"

namespace collctl::cmd {
namespace {

Address loopback() {
  Address a;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&a.storage);
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.length = sizeof(sockaddr_in);
  return a;
}

}  // namespace

static void fields(Record& io, RankConfig& config) {
  io.field("size", config.size, 1);
  io.field("rank", config.rank, 0, config.size - 1);
  io.field("host", config.host);
  io.field("verbosity", config.verbosity);
  io.field("start_timeout_s", config.start_timeout_s);
  io.field("one_host", config.one_host);
  io.field("hosts", config.hosts);
  io.field("task", config.task);
  io.field("settings", config.settings);
  io.document("options", config.options);
  io.field("shrinks", config.shrinks);
}

void fields(Record& io, Roster& roster) {
  io.field("job_size", roster.task.job_size, 1);
  io.field("members", roster.task.members, size_t(std::max(roster.task.job_size, 1)), 0,
           roster.task.job_size - 1);
  io.field("done", roster.task.done);
  const auto most = size_t(std::max(roster.task.job_size, 1));
  io.list(
      "groups", roster.task.groups,
      [&](std::vector<int>& ranks) { io.field("ranks", ranks, most, 0, roster.task.job_size - 1); },
      most);
  io.field("start_timeout_s", roster.start_timeout_s, 0, 1e6);
  io.field("one_host", roster.one_host);
  io.field("hosts", roster.hosts);
}

std::string RankConfig::to_json() const {
  return json_of(*this);
}

Result<RankConfig> RankConfig::from_json(const std::string& text) {
  auto config = record_of<RankConfig>(text);
  if (config) return config;
  return Error(ErrorCode::defect,
               "malformed configuration from the launcher: " + config.error().message);
}

RankSettings completed(const RankSettings& settings, const LaunchOptions& options) {
  RankSettings full = settings;
  if (full.op_timeout_s == 0) full.op_timeout_s = options.op_timeout_s;
  if (full.start_timeout_s == 0) full.start_timeout_s = options.start_timeout_s;
  if (full.verbosity == 0) full.verbosity = options.verbosity;
  full.share_device = options.oversubscribe;
  return full;
}

Result<JobRoot> make_root(bool one_host, std::vector<std::string> hosts) {
  Address at = loopback();
  const std::string names = base::knob_text(base::KnobId::socket_ifname);
  if (!names.empty() || !one_host) {
    COLL_ASSIGN(
        const auto interfaces,
        runtime::find_interfaces(names, base::knob_text(base::KnobId::socket_family), nullptr, 1));
    if (interfaces.empty())
      return Error(ErrorCode::unavailable,
                   names.empty() ? std::string("no network interface that reaches the other hosts")
                                 : format("no network interface matches SOCKET_IFNAME={}", names));
    at = interfaces.front().address;
    // A list that names lo may be meant; one that only excludes others is not.
    if (!one_host && at.is_loopback() && names.starts_with('^'))
      return Error(ErrorCode::unavailable,
                   format("{}={} leaves only loopback on the host of rank 0, which other hosts "
                          "cannot reach",
                          base::knob_value(base::KnobId::socket_ifname).origin, names),
                   "name the interface that reaches the other hosts (ip -brief address)");
    at.set_port(0);
  }
  JobRoot job;
  COLL_ASSIGN(const base::Secret secret, base::random_secret());
  COLL_ASSIGN(job.root, runtime::BootstrapRoot::start(
                            {.listen_at = at, .secret = secret, .hosts = std::move(hosts)}));
  job.id = runtime::UniqueId::make(job.root->address(), secret);
  return job;
}

std::vector<std::string> place_variables(const RankPlace& place) {
  const auto variable = [](const char* name, const auto& value) {
    return format("{}={}", name, value);
  };
  return {variable(base::kEnvRank, place.rank),
          variable(base::kEnvWorldSize, place.size),
          variable(base::kEnvLocalRank, place.local_rank),
          variable(base::kEnvLocalWorldSize, place.local_size),
          variable(base::kEnvNodeRank, place.node),
          variable(base::kEnvMasterAddress, place.master_address),
          variable(base::kEnvMasterPort, place.master_port)};
}

Result<std::vector<std::string>> local_environment(const RankPlace& place,
                                                   const std::vector<std::string>& exported,
                                                   bool ours) {
  std::vector<std::string> list = launcher::inherited_environment(!ours);
  for (const std::string& entry : place_variables(place)) launcher::set_variable(list, entry);
  for (const std::string& entry : exported) {
    const size_t equals = entry.find('=');
    if (equals == 0 || entry.empty())
      return Error(ErrorCode::usage,
                   format("-x '{}': expected NAME, NAME=VALUE or PREFIX*", entry));
    // A bare NAME or PREFIX* is handed on already: local ranks inherit the whole environment.
    if (equals != std::string::npos) launcher::set_variable(list, entry);
  }
  return list;
}

std::vector<std::string> exported_environment(const std::vector<std::string>& exported) {
  std::vector<std::string> list;
  const auto matches = [](const std::string& name, const std::string& pattern) {
    if (pattern.empty() || pattern.back() != '*') return name == pattern;
    return name.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
  };
  for (const std::string& entry : base::environment_list()) {
    const std::string name = entry.substr(0, entry.find('='));
    bool wanted = false;
    for (const base::Knob& knob : base::knobs())
      // Variables from files are passed on elsewhere, behind the other hosts' files (remote_start).
      wanted = wanted || (base::file_of_variable(name).empty() &&
                          (knob.flags & base::kSecret) == 0 && knob.id != base::KnobId::comm_id &&
                          (name == std::string("COLLCTL_") + knob.name || name == knob.nccl_name));
    for (const std::string& pattern : exported)
      wanted = wanted || (pattern.find('=') == std::string::npos && matches(name, pattern));
    if (wanted && name != "COLLCTL_TOKEN" && !name.empty()) list.push_back(entry);
  }
  for (const std::string& entry : exported)
    if (entry.find('=') != std::string::npos) launcher::set_variable(list, entry);
  return list;
}

RankSettings for_rank(const RankSettings& settings, int local_rank, int gpus) {
  RankSettings own = settings;
  own.device = settings.device_request != DeviceRequest::cuda ? -1
               : gpus > 0                                     ? local_rank % gpus
                                                              : local_rank;
  return own;
}

Result<LocalPlan> plan_local(const LaunchOptions& options, bool program) {
  LocalPlan plan;
  // A program may compute on GPUs or not: count ranks as the agents count their hosts' slots.
  const int gpus = program ? int(launcher::visible_gpus(base::environment("CUDA_VISIBLE_DEVICES"),
                                                        base::nvidia_gpus_here())
                                     .size())
                           : options.gpus;
  plan.ranks = options.ranks > 0 ? options.ranks : gpus > 0 ? gpus : base::usable_cores();
  if (options.gpus > 0)
    COLL_TRY(check_gpus(base::host_name(), plan.ranks, options.gpus, options.oversubscribe));
  COLL_ASSIGN(const launcher::BindTo bind_to,
              program ? launcher::parse_bind_to(options.bind_to)
                      : launcher::bind_of(options.bind_to, options.gpus > 0));
  plan.cores = launcher::place_here(plan.ranks, bind_to);
  plan.must_bind = bind_to != launcher::BindTo::own;
  return plan;
}

}  // namespace collctl::cmd
