#include "topology/search/links.h"

#include <algorithm>
#include <cmath>

namespace collctl::topology {
namespace {

// Peer-to-peer traffic through an Intel root complex goes in packets of 64 bytes: a sixth of the
// link is headers.
constexpr int kRootNumerator = 6, kRootDenominator = 5;
// GPUs before sm 80 answer what a NIC or CPU writes to them with traffic on the way back.
constexpr int kOldGpuShare = 8;
constexpr int kOldGpuBelow = 80;

bool is_power(const Node& cpu) {
  return cpu.arch == "ppc64" || cpu.arch == "ppc64le";
}

bool leads_through_intel(const Graph& graph, const Path& path) {
  const Node& first = graph.nodes[size_t(path.nodes.front())];
  if (path.type != PathType::phb || first.kind != NodeKind::gpu) return false;
  return std::any_of(path.nodes.begin(), path.nodes.end(), [&](int at) {
    const Node& node = graph.nodes[size_t(at)];
    return node.kind == NodeKind::cpu && node.vendor == "GenuineIntel";
  });
}

}  // namespace

Rate rate_of(double gbps) {
  return std::llround(gbps * 1e6);
}

double gbps_of(Rate rate) {
  return double(rate) / 1e6;
}

LinkLoads::LinkLoads(const Graph& graph, const Paths& paths)
    : graph_(graph), paths_(paths), row_(graph.nodes.size(), -1) {
  for (const Node& node : graph.nodes) {
    first_link_.push_back(int(left_.size()));
    for (const GraphLink& link : node.links) left_.push_back(rate_of(link.gbps));
  }
  const std::vector<int>& ends = paths.endpoints();
  for (size_t i = 0; i < ends.size(); ++i) row_[size_t(ends[i])] = int(i);
  routes_.resize(ends.size() * ends.size());
}

bool LinkLoads::take(int from, int to, Rate rate) {
  if (from == to) return true;
  const Route& way = route(from, to);
  if (!way.possible) return false;
  for (size_t i = 0; i < way.charges.size(); ++i) {
    const Charge& charge = way.charges[i];
    Rate& left = left_[size_t(charge.link)];
    if (left < charge.of(rate)) {
      while (i-- > 0) left_[size_t(way.charges[i].link)] += way.charges[i].of(rate);
      return false;
    }
    left -= charge.of(rate);
  }
  return true;
}

void LinkLoads::give(int from, int to, Rate rate) {
  if (from == to) return;
  for (const Charge& charge : route(from, to).charges)
    left_[size_t(charge.link)] += charge.of(rate);
}

const LinkLoads::Route& LinkLoads::route(int from, int to) {
  const size_t ends = paths_.endpoints().size();
  Route& way = routes_[size_t(row_[size_t(from)]) * ends + size_t(row_[size_t(to)])];
  if (!way.known) way = make_route(paths_.at(from, to));
  return way;
}

LinkLoads::Route LinkLoads::make_route(const Path& path) const {
  Route way{true, path.type < PathType::net && !path.nodes.empty(), {}};
  if (!way.possible) return way;
  const bool intel = leads_through_intel(graph_, path);
  const bool from_gpu = graph_.nodes[size_t(path.nodes.front())].kind == NodeKind::gpu;
  for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
    const int from = path.nodes[i];
    const int index = link_index(from, path.nodes[i + 1], path.type);
    const GraphLink& link =
        graph_.nodes[size_t(from)].links[size_t(index - first_link_[size_t(from)])];
    const Node& to = graph_.nodes[size_t(link.to)];
    Charge charge{index, 1, 1};
    if (intel && link.kind == LinkKind::pci) charge = {index, kRootNumerator, kRootDenominator};
    way.charges.push_back(charge);
    const bool old_gpu = to.kind == NodeKind::gpu && !to.amd && to.sm > 0 && to.sm < kOldGpuBelow;
    const bool power = to.kind == NodeKind::cpu && is_power(to) && link.kind == LinkKind::nvl;
    const int back = (old_gpu && !from_gpu) || power ? reverse_of(from, link) : -1;
    if (back < 0) continue;
    way.charges.push_back(
        {back, charge.numerator, charge.denominator * (power ? 1 : kOldGpuShare)});
  }
  return way;
}

// The widest link between two neighbours among those that make the path no worse; C2C paths to a
// NIC are better by name than their own PCI step.
int LinkLoads::link_index(int from, int to, PathType worst) const {
  const auto& links = graph_.nodes[size_t(from)].links;
  int fitting = -1, any = -1;
  for (size_t i = links.size(); i-- > 0;) {  // sorted: the widest comes last here
    if (links[i].to != to) continue;
    any = int(i);
    if (step_type(graph_, from, links[i]) <= worst) fitting = int(i);
  }
  return first_link_[size_t(from)] + (fitting >= 0 ? fitting : any);
}

int LinkLoads::reverse_of(int from, const GraphLink& link) const {
  const auto& links = graph_.nodes[size_t(link.to)].links;
  for (size_t i = 0; i < links.size(); ++i)
    if (links[i].to == from && links[i].kind == link.kind)
      return first_link_[size_t(link.to)] + int(i);
  return -1;
}

}  // namespace collctl::topology
