// RankFacts: what every rank tells every other in the one all-gather of start-up: the transports'
// PeerInfo and what the planner needs besides. Made and read by the communicator's start-up, on its
// thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/socket.h"
#include "runtime/plan/cpu_places.h"
#include "runtime/plan/shape.h"
#include "runtime/request/settings.h"
#include "transport/device/device.h"
#include "transport/peer.h"

namespace collctl::runtime {

struct RankFacts {
  transport::PeerInfo info;
  int32_t cores;          // this rank may use, by affinity and quota
  int32_t sharing_ranks;  // that share these cores, if the launcher set it; 0: all of the host
  int32_t core_ranks;     // that use them, where others than its peers do, too; 0: the peers say
  // Those it may run on, a bit each; processor p is bit p % kCoreBits.
  static constexpr int kCoreBits = 512;
  uint64_t core_bits[kCoreBits / 64];
  CpuPlace place;
  // The network that other hosts are reached by: its NIC, or the first of them, and what they carry
  // together, 1e9 bytes/s in one direction; 0: not known.
  float net_gbps;
  char net_name[36];
  // GPU ranks.
  uint8_t fd_handles;         // its memory can be passed as a descriptor
  uint8_t share_device;       // another rank may use the same GPU
  uint8_t socket_interfaces;  // that sockets are spread over; 0: the network is another
  uint8_t reserved;
  int32_t device_error;   // ErrorCode of a GPU that cannot be used, 0: it can
  char device_text[224];  // its bus, or why it cannot be used
  // Facts of its plugin's CollNet, with kNetCollNet; else zero.
  struct Reducer {
    uint64_t name_hash;   // of the plugin
    uint64_t serves;      // a set of transport::reduction_bit()
    uint64_t most_bytes;  // at once
  } reducer;
  char tuner[96];  // name and version of its tuner plugin; empty: none
};
static_assert(sizeof(RankFacts) == 1104);

RankFacts own_facts(int rank, uint64_t job_hash, const Settings& settings, int sharing_ranks,
                    const Address& net_address);
// As if the rank were on a host of this name, in place of HOSTID: for several in one process.
void put_on_host(RankFacts& facts, const std::string& host_id);
void add_network(RankFacts& facts, const std::string& name, double gbps, int socket_interfaces = 0);
void add_tuner(RankFacts& facts, const std::string& identity);
// Makes them the facts of a rank that uses `device`, or of one that should and cannot.
void add_device(RankFacts& facts, const Result<transport::DevicePointer>& device, bool may_share);

// Facts of all ranks, by rank. Errors name both ranks: versions that differ (usage), facts that are
// not their rank's (lost), CPU and GPU ranks in one job, tuner plugins that differ (usage), one GPU
// for two ranks (unavailable); or the rank whose GPU cannot be used. Fills in each CPU rank's index
// on its host.
Status check_facts(std::span<RankFacts> all_facts);
// The first rank whose settings differ from rank 0's, or -1.
int first_with_other_settings(std::span<const RankFacts> all_facts);

// Between CPU ranks.
NetworkPath network_path(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                         const Settings& settings);

// Whether a rank's cores are no other rank's of its host (as far as the bits tell).
bool has_own_cores(std::span<const RankFacts> all_facts, const std::vector<int32_t>& host,
                   int rank);
// How many ranks use this one's cores, itself counted.
int core_ranks(std::span<const RankFacts> all_facts, const std::vector<int32_t>& host, int rank);
struct Crowding {
  double ranks_per_core = 1;  // of the most crowded host
  int cores_per_rank = 1;     // of the rank with the fewest, at least 1
};
Crowding crowding_of(std::span<const RankFacts> all_facts, const HostGroups& hosts);

}  // namespace collctl::runtime
