// Channels in short words, to be compared with what was drawn by hand.
#pragma once

#include "tests/unit/topology/search/channels.h"

namespace collctl::topology::testing {

inline NodeGraphs search(const Machine& machine, const SearchOptions& options = {},
                         const Rules& rules = {}) {
  const Paths paths = effective_paths(machine.graph, machine.paths, rules);
  NodeGraphs found = search_node(machine.graph, paths, options);
  const bool network = options.nodes > 1 && !machine.graph.nets.empty();
  for (const ChannelGraph* one : {&found.ring, &found.tree, &found.collnet})
    CHECK(judge(machine.graph, paths, *one, network) == "");
  return found;
}

// "2 x 20/20 PIX/PIX": channels, GB/s inside and outside, worst types.
inline std::string text(const ChannelGraph& graph) {
  const auto number = [](double value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  return std::to_string(graph.channels.size()) + " x " + number(graph.bw_intra) + "/" +
         number(graph.bw_inter) + " " + path_type_name(graph.type_intra) + "/" +
         path_type_name(graph.type_inter);
}

// "NET/0 0 1 2 NET/0": devs.
inline std::string line(const Machine& machine, const GraphChannel& channel) {
  const auto dev = [&](int at) { return std::to_string(machine.graph.nodes[size_t(at)].dev); };
  std::string line = channel.net_in >= 0 ? "NET/" + dev(channel.net_in) : "";
  for (const int gpu : channel.gpus) line += (line.empty() ? "" : " ") + dev(gpu);
  if (channel.net_out >= 0) line += " NET/" + dev(channel.net_out);
  return line;
}

inline std::string nic(const std::string& bus, int dev, int gbits, const std::string& more = "") {
  const std::string number = std::to_string(dev);
  return device(bus, "<nic><net name=\"n" + number + "\" dev=\"" + number + "\" speed=\"" +
                         std::to_string(gbits * 1000) + "\" gdr=\"1\" " + more + "/></nic>");
}

}  // namespace collctl::topology::testing
