#include "runtime/plan/peer_info.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/version.h"

namespace collctl::runtime {
namespace {

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = 0;
}

std::string rank_text(const RankCard& card) {
  return format("rank {} (host {})", card.info.rank, card.info.host);
}

// Where each GPU is, to find those that two ranks want.
using GpuPlace = std::tuple<uint64_t, int64_t, std::array<uint8_t, 16>>;  // host, bus, MIG instance

Status check_devices(std::span<const RankCard> cards) {
  std::map<GpuPlace, const RankCard*> used;
  for (const RankCard& card : cards) {
    if (card.info.kind != cards[0].info.kind) {
      const bool first = cards[0].info.kind == transport::DeviceKind::cuda;
      return Error(ErrorCode::usage,
                   format("{} uses a GPU, {} does not", rank_text(first ? cards[0] : card),
                          rank_text(first ? card : cards[0])),
                   "give all ranks the same --device")
          .blame(card.info.rank);
    }
    if (card.device_error != 0)
      return Error(ErrorCode(card.device_error), card.device_text)
          .blame(card.info.rank)
          .within(rank_text(card));
    if (card.info.kind != transport::DeviceKind::cuda) continue;
    const auto [other, fresh] = used.emplace(
        GpuPlace(card.info.host_hash, card.info.bus_id, std::to_array(card.info.device_uuid)),
        &card);
    if (fresh) continue;
    const bool may_share = card.share_device != 0 && other->second->share_device != 0;
    // A driver gives processes turns, not the streams of one: blocks of one rank's kernel that wait
    // for another rank's would hold all places that those need.
    const bool one_process = card.info.process_hash == other->second->info.process_hash;
    if (may_share && !one_process) continue;
    if (may_share)
      return Error(
                 ErrorCode::unavailable,
                 format("rank {} and rank {} share GPU {} of host {} as threads of one process, "
                        "where one's kernels can keep out the kernels it waits for",
                        other->second->info.rank, card.info.rank, card.info.device, card.info.host),
                 "ranks that share a GPU must be processes: --rank-mode process")
          .blame(card.info.rank);
    return Error(ErrorCode::unavailable,
                 format("rank {} and rank {} both want GPU {} of host {} ({})",
                        other->second->info.rank, card.info.rank, card.info.device, card.info.host,
                        card.device_text),
                 "start at most one rank per GPU, or let them share by --oversubscribe")
        .blame(card.info.rank);
  }
  return {};
}

}  // namespace

void act_on_host(RankCard& card, const std::string& host_id) {
  card.info.host_hash = hash_text(host_id);
  card.info.process_hash ^= card.info.host_hash;
}

void add_device(RankCard& card, const Result<transport::DevicePointer>& device, bool may_share) {
  card.info.kind = transport::DeviceKind::cuda;
  card.share_device = may_share ? 1 : 0;
  if (!device) {
    const Error& e = device.error();
    card.device_error = int32_t(e.code);
    copy_text(card.device_text, e.chain() + (e.hint.empty() ? "" : " (" + e.hint + ")"));
    return;
  }
  const transport::DeviceFacts& facts = (*device)->facts();
  card.info.bus_id = facts.bus_number;
  std::ranges::copy(facts.uuid, card.info.device_uuid);
  card.info.compute_capability = facts.compute_capability;
  card.info.device = facts.ordinal;
  card.info.device_memory = facts.memory_bytes;
  card.fd_handles = facts.fd_handles ? 1 : 0;
  if (facts.fabric) {
    std::ranges::copy(facts.fabric->cluster, card.info.fabric_cluster);
    card.info.fabric_clique = facts.fabric->clique;
  }
  copy_text(card.device_text, facts.bus_id);
}

RankCard make_card(int rank, uint64_t job_hash, const Settings& settings, int sharing_ranks,
                   const Address& net_address) {
  RankCard card{};
  transport::PeerInfo& info = card.info;
  info.rank = rank;
  info.pid = int32_t(::getpid());
  info.host_hash = base::host_hash(job_hash);
  info.process_hash = base::process_hash(job_hash);
  info.network_namespace = base::network_namespace();
  info.machine_hash = base::machine_hash(job_hash);
  info.shm_device = base::shm_device();
  info.shm_free_bytes = base::shm_space().free_bytes;
  info.device_memory = base::physical_memory();
  info.settings_hash = hash_text(shared_settings_text(settings));
  info.bus_id = -1;
  info.kind = transport::DeviceKind::cpu;
  info.net_address_length = net_address.length;
  info.net_address = net_address.storage;
  copy_text(info.host, base::host_name());
  copy_text(info.version, base::kVersion);
  card.cores = base::usable_cores();
  card.sharing_ranks = sharing_ranks;
  const std::vector<int> cores = base::affinity_cores();
  if (!cores.empty()) {
    card.first_core = cores.front();
    card.last_core = cores.back();
  }
  card.place = cpu_place(base::host_processors(), cores);
  return card;
}

Status check_cards(std::span<RankCard> cards) {
  std::unordered_map<uint64_t, int32_t> on_host;
  for (size_t r = 0; r < cards.size(); ++r) {
    transport::PeerInfo& info = cards[r].info;
    // They came over the network: make sure that texts end and counts can be divided by.
    info.host[sizeof info.host - 1] = 0;
    info.version[sizeof info.version - 1] = 0;
    cards[r].device_text[sizeof cards[r].device_text - 1] = 0;
    cards[r].cores = std::max(1, cards[r].cores);
    cards[r].sharing_ranks = std::max(0, cards[r].sharing_ranks);
    sanitize(cards[r].place);
    if (info.rank != int(r))
      return Error(ErrorCode::lost, format("rank {} identified itself as rank {}", r, info.rank))
          .blame(int(r));
    if (std::strcmp(info.version, cards[0].info.version) != 0)
      return Error(ErrorCode::usage,
                   format("rank 0 (host {}) runs collctl {}, rank {} (host {}) runs {}",
                          cards[0].info.host, cards[0].info.version, r, info.host, info.version),
                   "start the same binary on every host")
          .blame(int(r));
    if (info.kind == transport::DeviceKind::cpu) info.device = on_host[info.host_hash]++;
  }
  return check_devices(cards);
}

int first_with_other_settings(std::span<const RankCard> cards) {
  for (size_t r = 1; r < cards.size(); ++r)
    if (cards[r].info.settings_hash != cards[0].info.settings_hash) return int(r);
  return -1;
}

Crowding crowding_of(std::span<const RankCard> cards, const HostGroups& hosts) {
  Crowding crowding{.ranks_per_core = 0, .cores_per_rank = 1 << 20};
  for (const auto& host : hosts)
    for (const int32_t r : host) {
      const RankCard& card = cards[size_t(r)];
      // Who is bound to other cores (as mpirun binds) shares none, whatever was said.
      const auto reaches = [&](int32_t other) {
        const RankCard& theirs = cards[size_t(other)];
        return theirs.first_core <= card.last_core && card.first_core <= theirs.last_core;
      };
      const int reached = int(std::count_if(host.begin(), host.end(), reaches));
      const int told = card.sharing_ranks > 0 ? card.sharing_ranks : int(host.size());
      const int ranks = std::max(1, std::min(told, reached));
      crowding.ranks_per_core = std::max(crowding.ranks_per_core, double(ranks) / card.cores);
      crowding.cores_per_rank = std::min(crowding.cores_per_rank, card.cores / ranks);
    }
  crowding.cores_per_rank = std::max(1, crowding.cores_per_rank);
  return crowding;
}

}  // namespace collctl::runtime
