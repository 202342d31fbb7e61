#include "runtime/plan/reach.h"

#include "base/format.h"
#include "kernels/contract/window.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kLeastBlockBytes = 64;  // of a bank, where it holds one for each rank

}  // namespace

std::string why_no_window(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                          const Settings& settings) {
  if (settings.window_bytes == 0) return "WINDOW_BYTES is 0";
  if (all_facts.size() < 2) return "there is one rank only";
  if (hosts.size() > 1) return "the ranks are on several hosts";
  if (all_facts.size() > size_t(kernels::kMaxWindowRanks))
    return format("{} ranks are more than {}", all_facts.size(), kernels::kMaxWindowRanks);
  if (settings.window_bytes / all_facts.size() < kLeastBlockBytes)
    return format("WINDOW_BYTES={} has less than {} bytes for each of {} ranks",
                  settings.window_bytes, kLeastBlockBytes, all_facts.size());
  if (settings.transport == "net") return "only the transport 'net' is allowed";
  const transport::PeerInfo& first = all_facts[0].info;
  for (const RankFacts& facts : all_facts) {
    const transport::PeerInfo& other = facts.info;
    if (other.network_namespace != first.network_namespace)
      return format(
          "rank {} and rank {} are in different network namespaces, where descriptors "
          "cannot be passed",
          first.rank, other.rank);
    if (other.shm_device != first.shm_device)
      return format("rank {} and rank {} see different /dev/shm, where descriptors are passed",
                    first.rank, other.rank);
    if (settings.shm_disabled &&
        (settings.p2p_disabled || other.process_hash != first.process_hash))
      return "SHM_DISABLE is set";
  }
  return "";
}

std::string why_no_device_window(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                                 const Settings& settings,
                                 const kernels::cuda::Launcher& launcher) {
  if (settings.window_bytes == 0) return "WINDOW_BYTES is 0";
  if (all_facts.size() < 2) return "there is one rank only";
  if (hosts.size() > 1) return "the ranks are on several hosts";
  if (all_facts.size() > size_t(kernels::kMaxDeviceWindowRanks))
    return format("{} ranks are more than {}", all_facts.size(), kernels::kMaxDeviceWindowRanks);
  if (!settings.transport.empty() && settings.transport != "p2p")
    return format("only the transport '{}' is allowed", settings.transport);
  if (settings.p2p_disabled) return "P2P_DISABLE is set";
  if (launcher.window_part_bytes(int(all_facts.size())) == 0)
    return format("there are no window kernels for {} ranks", all_facts.size());
  for (const RankFacts& facts : all_facts) {
    if (facts.fd_handles == 0)
      return format("the GPU of rank {} cannot share memory by descriptor", facts.info.rank);
    if (facts.info.network_namespace != all_facts[0].info.network_namespace)
      return format(
          "rank 0 and rank {} are in different network namespaces, where descriptors cannot be "
          "passed",
          facts.info.rank);
    if (facts.info.shm_device != all_facts[0].info.shm_device)
      return format("rank 0 and rank {} see different /dev/shm, where descriptors are passed",
                    facts.info.rank);
  }
  return "";
}

bool may_have_pinned_window(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                            const Settings& settings, const kernels::cuda::Launcher& launcher) {
  return !settings.window_verbs && !settings.shm_disabled && settings.transport != "p2p" &&
         why_no_window(all_facts, hosts, settings).empty() &&
         launcher.window_host_bytes(int(all_facts.size())) > 0;
}

}  // namespace collctl::runtime
