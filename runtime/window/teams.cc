// Teams: which ranks map each other's memory, and how many addresses each gets.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "runtime/request/settings.h"
#include "runtime/window/user_window.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kStrideGrain = uint64_t(4) << 30;
constexpr uint64_t kLeastGrain = 2 << 20;  // pages of GPUs
// A part of a process's 128 TiB of addresses. ThreadSanitizer leaves little more than one TiB.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kMostReserved = uint64_t(1) << 38;
#else
constexpr uint64_t kMostReserved = uint64_t(1) << 44;
#endif

bool map_each_other(const transport::PeerInfo& a, const transport::PeerInfo& b,
                    const Settings& settings) {
  const bool one_process = a.process_hash == b.process_hash;
  if (!pass_descriptors(a, b)) return false;
  if (settings.transport == "net") return false;
  if (a.kind == transport::DeviceKind::cuda) return !settings.p2p_disabled;
  return !settings.shm_disabled || (one_process && !settings.p2p_disabled);
}

using Domain = std::pair<std::array<uint8_t, 16>, uint32_t>;

// The GPU's NVLink domain over hosts, if it is in one.
std::optional<Domain> domain_of(const transport::PeerInfo& peer, const Settings& settings) {
  const auto cluster = std::to_array(peer.fabric_cluster);
  if (peer.kind != transport::DeviceKind::cuda || cluster == std::array<uint8_t, 16>{} ||
      settings.p2p_disabled || settings.transport == "net")
    return std::nullopt;
  return Domain{cluster, peer.fabric_clique};
}

// Teams of hosts become one where all their GPUs are in one NVLink domain; a host with a GPU
// outside of it stays by itself, because that GPU could not map the others'.
void join_teams(std::span<const transport::PeerInfo> peers, const Settings& settings,
                std::vector<int>& teams) {
  std::map<int, std::optional<Domain>> of_team;
  for (size_t r = 0; r < peers.size(); ++r) {
    const auto mine = domain_of(peers[r], settings);
    const auto [entry, fresh] = of_team.emplace(teams[r], mine);
    if (!fresh && entry->second != mine) entry->second.reset();
  }
  std::map<Domain, int> leaders;  // teams are found by their lowest rank, in ascending order
  for (int& team : teams)
    if (const auto& domain = of_team[team]) team = leaders.emplace(*domain, team).first->second;
}

uint64_t round_down(uint64_t value, uint64_t grain) {
  return value / grain * grain;
}

}  // namespace

bool pass_descriptors(const transport::PeerInfo& a, const transport::PeerInfo& b) {
  return a.host_hash == b.host_hash && a.network_namespace == b.network_namespace &&
         a.shm_device == b.shm_device;
}

std::vector<int> window_teams(std::span<const transport::PeerInfo> peers, const Settings& settings,
                              bool over_hosts) {
  std::vector<int> teams;
  for (size_t r = 0; r < peers.size(); ++r) {
    // All that the rules compare is equal or not, so the first match stands for its whole team.
    int leader = int(r);
    for (size_t other = 0; other < r && leader == int(r); ++other)
      if (teams[other] == int(other) && map_each_other(peers[other], peers[r], settings))
        leader = int(other);
    teams.push_back(leader);
  }
  if (over_hosts) join_teams(peers, settings, teams);
  return teams;
}

std::vector<int> teams_within_reach(std::span<const int> teams, std::span<const Bytes> reach) {
  std::map<int, std::vector<int>> members;
  for (size_t r = 0; r < teams.size(); ++r) members[teams[r]].push_back(int(r));
  std::vector<int> cut(teams.size());
  for (const auto& team : members) {
    const std::vector<int>& ranks = team.second;
    const auto reaches = [&](size_t from, size_t to) {
      const Bytes& row = reach[size_t(ranks[from])];
      return row.size() <= to || row[to] != 0;
    };
    std::vector<std::vector<size_t>> parts;  // places in `ranks`
    for (size_t at = 0; at < ranks.size(); ++at) {
      const auto fits = [&](const std::vector<size_t>& part) {
        return std::all_of(part.begin(), part.end(),
                           [&](size_t other) { return reaches(at, other) && reaches(other, at); });
      };
      auto part = std::find_if(parts.begin(), parts.end(), fits);
      if (part == parts.end()) part = parts.emplace(parts.end());
      part->push_back(at);
      cut[size_t(ranks[at])] = ranks[part->front()];
    }
  }
  return cut;
}

uint64_t window_stride(std::span<const transport::PeerInfo> peers, std::span<const int> teams,
                       uint64_t setting) {
  if (setting != 0) return (setting + kLeastGrain - 1) / kLeastGrain * kLeastGrain;
  uint64_t most_memory = 1, most_slots = 1;
  std::map<int, uint64_t> members;
  std::map<uint64_t, std::vector<size_t>> processes;
  for (size_t r = 0; r < peers.size(); ++r) {
    most_memory = std::max(most_memory, peers[r].device_memory);
    ++members[teams[r]];
    processes[peers[r].process_hash].push_back(r);
  }
  for (const auto& [process, ranks] : processes) {
    uint64_t slots = 0;
    for (const size_t r : ranks) slots += members[teams[r]];
    most_slots = std::max(most_slots, slots);
  }
  const uint64_t wanted = (most_memory + kStrideGrain - 1) / kStrideGrain * kStrideGrain;
  const uint64_t possible = kMostReserved / most_slots;
  if (wanted <= possible) return wanted;
  return std::max(kLeastGrain,
                  round_down(possible, possible >= kStrideGrain ? kStrideGrain : kLeastGrain));
}

}  // namespace collctl::runtime
