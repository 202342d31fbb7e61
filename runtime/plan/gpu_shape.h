// The planner's view of a communicator of GPU ranks: rings and trees from the topology search, and
// the facts of its model of time.
//
// The first rank of each host looks at its machine and describes the GPUs of the job there as nodes
// of a cluster (describe_gpus); all ranks pass these blobs round, and every rank joins them to the
// same channels (make_gpu_shape). Where a machine cannot be described, channels follow the order of
// ranks, and the log says why. Called at start-up of a communicator. Threads: any.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/cuda/launch.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rank_facts.h"
#include "runtime/plan/shape.h"
#include "runtime/request/settings.h"
#include "topology/cluster/cluster.h"
#include "topology/graph/decide.h"
#include "transport/transport.h"

namespace collctl::runtime {

// One host's GPUs: a node of the cluster, several where they reach each other by the network only.
struct HostGpus {
  struct Part {
    topology::ClusterNode node;
    std::vector<int> ranks;  // of its GPUs: places among the job's ranks of this host
    // Rules by path and knobs for network devices and GPU memory: for each of `ranks` the node's
    // devices, in their order.
    std::vector<std::vector<transport::NicGdr>> gdr;
  };
  std::vector<Part> parts;
  std::vector<NoP2p> no_p2p;  // places among the job's ranks of this host
  std::string why_not;        // not empty: the machine could not be described

  Bytes encode() const;
  // `local_ranks` of this host. Error: lost: not such a blob.
  static Result<HostGpus> decode(ByteView blob, int local_ranks);
};

// How a machine is searched: as `topo` and `plan` do, by the same knobs.
struct GpuSearch {
  topology::Rules rules;
  int cross_nic = 2;
  std::string graph_file;      // channels as given there instead of searched; empty: none
  std::string dump_file = {};  // where those in use are written; empty: nowhere
};
// Pairs of a machine's GPUs without P2P, by the ranks of the graph. `paths` of base_paths. Pure.
std::vector<NoP2p> no_p2p_pairs(const topology::Graph& machine, const topology::Paths& paths,
                                const topology::Rules& rules);
// Rules by path and knobs for network devices and GPU memory: for `ranks` of the graph, in their
// order, the devices in the graph's. Where the place of a device on its machine is not known its
// path says nothing, unless the user has set a limit. Pure.
std::vector<std::vector<transport::NicGdr>> gdr_rules(const topology::Graph& graph,
                                                      const topology::Rules& rules,
                                                      const std::vector<int>& ranks,
                                                      const topology::System& system);
// By these: the GPU at an end of some channel is one that the channel's device must not reach.
bool stages_data(const topology::ClusterNode& node,
                 const std::vector<std::vector<transport::NicGdr>>& gdr);
// For ModelInput::no_network_lines. `staged`: data of some rank goes through host memory on its way
// to the network.
std::string no_network_lines(std::span<const RankFacts> all_facts, bool staged);
// Pure but for the graph files: `bus_ids` of the job's GPUs on this machine in the order of ranks;
// `hosts` of the job.
HostGpus host_gpus(const topology::System& system, std::span<const int64_t> bus_ids, int hosts,
                   const GpuSearch& search, const std::string& host_name);

// This rank's blob: empty unless it is the first of its host. Looks at the machine (NVML, files of
// the kernel): tens of milliseconds. `all_facts` checked, `hosts` of group_by_host.
Bytes describe_gpus(int rank, std::span<const RankFacts> all_facts, const HostGroups& hosts,
                    const Settings& settings);

// Pure. `blobs` by rank. LL128 still needs its test (ll128_passed); windows are the caller's to
// set. Errors: lost: a blob that is none, naming the host.
Result<CommShape> make_gpu_shape(int rank, std::span<const RankFacts> all_facts,
                                 const HostGroups& hosts, std::span<const Bytes> blobs,
                                 const Settings& settings);

// The fewest channels that a job on these nodes has, whatever their search finds. `staged`: what
// goes over the network goes through host memory. `most`: as requested; 0: none.
int least_channels(std::span<const topology::ClusterNode> kinds, int nodes, bool staged, int most);

// Its GPUs have no P2P after all: the model counts the way through their hosts' memory.
void goes_through_host(CommShape& shape);
// And what was measured of their windows.
void count_with(CommShape& shape, const GpuCalibration& windows);

// The shape at rank 0 of a job that does not run: as make_gpu_shape has it where GPUs share memory
// by descriptor and the test of LL128 passes. Pure.
struct HypotheticalGpus {
  const topology::Cluster& cluster;
  std::span<const int32_t> world;  // the job's rank of each of the cluster's
  HostGroups hosts;
  std::string no_p2p;   // why two GPUs of a host cannot use each other's memory; empty: all can
  bool staged = false;  // as for no_network_lines
};
CommShape hypothetical_gpu_shape(const HypotheticalGpus& gpus, const Settings& settings,
                                 const kernels::cuda::Launcher& launcher);

}  // namespace collctl::runtime
