// Looks at what the search has found, without using any of its parts: what every channel must hold,
// and what all together take from each link, counted by the rules as the facts word them.
#pragma once
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/topology/machine.h"
#include "topology/search/search.h"

struct Recount {
  const collctl::topology::Graph& graph;
  const collctl::topology::Paths& paths;
  // By the two ends of a link: what is asked of it, what it carries.
  std::map<std::pair<int, int>, double> asked = {}, carries = {};
  std::vector<std::string> faults = {};

  const collctl::topology::Node& node(int at) const { return graph.nodes[size_t(at)]; }
  std::string name(int at) const { return collctl::topology::node_name(graph, at); }

  // A message of that many GB/s from one end to another.
  void message(int from, int to, double gbps) {
    using namespace collctl::topology;
    if (from == to) return;
    const Path& path = paths.at(from, to);
    if (path.nodes.size() < 2) return faults.push_back(name(from) + " cannot reach " + name(to));
    bool intel = false;
    for (const int at : path.nodes)
      intel = intel || (node(at).kind == NodeKind::cpu && node(at).vendor == "GenuineIntel");
    // From a GPU through one Intel CPU (PHB): 6/5 on PCI links.
    intel = intel && path.type == PathType::phb && node(from).kind == NodeKind::gpu;
    for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
      const int a = path.nodes[i], b = path.nodes[i + 1];
      const GraphLink* link = widest(a, b);
      const double here = gbps * (intel && link->kind == LinkKind::pci ? 1.2 : 1);
      ask(a, b, here);
      const bool old = node(b).kind == NodeKind::gpu && !node(b).amd && node(b).sm > 0 &&
                       node(b).sm < 80 && node(from).kind != NodeKind::gpu;
      if (old) ask(b, a, here / 8);
      const bool power = node(b).kind == NodeKind::cpu && node(b).arch.find("ppc64") == 0;
      if (power && link->kind == LinkKind::nvl) ask(b, a, here);
    }
  }
  const collctl::topology::GraphLink* widest(int a, int b) const {
    const collctl::topology::GraphLink* best = nullptr;
    for (const auto& link : node(a).links)
      if (link.to == b && (best == nullptr || link.gbps > best->gbps)) best = &link;
    return best;
  }
  void ask(int a, int b, double gbps) {
    asked[{a, b}] += gbps;
    carries[{a, b}] = widest(a, b)->gbps;
  }

  // One channel's messages.
  void channel(collctl::topology::Pattern pattern, const collctl::topology::GraphChannel& c,
               double intra, double inter) {
    using namespace collctl::topology;
    for (size_t i = 0; i + 1 < c.gpus.size(); ++i) message(c.gpus[i], c.gpus[i + 1], intra);
    const bool ring = pattern == Pattern::ring;
    if (c.net_in < 0) {
      if (ring && c.gpus.size() > 1) message(c.gpus.back(), c.gpus.front(), intra);
      return;
    }
    const int second = c.gpus.size() > 1 ? c.gpus[1] : c.gpus[0];
    message(c.net_in, c.gpus.front(), inter);
    if (ring) message(c.gpus.back(), c.net_out, inter);
    if (pattern == Pattern::tree) message(c.gpus[0], c.net_out, inter);
    if (pattern == Pattern::split_tree) message(second, c.net_out, inter);
    if (pattern == Pattern::balanced_tree) {
      message(c.gpus[0], c.net_out, inter / 2);
      if (c.gpus.size() > 1) message(second, c.net_out, inter / 2);
    }
  }
  void check_links() {
    for (const auto& [ends, gbps] : asked)
      if (gbps > carries[ends] * 1.00001)
        faults.push_back(name(ends.first) + " -> " + name(ends.second) + ": " +
                         std::to_string(gbps) + " of " + std::to_string(carries[ends]));
  }

  bool is_same_port(int a, int b) const {
    return a == b ||
           (node(a).guid != 0 && node(a).guid == node(b).guid && node(a).port == node(b).port);
  }
  void check_ports(const collctl::topology::ChannelGraph& found) {
    for (const int net : graph.nets) {
      // The fastest of ports that share and differ in speed counts.
      double sum = 0, most = 0;
      for (const int other : graph.nets)
        if (is_same_port(net, other)) most = std::max(most, node(other).net_gbps);
      for (const auto& c : found.channels)
        if (c.net_in >= 0 && is_same_port(c.net_in, net)) sum += found.bw_inter;
      if (sum > most * 1.00001) faults.push_back(name(net) + " is oversubscribed");
    }
  }

  void check_order(const collctl::topology::ChannelGraph& found, bool network) {
    const std::set<int> all(graph.gpus.begin(), graph.gpus.end());
    for (const auto& c : found.channels) {
      if (std::set<int>(c.gpus.begin(), c.gpus.end()) != all || c.gpus.size() != all.size())
        faults.push_back("a channel does not hold each GPU once");
      if ((c.net_in >= 0) != network || (c.net_out >= 0) != network)
        faults.push_back("network devices where none should be, or none");
      if (found.same_channels && c.gpus != found.channels[0].gpus)
        faults.push_back("channels differ that should be the same");
    }
  }

  void check_nets(const collctl::topology::ChannelGraph& found) {
    using namespace collctl::topology;
    for (size_t i = 0; i < found.channels.size(); ++i) {
      const auto& c = found.channels[i];
      const bool tree = found.pattern == Pattern::tree;
      if (tree && c.net_in != c.net_out) faults.push_back("a tree with two network devices");
      if (found.cross_nic == 0 && !is_same_port(c.net_in, c.net_out))
        faults.push_back("a channel crosses network devices");
      if (found.cross_nic == 2 && found.pattern == Pattern::ring && i % 2 == 1) {
        const auto& pair = found.channels[i - 1];
        if (c.net_in != pair.net_out || c.net_out != pair.net_in)
          faults.push_back("the second ring of a pair does not go back");
      }
      if (found.collnet && !node(c.net_in).coll) faults.push_back("collnet by a device without it");
    }
  }

  // All of it; empty when nothing is wrong. For the fallback only the order must hold.
  std::string judge(const collctl::topology::ChannelGraph& found, bool network) {
    check_order(found, network);
    if (!found.fallback) {
      for (const auto& c : found.channels)
        channel(found.pattern, c, found.bw_intra, found.bw_inter);
      check_links();
      if (network) check_ports(found);
      if (network) check_nets(found);
    }
    std::string text;
    for (const auto& fault : faults) text += fault + "\n";
    return text;
  }
};

inline std::string judge(const collctl::topology::Graph& graph,
                         const collctl::topology::Paths& paths,
                         const collctl::topology::ChannelGraph& found, bool network) {
  return Recount{graph, paths}.judge(found, network);
}
