#include "runtime/plan/rank_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/printable.h"
#include "base/version.h"

namespace collctl::runtime {
namespace {

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = 0;
}

std::string rank_text(const RankFacts& facts) {
  return format("rank {} (host {})", facts.info.rank, facts.info.host);
}

// Where each GPU is, to find those that two ranks want.
using GpuPlace = std::tuple<uint64_t, int64_t, std::array<uint8_t, 16>>;  // host, bus, MIG instance

Status check_devices(std::span<const RankFacts> all_facts) {
  std::map<GpuPlace, const RankFacts*> used;
  for (const RankFacts& facts : all_facts) {
    if (facts.info.kind != all_facts[0].info.kind) {
      const bool first = all_facts[0].info.kind == transport::DeviceKind::cuda;
      return Error(ErrorCode::usage,
                   format("{} uses a GPU, {} does not", rank_text(first ? all_facts[0] : facts),
                          rank_text(first ? facts : all_facts[0])),
                   "give all ranks the same --device")
          .blame(facts.info.rank);
    }
    if (facts.device_error != 0)
      return Error(ErrorCode(facts.device_error), facts.device_text)
          .blame(facts.info.rank)
          .within(rank_text(facts));
    if (facts.info.kind != transport::DeviceKind::cuda) continue;
    const auto [other, fresh] = used.emplace(
        GpuPlace(facts.info.host_hash, facts.info.bus_id, std::to_array(facts.info.device_uuid)),
        &facts);
    if (fresh) continue;
    const bool may_share = facts.share_device != 0 && other->second->share_device != 0;
    // A driver gives processes turns, not the streams of one: blocks of one rank's kernel that wait
    // for another rank's would hold all places that those need.
    const bool one_process = facts.info.process_hash == other->second->info.process_hash;
    if (may_share && !one_process) continue;
    if (may_share)
      return Error(ErrorCode::unavailable,
                   format("rank {} and rank {} share GPU {} of host {} as threads of one process, "
                          "where one's kernels can keep out the kernels it waits for",
                          other->second->info.rank, facts.info.rank, facts.info.device,
                          facts.info.host),
                   "ranks that share a GPU must be processes: --rank-mode process")
          .blame(facts.info.rank);
    return Error(ErrorCode::unavailable,
                 format("rank {} and rank {} both want GPU {} of host {} ({})",
                        other->second->info.rank, facts.info.rank, facts.info.device,
                        facts.info.host, facts.device_text),
                 "start at most one rank per GPU, or let them share by --oversubscribe")
        .blame(facts.info.rank);
  }
  return {};
}

}  // namespace

void put_on_host(RankFacts& facts, const std::string& host_id) {
  facts.info.host_hash = hash_text(host_id);
  facts.info.process_hash ^= facts.info.host_hash;
}

void add_device(RankFacts& facts, const Result<transport::DevicePointer>& device, bool may_share) {
  facts.info.kind = transport::DeviceKind::cuda;
  facts.share_device = may_share ? 1 : 0;
  if (!device) {
    const Error& e = device.error();
    facts.device_error = int32_t(e.code);
    copy_text(facts.device_text, e.chain() + (e.hint.empty() ? "" : " (" + e.hint + ")"));
    return;
  }
  const transport::DeviceFacts& gpu = (*device)->facts();
  facts.info.bus_id = gpu.bus_number;
  std::ranges::copy(gpu.uuid, facts.info.device_uuid);
  facts.info.compute_capability = gpu.compute_capability;
  facts.info.device = gpu.ordinal;
  facts.info.device_memory = gpu.memory_bytes;
  facts.fd_handles = gpu.fd_handles ? 1 : 0;
  if (gpu.fabric) {
    std::ranges::copy(gpu.fabric->cluster, facts.info.fabric_cluster);
    facts.info.fabric_clique = gpu.fabric->clique;
  }
  copy_text(facts.device_text, gpu.bus_id);
}

void add_network(RankFacts& facts, const std::string& name, double gbps, int socket_interfaces) {
  copy_text(facts.net_name, name);
  facts.net_gbps = float(gbps);
  facts.socket_interfaces = uint8_t(socket_interfaces);
}

void add_tuner(RankFacts& facts, const std::string& identity) {
  copy_text(facts.tuner, identity);
}

RankFacts own_facts(int rank, uint64_t job_hash, const Settings& settings, int sharing_ranks,
                    const Address& net_address) {
  RankFacts facts{};
  transport::PeerInfo& info = facts.info;
  info.rank = rank;
  info.pid = int32_t(::getpid());
  info.host_hash = base::host_hash(job_hash);
  info.process_hash = base::process_hash(job_hash);
  info.network_namespace = base::network_namespace();
  info.machine_hash = base::machine_hash(job_hash);
  info.shm_device = base::shm_device();
  info.shm_free_bytes = base::shm_space().free_bytes;
  info.device_memory = base::physical_memory();
  info.memory_group = uint32_t(base::cgroup_limits().memory_group);
  info.settings_hash = hash_text(shared_settings_text(settings));
  if (settings.single_copy) info.mark = base::memory_mark();
  info.bus_id = -1;
  info.kind = transport::DeviceKind::cpu;
  info.net_address_length = net_address.length;
  info.net_address = net_address.storage;
  info.host_id = int32_t(base::this_host().id);
  copy_text(info.host, base::host_name());
  copy_text(info.version, base::kVersion);
  facts.cores = base::usable_cores();
  facts.sharing_ranks = sharing_ranks;
  const std::vector<int> cores = base::affinity_cores();
  for (const int core : cores)
    facts.core_bits[core % RankFacts::kCoreBits / 64] |= uint64_t{1} << core % 64;
  facts.place = cpu_place(base::host_processors(), cores);
  return facts;
}

namespace {

Status check_tuners(std::span<const RankFacts> all_facts) {
  const auto text = [](const RankFacts& facts) {
    return facts.tuner[0] == 0 ? std::string("none") : base::printable(facts.tuner);
  };
  for (const RankFacts& facts : all_facts)
    if (std::strcmp(facts.tuner, all_facts[0].tuner) != 0)
      return Error(ErrorCode::usage,
                   format("{} has the tuner plugin {}, {} has {}", rank_text(all_facts[0]),
                          text(all_facts[0]), rank_text(facts), text(facts)),
                   "give every rank the same COLLCTL_TUNER_PLUGIN; none: no tuner")
          .blame(facts.info.rank);
  return {};
}

}  // namespace

Status check_facts(std::span<RankFacts> all_facts) {
  std::unordered_map<uint64_t, int32_t> on_host;
  for (size_t r = 0; r < all_facts.size(); ++r) {
    transport::PeerInfo& info = all_facts[r].info;
    // They came over the network: make sure that texts end and counts can be divided by.
    info.host[sizeof info.host - 1] = 0;
    info.version[sizeof info.version - 1] = 0;
    all_facts[r].device_text[sizeof all_facts[r].device_text - 1] = 0;
    all_facts[r].net_name[sizeof all_facts[r].net_name - 1] = 0;
    all_facts[r].tuner[sizeof all_facts[r].tuner - 1] = 0;
    if (!(all_facts[r].net_gbps > 0 && all_facts[r].net_gbps < 1e5F)) all_facts[r].net_gbps = 0;
    if (all_facts[r].socket_interfaces > transport::kMostInterfaces)
      all_facts[r].socket_interfaces = 0;
    all_facts[r].cores = std::max(1, all_facts[r].cores);
    all_facts[r].sharing_ranks = std::max(0, all_facts[r].sharing_ranks);
    all_facts[r].core_ranks = std::max(0, all_facts[r].core_ranks);
    sanitize(all_facts[r].place);
    if (info.rank != int(r))
      return Error(ErrorCode::lost, format("rank {} identified itself as rank {}", r, info.rank))
          .blame(int(r));
    if (std::strcmp(info.version, all_facts[0].info.version) != 0)
      return Error(ErrorCode::usage,
                   format("rank 0 (host {}) runs collctl {}, rank {} (host {}) runs {}",
                          all_facts[0].info.host, all_facts[0].info.version, r, info.host,
                          info.version),
                   "start the same binary on every host")
          .blame(int(r));
    if (info.kind == transport::DeviceKind::cpu) info.device = on_host[info.host_hash]++;
  }
  COLL_TRY(check_tuners(all_facts));
  return check_devices(all_facts);
}

int first_with_other_settings(std::span<const RankFacts> all_facts) {
  for (size_t r = 1; r < all_facts.size(); ++r)
    if (all_facts[r].info.settings_hash != all_facts[0].info.settings_hash) return int(r);
  return -1;
}

namespace {

// Whether two ranks of one host share memory, by their process or by shared memory.
bool share_memory(const transport::PeerInfo& a, const transport::PeerInfo& b,
                  const Settings& settings) {
  if (a.process_hash == b.process_hash && !settings.p2p_disabled) return true;
  return !settings.shm_disabled && a.shm_device != 0 && a.shm_device == b.shm_device;
}

}  // namespace

NetworkPath network_path(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                         const Settings& settings) {
  NetworkPath path;
  path.used = hosts.size() > 1 || settings.transport == "net";
  path.rdma = true;
  for (const auto& host : hosts) {
    path.ranks_per_host = std::max(path.ranks_per_host, int(host.size()));
    for (const int32_t rank : host)
      path.used |= !share_memory(all_facts[size_t(rank)].info, all_facts[size_t(host.front())].info,
                                 settings);
  }
  constexpr uint8_t kRdma = transport::kNetInfiniBand | transport::kNetRoce;
  path.interfaces = all_facts[0].socket_interfaces;
  for (const RankFacts& facts : all_facts) {
    path.interfaces = std::min<int>(path.interfaces, facts.socket_interfaces);
    path.rdma &= (facts.info.nets & kRdma) != 0;
    const double gbps = double(facts.net_gbps);
    if (path.words.empty() && facts.net_name[0] != 0)
      path.words = base::printable(format("{} of {}", facts.net_name, facts.info.host));
    if (gbps <= 0 || (path.gbps > 0 && path.gbps <= gbps)) continue;
    path.gbps = gbps;
    path.words = base::printable(
        format("{} of {}, {:g} Gb/s", facts.net_name, facts.info.host, std::round(gbps * 80) / 10));
  }
  return path;
}

namespace {

// How many ranks of the host may run where this one may, itself among them; those without any bits
// may run anywhere.
int reached_by(std::span<const RankFacts> all_facts, const std::vector<int32_t>& host, int rank) {
  const RankFacts& facts = all_facts[size_t(rank)];
  return int(std::count_if(host.begin(), host.end(), [&](int32_t other) {
    const RankFacts& theirs = all_facts[size_t(other)];
    uint64_t mine = 0, their = 0, common = 0;
    for (size_t i = 0; i < std::size(facts.core_bits); ++i) {
      mine |= facts.core_bits[i];
      their |= theirs.core_bits[i];
      common |= facts.core_bits[i] & theirs.core_bits[i];
    }
    return other == rank || common != 0 || mine == 0 || their == 0;
  }));
}

}  // namespace

bool has_own_cores(std::span<const RankFacts> all_facts, const std::vector<int32_t>& host,
                   int rank) {
  return all_facts[size_t(rank)].core_ranks <= 1 && reached_by(all_facts, host, rank) == 1;
}

int core_ranks(std::span<const RankFacts> all_facts, const std::vector<int32_t>& host, int rank) {
  const RankFacts& facts = all_facts[size_t(rank)];
  if (facts.core_ranks > 0) return facts.core_ranks;
  // A rank bound to other cores (as mpirun binds) shares no core, whatever was said.
  const int told = facts.sharing_ranks > 0 ? facts.sharing_ranks : int(host.size());
  return std::max(1, std::min(told, reached_by(all_facts, host, rank)));
}

Crowding crowding_of(std::span<const RankFacts> all_facts, const HostGroups& hosts) {
  Crowding crowding{.ranks_per_core = 0, .cores_per_rank = 1 << 20};
  for (const auto& host : hosts)
    for (const int32_t r : host) {
      const RankFacts& facts = all_facts[size_t(r)];
      const int ranks = core_ranks(all_facts, host, r);
      crowding.ranks_per_core = std::max(crowding.ranks_per_core, double(ranks) / facts.cores);
      crowding.cores_per_rank = std::min(crowding.cores_per_rank, facts.cores / ranks);
    }
  crowding.cores_per_rank = std::max(1, crowding.cores_per_rank);
  return crowding;
}

}  // namespace collctl::runtime
