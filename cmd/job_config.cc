#include "cmd/job_config.h"

#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/rank_env.h"
#include "launcher/adopt.h"
#include "launcher/placement.h"

namespace collctl::cmd {
namespace {

using nlohmann::json;

// Replaces or adds NAME=value.
void set_variable(std::vector<std::string>& list, const std::string& name,
                  const std::string& value) {
  std::erase_if(list, [&](const std::string& e) { return e.rfind(name + "=", 0) == 0; });
  list.push_back(name + "=" + value);
}

void unset_variable(std::vector<std::string>& list, const std::string& name) {
  std::erase_if(list, [&](const std::string& e) { return e.rfind(name + "=", 0) == 0; });
}

Address loopback() {
  Address a;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&a.storage);
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.length = sizeof(sockaddr_in);
  return a;
}

}  // namespace

std::string RankConfig::to_json() const {
  return json{{"rank", rank},           {"size", size},
              {"verbosity", verbosity}, {"start_timeout_s", start_timeout_s},
              {"one_host", one_host},   {"hosts", hosts},
              {"spec", spec.to_json()}}
      .dump();
}

Result<RankConfig> RankConfig::from_json(const std::string& text) {
  const json j = json::parse(text, nullptr, false);
  const Error bad(ErrorCode::defect, "malformed configuration from the launcher");
  if (!j.is_object()) return bad;
  RankConfig c;
  const auto whole = [&](const char* key, int& to) {
    if (!j.contains(key) || !j[key].is_number_integer()) return false;
    to = j[key].get<int>();
    return true;
  };
  if (!whole("rank", c.rank) || !whole("size", c.size) || !whole("verbosity", c.verbosity) ||
      !j.contains("start_timeout_s") || !j["start_timeout_s"].is_number() || !j.contains("spec") ||
      !j["spec"].is_string() || !j.contains("one_host") || !j["one_host"].is_boolean() ||
      !j.contains("hosts") || !j["hosts"].is_array() || c.size < 1 || c.rank < 0 ||
      c.rank >= c.size)
    return bad;
  c.start_timeout_s = j["start_timeout_s"].get<double>();
  c.one_host = j["one_host"].get<bool>();
  for (const json& host : j["hosts"])
    if (host.is_string()) c.hosts.push_back(host.get<std::string>());
  COLL_ASSIGN(c.spec, BenchSpec::from_json(j["spec"].get<std::string>()));
  return c;
}

BenchSpec completed(const BenchSpec& spec, const LaunchOptions& options) {
  BenchSpec full = spec;
  if (full.op_timeout_s == 0) full.op_timeout_s = options.op_timeout_s;
  if (full.start_timeout_s == 0) full.start_timeout_s = options.start_timeout_s;
  if (full.verbosity == 0) full.verbosity = options.verbosity;
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
                   names.empty() ? std::string("no network interface to meet the other hosts on")
                                 : format("no network interface matches SOCKET_IFNAME={}", names));
    at = interfaces.front().address;
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
  std::vector<std::string> list;
  set_variable(list, base::kEnvRank, std::to_string(place.rank));
  set_variable(list, base::kEnvWorldSize, std::to_string(place.size));
  set_variable(list, base::kEnvLocalRank, std::to_string(place.local_rank));
  set_variable(list, base::kEnvLocalWorldSize, std::to_string(place.local_size));
  set_variable(list, base::kEnvNodeRank, std::to_string(place.node));
  set_variable(list, base::kEnvMasterAddress, place.master_address);
  set_variable(list, base::kEnvMasterPort, std::to_string(place.master_port));
  return list;
}

Result<std::vector<std::string>> local_environment(const RankPlace& place,
                                                   const std::vector<std::string>& exported,
                                                   bool ours) {
  std::vector<std::string> list = base::environment_list();
  unset_variable(list, "COLLCTL_TOKEN");
  for (const char* name : launcher::inner_rank_variables()) unset_variable(list, name);
  if (ours) {
    unset_variable(list, "COLLCTL_COMM_ID");
    unset_variable(list, "NCCL_COMM_ID");
  }
  for (const std::string& entry : place_variables(place))
    set_variable(list, entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1));
  for (const std::string& entry : exported) {
    const size_t equals = entry.find('=');
    if (equals == 0 || entry.empty())
      return Error(ErrorCode::usage,
                   format("-x '{}': expected NAME, NAME=VALUE or PREFIX*", entry));
    // A bare NAME or PREFIX* is handed on already: local ranks inherit the whole environment.
    if (equals != std::string::npos)
      set_variable(list, entry.substr(0, equals), entry.substr(equals + 1));
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
      wanted = wanted || ((knob.flags & base::kSecret) == 0 && knob.id != base::KnobId::comm_id &&
                          (name == std::string("COLLCTL_") + knob.name || name == knob.field_name));
    for (const std::string& pattern : exported)
      wanted = wanted || (pattern.find('=') == std::string::npos && matches(name, pattern));
    if (wanted && name != "COLLCTL_TOKEN" && !name.empty()) list.push_back(entry);
  }
  for (const std::string& entry : exported)
    if (const size_t equals = entry.find('='); equals != std::string::npos)
      set_variable(list, entry.substr(0, equals), entry.substr(equals + 1));
  return list;
}

Result<uint16_t> free_port() {
  COLL_ASSIGN(const base::Fd fd, base::listen_tcp(loopback()));
  COLL_ASSIGN(const Address at, base::local_address(fd.get()));
  return at.port();
}

Result<LocalPlan> plan_local(const LaunchOptions& options) {
  LocalPlan plan;
  plan.ranks = options.ranks > 0 ? options.ranks : base::usable_cores();
  COLL_ASSIGN(const launcher::BindTo bind_to, launcher::parse_bind_to(options.bind_to));
  plan.cores =
      launcher::place_local(plan.ranks, bind_to, base::affinity_cores(), base::numa_nodes());
  return plan;
}

}  // namespace collctl::cmd
