// Which rank runs on which host, and which cores each rank of a host is bound to. Pure: the facts
// are passed as values. Used by cmd, and by the agent on each host.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/host_devices.h"
#include "base/processors.h"
#include "base/result.h"
#include "launcher/hosts/hostfile.h"

namespace collctl::launcher {

// own: the default of CPU ranks, which nobody needs to name: a share of the cores for each rank
// where there is one for each, else nothing.
enum class BindTo { none, own, core, numa, device };

// "none", "own", "core", "numa" or "device"; anything else: usage error.
Result<BindTo> parse_bind_to(const std::string& text);
const char* name_of(BindTo bind_to);
// The binding of ranks where the user says `text`, which may be empty: on GPUs the cores next to
// them, else cores of their own. Unavailable: "device" for CPU ranks.
Result<BindTo> bind_of(const std::string& text, bool on_gpus);

// The GPUs that ranks see, in the order of CUDA's ordinals: indexes of `gpus` (of
// base::nvidia_gpus_here), -1 for a part of one (MIG). By CUDA_VISIBLE_DEVICES, not set: all. Its
// list ends at the first entry that names none; one that stands there twice leaves none (CUDA C++
// programming guide). The rank that is its host's number r drives ordinal r, modulo their number.
std::vector<int> visible_gpus(const std::optional<std::string>& visible,
                              const std::vector<base::NvidiaGpu>& gpus);
// How many of a host's `gpus` are left by such a list, where their UUIDs are not known: those that
// it names by UUID are taken for there.
int gpus_left(const std::string& visible, int gpus);
// The NUMA node of each rank's GPU; -1: unknown.
std::vector<int> gpu_nodes(int ranks, const std::optional<std::string>& visible,
                           const std::vector<base::NvidiaGpu>& gpus);

// One list of processors per rank (empty: not bound), out of the `allowed` ones. core: the threads
// of one physical core; numa: those of one NUMA node. Cores stand by NUMA node and last-level
// cache, ranks are spread over them evenly and in order: neighbours in rank are near each other,
// and few ranks have much cache and memory bandwidth each. device: those of the NUMA node in
// `nodes` (by rank); a rank whose node is unknown, or has no allowed processor, is not bound. own:
// the allowed cores are dealt out, to each rank those of one NUMA node, so that its threads have
// room and meet nobody; single processors where there are more ranks than cores; more ranks than
// processors, or one rank: not bound.
std::vector<std::vector<int>> place_local(int ranks, BindTo bind_to,
                                          const std::vector<int>& allowed,
                                          const base::Processors& processors,
                                          const std::vector<int>& nodes = {});
// The same out of what this process may use of this host; own: not bound where a cgroup's quota is
// less than a core for each. `visible`: CUDA_VISIBLE_DEVICES of the ranks; without it this
// process's.
std::vector<std::vector<int>> place_here(int ranks, BindTo bind_to,
                                         const std::optional<std::string>& visible);
std::vector<std::vector<int>> place_here(int ranks, BindTo bind_to);

// Which rank runs on which host.
enum class MapBy : uint8_t { slot, host };
struct HostSlots {
  std::string name;
  int slots = 1;
  int max_slots = 0;       // 0: as many as --oversubscribe asks for
  bool slots_said = true;  // false: found on the host or assumed; then -N K alone makes K slots
};
// `unsaid`: the slots of hosts that name none.
std::vector<HostSlots> host_slots(const std::vector<HostSpec>& hosts, int unsaid);

inline constexpr int kMostRanks = 65536;
struct PlaceOptions {
  int ranks = 0;     // 0: every slot (or ranks_per_host on every host)
  int per_host = 0;  // -N; 0: by slots
  MapBy map_by = MapBy::slot;
  bool oversubscribe = false;
};
struct JobPlacement {
  std::vector<int> host_of;                // by rank: index into the hosts
  std::vector<int> local_rank;             // by rank
  std::vector<std::vector<int>> ranks_of;  // by host, ascending; may be empty
};
// slot: fill a host before the next; host: one rank a host in turn. Too many ranks for the slots:
// usage error with the numbers and the remedies. Ranks beyond the slots (oversubscribe) are dealt
// in turn to all hosts whose max_slots leave room, so that none gets more of them than it must.
Result<JobPlacement> place_ranks(const std::vector<HostSlots>& hosts, const PlaceOptions& options);

std::string rank_range(const std::vector<int>& ranks);

// The same before any host was asked: empty when it depends on slots that only the hosts know. An
// error here is final.
Result<std::optional<JobPlacement>> place_before_asking(const std::vector<HostSpec>& hosts,
                                                        const PlaceOptions& options);

}  // namespace collctl::launcher
