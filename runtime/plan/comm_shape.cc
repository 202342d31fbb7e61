#include "runtime/plan/comm_shape.h"

#include <algorithm>

#include "runtime/plan/reach.h"

namespace collctl::runtime {
namespace {

constexpr int kMostDefaultChannels = 4;
// The most bytes of all links between all ranks of a host, as an all-to-all makes them. Their
// memory is taken when they are made, and not only what is used of it.
constexpr uint64_t kLinkBytesOfHost = uint64_t(4) << 30;
constexpr uint32_t kLeastFittedSlot = 1024;
// Each message of a network costs a call and a credit (two ranks over loopback sockets, all-reduce
// of 2 and 8 MiB by slots of 128 and 512 KiB: 745 and 3600, 640 and 2750 us).
constexpr uint32_t kNetworkSlotBytes = 512 << 10;

uint64_t link_bytes_of_host(const CommShape& shape, const HostGroups& hosts) {
  uint64_t links = 0, link_bytes = 0;
  for (const auto& host : hosts) links = std::max<uint64_t>(links, host.size() * (host.size() - 1));
  for (const uint32_t slot : shape.slot_bytes) link_bytes += uint64_t(slot) * shape.slot_count;
  return links * link_bytes;
}

// Larger slots for a network where there is room, smaller ones where so many ranks share a host
// (from about 64 on).
void fit_slots(CommShape& shape, const HostGroups& hosts) {
  uint32_t& simple = shape.slot_bytes[int(kernels::Protocol::simple)];
  const uint32_t usual = simple;
  if (shape.path.used) simple = std::max(simple, kNetworkSlotBytes);
  if (link_bytes_of_host(shape, hosts) > kLinkBytesOfHost) simple = usual;
  const uint64_t all = link_bytes_of_host(shape, hosts);
  if (all <= kLinkBytesOfHost) return;
  const double part = double(kLinkBytesOfHost) / double(all);
  for (uint32_t& slot : shape.slot_bytes)
    if (slot > kLeastFittedSlot)
      slot = std::max(kLeastFittedSlot, uint32_t(double(slot) * part) / 64 * 64);
}

}  // namespace

CommShape make_shape(int rank, std::span<const RankFacts> all_facts, const HostGroups& hosts,
                     const Settings& settings) {
  std::vector<CpuPlace> places;
  for (const RankFacts& facts : all_facts) places.push_back(facts.place);
  const Crowding crowding = crowding_of(all_facts, hosts);
  const HostGroups near = by_nearness(hosts, places);
  CommShape shape;
  shape.rank = rank;
  shape.nranks = int(all_facts.size());
  std::copy(std::begin(settings.slot_bytes), std::end(settings.slot_bytes), shape.slot_bytes);
  shape.slot_count = settings.slot_count;
  shape.path = network_path(all_facts, hosts, settings);
  if (settings.plans_slots) fit_slots(shape, hosts);
  shape.all_on_one_host = hosts.size() == 1;
  shape.local = local_links(near, places);
  shape.lends = settings.single_copy;
  shape.ranks_per_core = crowding.ranks_per_core;
  shape.tree_depth = tree_depth(hosts, LocalTree::binary);
  shape.default_channels = std::min(crowding.cores_per_rank, kMostDefaultChannels);
  // An interface carries what its channels give it.
  if (shape.path.used)
    shape.default_channels = std::max(shape.default_channels, shape.path.interfaces);
  if (settings.max_channels > 0)
    shape.default_channels = std::min(shape.default_channels, settings.max_channels);
  shape.default_channels = std::max(shape.default_channels, settings.min_channels);
  shape.channels = make_channels(
      near, rank, std::max(shape.default_channels, settings.choices.channels), LocalTree::binary);
  shape.no_window = why_no_window(all_facts, hosts, settings);
  if (shape.no_window.empty()) {
    shape.window_bytes = settings.window_bytes;
    shape.window_channels = int(shape.channels.size());
  }
  return shape;
}

CommShape hypothetical_shape(const base::Processors& processors, int nodes, int ranks,
                             const Settings& settings, const Calibration& calibration) {
  std::vector<int> all;
  for (const base::Processor& each : processors.online) all.push_back(each.id);
  RankFacts facts{};
  facts.cores = std::max(1, int(all.size()));
  facts.place = cpu_place(processors, all);
  facts.place.calibration = calibration;
  const std::vector<RankFacts> all_facts(size_t(nodes) * size_t(ranks), facts);
  std::vector<uint64_t> hosts;
  for (int node = 0; node < nodes; ++node) hosts.insert(hosts.end(), size_t(ranks), uint64_t(node));
  return make_shape(0, all_facts, group_by_host(hosts), settings);
}

}  // namespace collctl::runtime
