// A host's description of its GPUs, as bytes (gpu_shape.h).
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/record.h"
#include "runtime/plan/gpu_shape.h"

namespace collctl::runtime {
namespace {

using topology::ClusterNode;
using topology::NodeChannel;
using topology::PathType;
using topology::PatternFacts;

constexpr size_t kMostParts = 64, kMostNets = 512;
// As long as the reader takes.
constexpr size_t kMostName = 256, kMostLink = 1024, kMostReason = 4096;
void text_field(Record& io, const char* name, std::string& text, size_t most) {
  std::string cut = text.substr(0, most);
  io.field(name, cut, most);
  if (io.reading()) text = std::move(cut);
}

void speed_field(Record& io, const char* name, double& speed) {
  io.field(name, speed, 0, 1e9);
}

void facts(Record& io, PatternFacts& f) {
  io.field("channels", f.channels, 1, topology::kMaxClusterChannels);
  speed_field(io, "bw_intra", f.bw_intra);
  speed_field(io, "bw_inter", f.bw_inter);
  io.number("type_intra", f.type_intra, int(PathType::dis) + 1);
  io.number("type_inter", f.type_inter, int(PathType::dis) + 1);
  io.field("same_channels", f.same_channels);
  io.field("cross_nic", f.cross_nic, 0, 2);
  speed_field(io, "latency_inter_us", f.latency_inter_us);
  text_field(io, "busiest_link", f.busiest_link, kMostLink);
  text_field(io, "unknown", f.unknown, kMostLink);
}

// A list of so many as there must be.
template <class T, class Each>
void whole_list(Record& io, const char* name, std::vector<T>& list, size_t size, Each each) {
  io.list(name, list, each, size);
  if (list.size() != size) io.fail(name, format("{} of them", size));
}

void numbers(Record& io, const char* name, std::vector<int>& list, size_t size, int least,
             int most) {
  whole_list(io, name, list, size, [&](int& each) { io.field(name, each, least, most); });
}

void channels(Record& io, const char* name, std::vector<NodeChannel>& list,
              const ClusterNode& node) {
  const int nets = int(node.nets.size());
  const auto each = [&](NodeChannel& channel) {
    numbers(io, "order", channel.order, size_t(node.ranks), 0, node.ranks - 1);
    io.field("in", channel.in, -1, nets - 1);
    io.field("out", channel.out, -1, nets - 1);
  };
  io.list(name, list, each, size_t(topology::kMaxClusterChannels));
}

// Every number of another host is looked at before it is used.
void part_fields(Record& io, HostGpus::Part& part, int local_ranks) {
  ClusterNode& node = part.node;
  io.field("ranks", part.ranks, size_t(local_ranks), 0, local_ranks - 1);
  if (part.ranks.empty()) io.fail("ranks", "one at least");
  if (io.reading()) node.ranks = int(part.ranks.size());
  text_field(io, "name", node.name, kMostName);
  io.field("min_sm", node.min_sm, 0, 1 << 16);
  io.field("max_sm", node.max_sm, 0, 1 << 16);
  io.field("gpu_model", node.gpu_model);
  io.field("amd_gpus", node.amd_gpus);
  io.number("cpu", node.cpu, int(topology::CpuMaker::other) + 1);
  io.number("tree_pattern", node.tree_pattern, int(topology::Pattern::split_tree) + 1);
  facts(io, node.ring);
  facts(io, node.tree);
  speed_field(io, "host_gbps", node.host_gbps);
  io.list(
      "nets", node.nets, [&](std::string& net) { text_field(io, "nets", net, kMostName); },
      kMostNets);
  channels(io, "ring_channels", node.ring_channels, node);
  channels(io, "tree_channels", node.tree_channels, node);
  channels(io, "collnet_channels", node.collnet_channels, node);
  const auto ranks = part.ranks.size(), nets = node.nets.size();
  whole_list(io, "near", node.near, ranks,
             [&](std::vector<int>& near) { io.field("near", near, nets, 0, int(nets) - 1); });
  whole_list(io, "near_ranks", node.near_ranks, nets, [&](std::vector<int>& near) {
    io.field("near_ranks", near, ranks, 0, int(ranks) - 1);
  });
  for (auto* lists : {&node.relay, &node.rail_senders})
    whole_list(io, "relay", *lists, ranks,
               [&](std::vector<int>& by) { numbers(io, "relay", by, nets, -1, int(ranks) - 1); });
  io.field("pxn_asked", node.pxn_asked);
  whole_list(io, "gdr", part.gdr, ranks, [&](std::vector<transport::NicGdr>& of_rank) {
    whole_list(io, "gdr", of_rank, nets, [&](transport::NicGdr& rule) {
      text_field(io, "no_read", rule.no_read, kMostReason);
      text_field(io, "no_write", rule.no_write, kMostReason);
      io.field("flush", rule.flush);
    });
  });
}

void host_fields(Record& io, HostGpus& host, int local_ranks) {
  text_field(io, "why_not", host.why_not, kMostReason);
  io.list(
      "parts", host.parts, [&](HostGpus::Part& part) { part_fields(io, part, local_ranks); },
      kMostParts);
  const auto pair_fields = [&](NoP2p& pair) {
    io.field("a", pair.a, 0, local_ranks - 1);
    io.field("b", pair.b, pair.a + 1, local_ranks - 1);
    text_field(io, "why", pair.why, kMostReason);
  };
  io.list("no_p2p", host.no_p2p, pair_fields, size_t(local_ranks) * size_t(local_ranks));
}

// Every place of the host's ranks in exactly one part.
bool covers(const HostGpus& host, int local_ranks) {
  std::vector<int> places;
  for (const HostGpus::Part& part : host.parts)
    places.insert(places.end(), part.ranks.begin(), part.ranks.end());
  std::sort(places.begin(), places.end());
  std::vector<int> wanted(size_t(local_ranks), 0);
  std::iota(wanted.begin(), wanted.end(), 0);
  return places == wanted;
}

}  // namespace

Bytes HostGpus::encode() const {
  ByteWriter out;
  Record io(out);
  host_fields(io, base::described(*this), 0);
  return out.take();
}

Result<HostGpus> HostGpus::decode(ByteView blob, int local_ranks) {
  Record io(blob);
  HostGpus host;
  host_fields(io, host, local_ranks);
  if (!io.status() || !io.rest().empty() || (host.why_not.empty() && !covers(host, local_ranks)))
    return Error(ErrorCode::lost, "its list of GPUs is malformed");
  return host;
}

}  // namespace collctl::runtime
