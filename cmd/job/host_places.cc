#include "cmd/job/host_places.h"

#include <unistd.h>

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/site_files.h"
#include "cmd/job/config.h"
#include "kernels/cuda/launcher/launcher.h"

namespace collctl::cmd {
namespace {

using launcher::HostPhase;
using launcher::HostPool;

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

}  // namespace

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

namespace {

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

}  // namespace

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

}  // namespace collctl::cmd
