// What a host says of its GPUs, as bytes (gpu_shape.h).
#include <algorithm>
#include <numeric>

#include "runtime/plan/gpu_shape.h"

namespace collctl::runtime {
namespace {

using topology::ClusterNode;
using topology::NodeChannel;
using topology::PathType;
using topology::PatternFacts;

constexpr uint32_t kMostParts = 64, kMostNets = 512;
// As long as the reader takes.
constexpr size_t kMostName = 256, kMostLink = 1024, kMostReason = 4096;
void put_text(ByteWriter& w, const std::string& text, size_t most) {
  w.put_string(std::string_view(text).substr(0, most));
}

void put_facts(ByteWriter& w, const PatternFacts& f) {
  w.put(int32_t(f.channels)).put(f.bw_intra).put(f.bw_inter);
  w.put(uint8_t(f.type_intra)).put(uint8_t(f.type_inter)).put(uint8_t(f.same_channels));
  w.put(int32_t(f.cross_nic)).put(f.latency_inter_us);
  put_text(w, f.busiest_link, kMostLink);
}

void put_channels(ByteWriter& w, const std::vector<NodeChannel>& channels) {
  w.put(uint32_t(channels.size()));
  for (const NodeChannel& channel : channels) {
    for (const int gpu : channel.order) w.put(int32_t(gpu));
    w.put(int32_t(channel.in)).put(int32_t(channel.out));
  }
}

void put_part(ByteWriter& w, const HostGpus::Part& part) {
  const ClusterNode& node = part.node;
  w.put(uint32_t(part.ranks.size()));
  for (const int rank : part.ranks) w.put(int32_t(rank));
  put_text(w, node.name, kMostName);
  w.put(int32_t(node.min_sm)).put(int32_t(node.max_sm)).put(node.gpu_model);
  w.put(uint8_t(node.amd_gpus)).put(uint8_t(node.cpu)).put(uint8_t(node.tree_pattern));
  put_facts(w, node.ring);
  put_facts(w, node.tree);
  w.put(node.host_gbps);
  put_channels(w, node.ring_channels);
  put_channels(w, node.tree_channels);
  put_channels(w, node.collnet_channels);
  w.put(uint32_t(node.nets.size()));
  for (const std::string& net : node.nets) put_text(w, net, kMostName);
  for (const auto* lists : {&node.near, &node.near_ranks})
    for (const std::vector<int>& near : *lists) {
      w.put(uint32_t(near.size()));
      for (const int each : near) w.put(int32_t(each));
    }
  for (const auto* lists : {&node.relay, &node.rail_senders})
    for (const std::vector<int>& ranks : *lists)
      for (const int by : ranks) w.put(int32_t(by));
  w.put(uint8_t(node.pxn_asked));
  for (const auto& of_rank : part.gdr)
    for (const transport::NicGdr& rule : of_rank) {
      put_text(w, rule.no_read, kMostReason);
      put_text(w, rule.no_write, kMostReason);
      w.put(uint8_t(rule.flush));
    }
}

// Reads what another host said: every number is looked at before it is used.
class PartReader {
 public:
  PartReader(ByteReader& r, int local_ranks) : r_(r), local_ranks_(local_ranks) {}

  HostGpus::Part part() {
    HostGpus::Part part;
    ClusterNode& node = part.node;
    node.ranks = number(1, local_ranks_);
    for (int i = 0; r_.ok() && i < node.ranks; ++i)
      part.ranks.push_back(number(0, local_ranks_ - 1));
    node.name = r_.get_string(kMostName);
    node.min_sm = number(0, 1 << 16);
    node.max_sm = number(0, 1 << 16);
    node.gpu_model = r_.get<uint32_t>();
    node.amd_gpus = flag();
    node.cpu = topology::CpuMaker(small(int(topology::CpuMaker::other)));
    node.tree_pattern = topology::Pattern(small(int(topology::Pattern::split_tree)));
    node.ring = facts();
    node.tree = facts();
    node.host_gbps = positive();
    node.ring_channels = channels(node.ranks);
    node.tree_channels = channels(node.ranks);
    node.collnet_channels = channels(node.ranks);
    const auto nets = r_.get<uint32_t>();
    if (nets > kMostNets) r_.fail();
    for (uint32_t i = 0; r_.ok() && i < nets; ++i) node.nets.push_back(r_.get_string(kMostName));
    for (int i = 0; r_.ok() && i < node.ranks; ++i) node.near.push_back(near(nets));
    for (uint32_t i = 0; r_.ok() && i < nets; ++i)
      node.near_ranks.push_back(near(uint32_t(node.ranks)));
    for (auto* lists : {&node.relay, &node.rail_senders})
      for (int i = 0; r_.ok() && i < node.ranks; ++i) {
        std::vector<int>& ranks = lists->emplace_back();
        for (uint32_t n = 0; r_.ok() && n < nets; ++n) ranks.push_back(number(-1, node.ranks - 1));
      }
    node.pxn_asked = flag();
    for (int i = 0; r_.ok() && i < node.ranks; ++i) part.gdr.push_back(gdr(nets));
    check_nets(node);
    return part;
  }

 private:
  int number(int least, int most) {
    const auto value = r_.get<int32_t>();
    if (value < least || value > most) r_.fail();
    return r_.ok() ? value : least;
  }
  int small(int most) {
    const auto value = r_.get<uint8_t>();
    if (value > most) r_.fail();
    return r_.ok() ? value : 0;
  }
  bool flag() { return small(1) != 0; }
  double positive() {
    const auto value = r_.get<double>();
    if (!(value >= 0 && value < 1e9)) r_.fail();
    return r_.ok() ? value : 0;
  }
  PatternFacts facts() {
    PatternFacts f;
    f.channels = number(1, topology::kMaxClusterChannels);
    f.bw_intra = positive();
    f.bw_inter = positive();
    f.type_intra = PathType(small(int(PathType::dis)));
    f.type_inter = PathType(small(int(PathType::dis)));
    f.same_channels = flag();
    f.cross_nic = number(0, 2);
    f.latency_inter_us = positive();
    f.busiest_link = r_.get_string(kMostLink);
    return f;
  }
  std::vector<NodeChannel> channels(int ranks) {
    const auto count = r_.get<uint32_t>();
    if (count > uint32_t(topology::kMaxClusterChannels)) r_.fail();
    std::vector<NodeChannel> list;
    for (uint32_t c = 0; r_.ok() && c < count; ++c) {
      NodeChannel& channel = list.emplace_back();
      for (int i = 0; i < ranks; ++i) channel.order.push_back(number(0, ranks - 1));
      channel.in = number(-1, int(kMostNets));
      channel.out = number(-1, int(kMostNets));
    }
    return list;
  }
  // Of so many there are.
  std::vector<int> near(uint32_t all) {
    const auto count = r_.get<uint32_t>();
    if (count > all) r_.fail();
    std::vector<int> list;
    for (uint32_t i = 0; r_.ok() && i < count; ++i) list.push_back(number(0, int(all) - 1));
    return list;
  }
  std::vector<transport::NicGdr> gdr(uint32_t nets) {
    std::vector<transport::NicGdr> rules;
    for (uint32_t i = 0; r_.ok() && i < nets; ++i) {
      transport::NicGdr& rule = rules.emplace_back();
      rule.no_read = r_.get_string(kMostReason);
      rule.no_write = r_.get_string(kMostReason);
      rule.flush = flag();
    }
    return rules;
  }
  void check_nets(const ClusterNode& node) {
    for (const auto* list : {&node.ring_channels, &node.tree_channels, &node.collnet_channels})
      for (const NodeChannel& c : *list)
        if (std::max(c.in, c.out) >= int(node.nets.size())) r_.fail();
  }

  ByteReader& r_;
  int local_ranks_;
};

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
  ByteWriter w;
  put_text(w, why_not, kMostReason);
  w.put(uint32_t(parts.size()));
  for (const Part& part : parts) put_part(w, part);
  w.put(uint32_t(no_p2p.size()));
  for (const NoP2p& pair : no_p2p) {
    w.put(int32_t(pair.a)).put(int32_t(pair.b));
    put_text(w, pair.why, kMostReason);
  }
  return w.take();
}

Result<HostGpus> HostGpus::decode(ByteView blob, int local_ranks) {
  ByteReader r(blob);
  HostGpus host;
  host.why_not = r.get_string(kMostReason);
  const auto parts = r.get<uint32_t>();
  if (parts > kMostParts) r.fail();
  for (uint32_t p = 0; r.ok() && p < parts; ++p)
    host.parts.push_back(PartReader(r, local_ranks).part());
  const auto pairs = r.get<uint32_t>();
  if (pairs > uint64_t(local_ranks) * uint64_t(local_ranks)) r.fail();
  for (uint32_t p = 0; r.ok() && p < pairs; ++p) {
    NoP2p& pair = host.no_p2p.emplace_back();
    pair.a = r.get<int32_t>();
    pair.b = r.get<int32_t>();
    pair.why = r.get_string(kMostReason);
    if (pair.a < 0 || pair.b <= pair.a || pair.b >= local_ranks) r.fail();
  }
  if (!r.ok() || !r.at_end() || (host.why_not.empty() && !covers(host, local_ranks)))
    return Error(ErrorCode::lost, "its list of GPUs is malformed");
  return host;
}

}  // namespace collctl::runtime
