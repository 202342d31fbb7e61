#include "runtime/plan/gpu_shape.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/log.h"
#include "kernels/algo/ids.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/model.h"
#include "runtime/plan/network_reduction.h"
#include "runtime/plan/reach.h"
#include "transport/p2p/p2p.h"
#include "transport/table/nets.h"

namespace collctl::runtime {
namespace {

using kernels::Protocol;
using topology::Cluster;
using topology::ClusterNode;
using topology::NodeChannel;
using topology::PathType;

// Blocks for messages: what it takes to fill NVLink, and what a slower link has use for.
constexpr int kNvlinkPairChannels = 32, kLeastPairChannels = 2, kOtherPairChannels = 8;
// Through the host's memory small blocks side by side hide what each waits for PCIe: 2 x H200, 256
// KiB by 1, 8, 32 channels 57, 32, 24 us; all-to-all of 4 x H200, 4 MiB by 16, 21, 32 channels 214,
// 205, 158 us. With many ranks the links' memory counts.
constexpr int kHostChannelsOfRanks = 128, kMostHostPairChannels = 32;
// Over host memory and sockets one block waits more than it moves, so more than the search finds
// (4 channels over host memory reach 26.5 of 29 GB/s on 2 x H200; 8 through sockets 15.2). A
// network that reads the GPUs' memory itself needs fewer.
constexpr int kLeastHostChannels = 8, kLeastDirectNetChannels = 4;
// Inside a host: all-reduces of 2 and 4 MiB in 98 and 166 us by 8, in 89 and 154 by 16 (2 x H200).
constexpr int kLeastLocalHostChannels = 16;
// Where nothing is known of the machine.
constexpr int kUnknownChannels = 8;
constexpr double kUnknownGbps = 10;  // PCIe gen3, both ways and shared

// The cluster, and the job's rank of each of its ranks.
struct Joined {
  Cluster cluster;
  std::vector<int32_t> world;
};
Result<Joined> join_hosts(const HostGroups& hosts, std::vector<HostGpus> found, bool staged,
                          const Settings& settings) {
  Joined joined;
  std::vector<ClusterNode> kinds;
  std::vector<int> kind_of;
  for (size_t h = 0; h < hosts.size(); ++h)
    for (HostGpus::Part& part : found[h].parts) {
      for (const int place : part.ranks) joined.world.push_back(hosts[h][size_t(place)]);
      kind_of.push_back(int(kinds.size()));
      kinds.push_back(std::move(part.node));
    }
  topology::ClusterOptions options{
      .min_channels =
          std::max(settings.min_channels,
                   least_channels(kinds, int(kinds.size()), staged, settings.max_channels)),
      .max_channels = settings.max_channels};
  if (settings.choices.channels > 0)
    options = {.min_channels = settings.choices.channels,
               .max_channels = settings.choices.channels};
  COLL_ASSIGN(joined.cluster, join_nodes(std::move(kinds), std::move(kind_of), options));
  COLL_TRY(check_cluster(joined.cluster));
  return joined;
}

// A rank's number in the cluster.
int place_of(int rank, std::span<const int32_t> world) {
  return int(std::find(world.begin(), world.end(), rank) - world.begin());
}

// The devices of a rank's node.
std::shared_ptr<RankNics> nics_of(int rank, const HostGroups& hosts,
                                  std::span<const HostGpus> found) {
  auto nics = std::make_shared<RankNics>();
  for (size_t h = 0; h < hosts.size(); ++h)
    for (const HostGpus::Part& part : found[h].parts)
      for (size_t i = 0; i < part.ranks.size(); ++i) {
        if (hosts[h][size_t(part.ranks[i])] != rank) continue;
        for (const std::string& net : part.node.nets)  // "NET/0 mlx5_0"
          nics->names.push_back(net.substr(net.find(' ') + 1));
        nics->gdr = part.gdr[i];
      }
  return nics;
}

// Pairs without P2P on the rank's host, by ranks of the job.
std::vector<NoP2p> no_p2p_of(int rank, const HostGroups& hosts, std::span<const HostGpus> found) {
  std::vector<NoP2p> pairs;
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (std::find(hosts[h].begin(), hosts[h].end(), rank) == hosts[h].end()) continue;
    for (const NoP2p& pair : found[h].no_p2p) {
      const int a = hosts[h][size_t(pair.a)], b = hosts[h][size_t(pair.b)];
      pairs.push_back({.a = std::min(a, b), .b = std::max(a, b), .why = pair.why});
    }
  }
  return pairs;
}

// Why the GPU of `by` cannot send for `from` (PXN) to `to`; empty: it can.
std::string why_no_relay(const RankFacts& from, const RankFacts& by, const RankFacts& to) {
  const transport::Reach reach = transport::p2p_reach(from.info, by.info);
  if (!reach.ok) return reach.why;
  std::string why;
  const auto* net = transport::choose_net(by.info, to.info, why);
  return net != nullptr && std::string_view(net->name) == "plugin" ? "the network is a plugin's"
                                                                   : "";
}

// Relayed links that concern the rank, by ranks of the job. A relay needs the same as P2P.
std::vector<topology::RelayedLink> relayed_of(int rank, const Joined& joined,
                                              std::span<const RankFacts> all_facts) {
  std::vector<topology::RelayedLink> mine;
  const int place = place_of(rank, joined.world);
  for (topology::RelayedLink link : topology::relayed_links(joined.cluster, place)) {
    for (int* each : {&link.from, &link.to, &link.by}) *each = joined.world[size_t(*each)];
    if (link.from != rank && link.to != rank && link.by != rank) continue;
    const std::string why = why_no_relay(all_facts[size_t(link.from)], all_facts[size_t(link.by)],
                                         all_facts[size_t(link.to)]);
    if (why.empty()) {
      mine.push_back(link);
    } else if (link.from == rank) {
      COLL_INFO(graph, "channel {}: rank {} cannot send through the GPU of rank {}: {}",
                link.channel, link.from, link.by, why);
    }
  }
  return mine;
}

// topology::pair_links between the rank and those of other nodes, by ranks of the job. Where a
// relay cannot be: without, unless it was asked for.
void take_pairs(int rank, const Joined& joined, std::span<const RankFacts> all_facts,
                RankNics& nics) {
  const Cluster& cluster = joined.cluster;
  const auto in_node = [&](int place) {
    return place - cluster.first_rank[size_t(cluster.node_of(place))];
  };
  const auto link_of = [&](topology::PairLink link, int from, int to) {
    if (link.by < 0) return link;
    link.by = joined.world[size_t(link.by)];
    const std::string why =
        why_no_relay(all_facts[size_t(from)], all_facts[size_t(link.by)], all_facts[size_t(to)]);
    if (why.empty()) return link;
    if (!link.asked) return topology::PairLink{};
    nics.no_relay[{from, link.by}] = why;
    return link;
  };
  const int me = place_of(rank, joined.world);
  nics.pairs_to.resize(all_facts.size());
  nics.pairs_from.resize(all_facts.size());
  for (int place = 0; place < cluster.ranks(); ++place) {
    if (cluster.node_of(place) == cluster.node_of(me)) continue;
    const int peer = joined.world[size_t(place)];
    for (const auto& link : topology::pair_links(cluster, me, in_node(place)))
      nics.pairs_to[size_t(peer)].push_back(link_of(link, rank, peer));
    for (const auto& link : topology::pair_links(cluster, place, in_node(me)))
      nics.pairs_from[size_t(peer)].push_back(link_of(link, peer, rank));
  }
}

// Ranks of this one's node that may send through each other: those that this one may ask, and
// those that may ask it. Rings and trees as much as messages.
void find_relays(int rank, const Joined& joined, RankNics& nics) {
  const Cluster& cluster = joined.cluster;
  const int place = place_of(rank, joined.world), node = cluster.node_of(place);
  const int first = cluster.first_rank[size_t(node)];
  if (cluster.nodes() == 1) return;
  for (const auto* table : {&cluster.node(node).relay, &cluster.node(node).rail_senders})
    for (int from = 0; from < int(table->size()); ++from)
      for (const int by : (*table)[size_t(from)]) {
        if (by < 0 || by == from) continue;
        const int asks = joined.world[size_t(first + from)];
        const int asked = joined.world[size_t(first + by)];
        if (asks == rank) nics.relays.insert(asked);
        if (asked == rank) nics.relayed_for.insert(asks);
      }
}

std::vector<ChannelShape> channels_of(const Cluster& cluster, std::span<const int32_t> world,
                                      int rank) {
  const auto me = size_t(place_of(rank, world));
  const auto named = [&](int cluster_rank) {
    return cluster_rank < 0 ? -1 : world[size_t(cluster_rank)];
  };
  std::vector<ChannelShape> channels;
  for (int c = 0; c < cluster.channels(); ++c) {
    ChannelShape& channel = channels.emplace_back();
    for (const int r : cluster.rings[size_t(c)]) channel.ring.push_back(named(r));
    const topology::TreePlace& place = cluster.trees[size_t(c)][me];
    channel.tree.up = named(place.up);
    for (int i = 0; i < kernels::kMaxFanIn; ++i) channel.tree.down[i] = named(place.down[i]);
    for (int node = 0; node < cluster.nodes() && c < kMostReductionGroups; ++node) {
      std::vector<int32_t>& chain = channel.collnet.emplace_back();
      for (const int r : topology::collnet_chain(cluster, c, node).ranks) chain.push_back(named(r));
    }
  }
  return channels;
}

int channels_requested(const Settings& settings) {
  if (settings.choices.channels > 0) return settings.choices.channels;
  int channels = kUnknownChannels;
  if (settings.max_channels > 0) channels = std::min(channels, settings.max_channels);
  return std::max(channels, settings.min_channels);
}

// Sockets within a host carry what its cores can do; its network devices have no part in it.
bool meets_by_loopback(std::span<const RankFacts> all_facts, const HostGroups& hosts) {
  std::string why;
  const auto* net = transport::choose_net(all_facts.front().info, all_facts.back().info, why);
  return hosts.size() == 1 && net != nullptr && std::string_view(net->name) == "socket";
}

// The model's input for a machine of which only the ranks are known.
ModelInput unknown_machine(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                           int channels) {
  ModelInput input;
  input.known = false;
  input.unknown = "how the GPUs are wired";
  input.nodes = int(hosts.size());
  input.ranks = int(all_facts.size());
  for (const auto& host : hosts)
    input.largest_node = std::max(input.largest_node, int(host.size()));
  input.channels = input.full_channels = channels;
  for (const RankFacts& facts : all_facts) {
    const int sm = facts.info.compute_capability;
    input.min_sm = input.min_sm == 0 ? sm : std::min(input.min_sm, sm);
    input.max_sm = std::max(input.max_sm, sm);
  }
  input.ring = {.channels = 1,
                .bw_intra = kUnknownGbps,
                .bw_inter = kUnknownGbps,
                .type_intra = PathType::sys,
                .type_inter = PathType::sys,
                .same_channels = true,
                .cross_nic = 0,
                .latency_inter_us = 0,
                .busiest_link = "an unknown machine"};
  input.tree = input.ring;
  return input;
}

void fill_in_the_order_of_ranks(CommShape& shape, std::span<const RankFacts> all_facts,
                                const HostGroups& hosts, const Settings& settings) {
  shape.channels = make_channels(hosts, shape.rank, channels_requested(settings), LocalTree::chain);
  shape.model = std::make_shared<const ModelInput>(
      unknown_machine(all_facts, hosts, int(shape.channels.size())));
}

int pair_channels(const CommShape& shape, const Settings& settings) {
  if (settings.choices.channels > 0) return settings.choices.channels;
  const bool nvlink = shape.model->nodes == 1 && shape.model->ring.type_intra == PathType::nvl;
  int channels =
      nvlink ? kNvlinkPairChannels
             : std::clamp(int(shape.channels.size()), kLeastPairChannels, kOtherPairChannels);
  if (shape.model->nodes == 1 && shape.model->through_host)
    channels =
        std::clamp(kHostChannelsOfRanks / shape.nranks, kOtherPairChannels, kMostHostPairChannels);
  if (settings.max_channels > 0) channels = std::min(channels, settings.max_channels);
  return std::max(channels, settings.min_channels);
}

CommShape begun_shape(int rank, int nranks, const HostGroups& hosts, const Settings& settings) {
  CommShape shape;
  shape.gpu = true;
  shape.rank = rank;
  shape.nranks = nranks;
  std::copy(std::begin(settings.slot_bytes), std::end(settings.slot_bytes), shape.slot_bytes);
  shape.slot_count = settings.slot_count;
  shape.all_on_one_host = hosts.size() == 1;
  return shape;
}

// Offers LL128 where the paths allow it; the test on them comes after.
void offer_ll128(CommShape& shape) {
  const std::string rule = unavailable(*shape.model, kernels::AlgorithmId::ring, Protocol::ll128,
                                       kernels::Collective::all_reduce);
  if (rule.empty()) return;
  shape.slot_bytes[int(Protocol::ll128)] = 0;
  shape.no_ll128 = rule;
}

// Over NVLink messages go in chunks of half of this (sendrecv.cc), and rings, whose chunks may
// be larger, are seldom taken; memory of a GPU is dear. Through the host's memory: what all ranks
// have in flight must stay in the processor's cache until it is taken (4 x H200 over SHM: 8
// channels of 4 MiB 25 GB/s, of 1 MiB 32; 24 of 256 KiB 36).
void fit_slots(CommShape& shape, const Settings& settings) {
  constexpr uint64_t kOfRank = 6 << 20, kLeastSlot = 32 << 10;
  constexpr uint32_t kNvlinkSlot = 256 << 10, kHostLines = 16 << 10;
  if (!settings.plans_slots || shape.model->nodes > 1 || shape.nranks == 1) return;
  uint32_t& slot = shape.slot_bytes[int(Protocol::simple)];
  if (shape.model->ring.type_intra == PathType::nvl) slot = std::min(slot, kNvlinkSlot);
  if (shape.model->ring.type_intra <= PathType::pxb) return;
  const uint64_t fits = kOfRank / shape.channels.size() / shape.slot_count / 4096 * 4096;
  slot = uint32_t(std::min<uint64_t>(slot, std::max(fits, kLeastSlot)));
  // Each of many channels carries little by LL, and a container's /dev/shm may have only 64 MiB.
  uint32_t& lines = shape.slot_bytes[int(Protocol::ll)];
  if (settings.plans_ll_slots) lines = std::min(lines, kHostLines);
}

bool refuses_p2p(const Settings& settings) {
  return settings.p2p_disabled || settings.transport == "shm";
}

// Fills in the rest, from the channels and the model.
void complete(CommShape& shape, const HostGroups& hosts, const Settings& settings) {
  shape.tree_depth = tree_depth(hosts, LocalTree::chain);
  shape.default_channels = int(shape.channels.size());
  shape.pair_channels = pair_channels(shape, settings);
  offer_ll128(shape);
  fit_slots(shape, settings);
}

}  // namespace

bool stages_data(const ClusterNode& node, const std::vector<std::vector<transport::NicGdr>>& gdr) {
  return std::any_of(node.ring_channels.begin(), node.ring_channels.end(),
                     [&](const NodeChannel& channel) {
                       if (channel.out < 0 || channel.in < 0) return false;
                       const auto in = size_t(channel.in), out = size_t(channel.out);
                       auto sender = size_t(channel.order.back());
                       if (!node.relay.empty() && node.relay[sender][out] >= 0)
                         sender = size_t(node.relay[sender][out]);
                       return !gdr[sender][out].no_read.empty() ||
                              !gdr[size_t(channel.order.front())][in].no_write.empty();
                     });
}

std::string no_network_lines(std::span<const RankFacts> all_facts, bool staged) {
  constexpr const char* kOnly = "ll128 between hosts goes by RDMA between GPUs: ";
  for (const RankFacts& facts : all_facts) {
    const transport::PeerInfo &first = all_facts[0].info, &info = facts.info;
    std::string why;
    const auto* net = transport::choose_net(first, info, why);
    if (info.rank != first.rank && net != nullptr && std::string_view(net->name) != "ib")
      why = format("ranks {} and {} use the network {}", first.rank, info.rank, net->name);
    if (why.empty() && info.gdr == 0 && net != nullptr && std::string_view(net->name) == "ib")
      why = format("no network device reaches the GPU of rank {}", info.rank);
    if (!why.empty()) return kOnly + why;
  }
  return staged ? kOnly + std::string("data is staged in host memory on the way") : "";
}

void goes_through_host(CommShape& shape) {
  ModelInput model = *shape.model;
  model.through_host = true;
  shape.model = std::make_shared<const ModelInput>(std::move(model));
}

void count_with(CommShape& shape, const GpuCalibration& windows) {
  ModelInput model = *shape.model;
  model.windows = windows;
  shape.model = std::make_shared<const ModelInput>(std::move(model));
}

std::string no_p2p_text(const std::vector<NoP2p>& pairs) {
  return pairs.empty()
             ? ""
             : format("ranks {} and {} have no P2P: {}", pairs[0].a, pairs[0].b, pairs[0].why);
}

std::string no_p2p_between(const std::vector<NoP2p>& pairs, int a, int b) {
  for (const NoP2p& pair : pairs)
    if (pair.a == std::min(a, b) && pair.b == std::max(a, b)) return pair.why;
  return "";
}

int least_channels(std::span<const ClusterNode> kinds, int nodes, bool staged, int most) {
  int least = 0;
  if (nodes > 1) least = staged ? kLeastHostChannels : kLeastDirectNetChannels;
  if (nodes == 1 && kinds[0].ranks > 1 && kinds[0].ring.type_intra > PathType::pxb)
    least = kLeastLocalHostChannels;
  return most > 0 ? std::min(least, most) : least;
}

Result<CommShape> make_gpu_shape(int rank, std::span<const RankFacts> all_facts,
                                 const HostGroups& hosts, std::span<const Bytes> blobs,
                                 const Settings& settings) {
  CommShape shape = begun_shape(rank, int(all_facts.size()), hosts, settings);
  std::vector<HostGpus> found;
  bool known = true;
  for (const auto& host : hosts) {
    const auto first = size_t(host.front());
    auto here = HostGpus::decode(blobs[first], int(host.size()));
    if (!here)
      return std::move(here.error())
          .blame(int(first))
          .within(format("rank {} (host {})", first, all_facts[first].info.host));
    known = known && here->why_not.empty();
    found.push_back(std::move(*here));
  }
  // On the network path, data of some rank goes through host memory.
  const bool staged =
      std::any_of(all_facts.begin(), all_facts.end(),
                  [](const RankFacts& facts) { return facts.info.gdr == 0; }) ||
      std::any_of(found.begin(), found.end(), [](const HostGpus& host) {
        return std::any_of(host.parts.begin(), host.parts.end(),
                           [](const auto& part) { return stages_data(part.node, part.gdr); });
      });
  std::shared_ptr<RankNics> nics = known ? nics_of(rank, hosts, found) : nullptr;
  if (known && settings.transport.empty()) shape.no_p2p = no_p2p_of(rank, hosts, found);
  auto joined = known ? join_hosts(hosts, std::move(found), staged, settings)
                      : Result<Joined>(Error(ErrorCode::unavailable, "not all hosts are known"));
  if (joined) {
    shape.channels = channels_of(joined->cluster, joined->world, rank);
    ModelInput model = model_input(joined->cluster);
    model.staged = model.nodes > 1 && staged;
    if (model.nodes > 1) model.no_network_lines = no_network_lines(all_facts, staged);
    if (model.nodes > 1 && meets_by_loopback(all_facts, hosts))
      model.unknown = "what sockets carry between ranks of one host";
    shape.model = std::make_shared<const ModelInput>(std::move(model));
    nics->wiring = topology::wiring_of(joined->cluster, place_of(rank, joined->world));
    nics->relayed = relayed_of(rank, *joined, all_facts);
    take_pairs(rank, *joined, all_facts, *nics);
    find_relays(rank, *joined, *nics);
    shape.nics = std::move(nics);
  } else {
    fill_in_the_order_of_ranks(shape, all_facts, hosts, settings);
  }
  if (refuses_p2p(settings) || !shape.no_p2p.empty()) goes_through_host(shape);
  complete(shape, hosts, settings);
  return shape;
}

CommShape hypothetical_gpu_shape(const HypotheticalGpus& gpus, const Settings& settings,
                                 const kernels::cuda::Launcher& launcher) {
  const int ranks = int(gpus.world.size());
  CommShape shape = begun_shape(0, ranks, gpus.hosts, settings);
  shape.channels = channels_of(gpus.cluster, gpus.world, 0);
  ModelInput model = model_input(gpus.cluster);
  model.staged = model.nodes > 1 && gpus.staged;
  if (model.nodes > 1) model.no_network_lines = no_network_lines({}, gpus.staged);
  shape.model = std::make_shared<const ModelInput>(std::move(model));
  if (refuses_p2p(settings) || !gpus.no_p2p.empty()) goes_through_host(shape);
  complete(shape, gpus.hosts, settings);
  RankFacts facts{};
  facts.fd_handles = 1;
  const std::vector<RankFacts> all_facts(size_t(ranks), facts);
  shape.no_window = gpus.no_p2p;
  if (shape.no_window.empty())
    shape.no_window = why_no_device_window(all_facts, gpus.hosts, settings, launcher);
  shape.gpu_window = shape.no_window.empty();
  shape.pinned_window =
      !shape.gpu_window && may_have_pinned_window(all_facts, gpus.hosts, settings, launcher);
  shape.window_serves = launcher.window_serves;
  // The lines are tested where all ranks map each other's memory, or over the links between hosts.
  shape.ll128_passed = (shape.gpu_window || shape.model->nodes > 1) && shape.no_ll128.empty();
  if (!shape.ll128_passed && shape.no_ll128.empty())
    shape.no_ll128 =
        "ll128 is tested in memory that all ranks map, and there is none: " + shape.no_window;
  return shape;
}

}  // namespace collctl::runtime
