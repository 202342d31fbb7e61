// Properties of the search over machines made at random and over the committed files.
#include <chrono>

#include "tests/unit/topology/channels.h"
#include "tests/unit/topology/random_machine.h"

using namespace collctl::topology;

namespace {

bool is_equal(const ChannelGraph& a, const ChannelGraph& b) {
  return a.pattern == b.pattern && a.channels == b.channels && a.bw_intra == b.bw_intra &&
         a.bw_inter == b.bw_inter && a.visits == b.visits && a.steps == b.steps &&
         a.type_intra == b.type_intra && a.type_inter == b.type_inter && a.hops == b.hops;
}

// Three patterns, each at most 2^21 visits and short attempts after that.
constexpr int64_t kMostVisits = int64_t{1} << 22;

// Its channels, after all checks. `again`: a second search must say the same in all.
NodeGraphs check_machine(const Graph& graph, int nodes, bool again) {
  const Paths paths = effective_paths(graph, base_paths(graph), {});
  const SearchOptions options{.nodes = nodes};
  const NodeGraphs found = search_node(graph, paths, options);
  const NodeGraphs repeated = again ? search_node(graph, paths, options) : found;
  const bool network = nodes > 1 && !graph.nets.empty();
  INFO("nodes " << nodes);
  for (const auto& [one, other] :
       {std::pair(&found.ring, &repeated.ring), std::pair(&found.tree, &repeated.tree),
        std::pair(&found.collnet, &repeated.collnet)}) {
    INFO((one == &found.ring ? "ring" : one == &found.tree ? "tree" : "collnet"));
    CHECK(is_equal(*one, *other));
    CHECK(judge(graph, paths, *one, network) == "");
    CHECK(one->visits <= kMostVisits);
    CHECK(one->channels.size() <= 32);
  }
  CHECK(found.ring.pattern == Pattern::ring);
  CHECK(found.tree.pattern != Pattern::ring);
  CHECK(found.ring.channels.size() >= 1);
  // The tree has as many channels as the ring, or none was found for it.
  CHECK((found.tree.fallback || found.tree.channels.size() == found.ring.channels.size()));
  bool reduces = false;
  for (const int net : graph.nets) reduces = reduces || graph.nodes[size_t(net)].coll;
  CHECK((found.collnet.channels.empty() || (reduces && network)));
  return found;
}

}  // namespace

TEST_CASE("channels of random machines are whole and never take more than a link carries") {
  int networks = 0, switches = 0, several = 0, different = 0, crossing = 0, collnets = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    RandomMachine made(seed, 8, 4);
    const Machine machine = parse(made.xml());
    for (const int nodes : {1, 2}) {
      const NodeGraphs found = check_machine(machine.graph, nodes, true);
      networks += nodes > 1 && !machine.graph.nets.empty();
      several += found.ring.channels.size() > 1;
      different += !found.ring.same_channels;
      crossing += found.ring.cross_nic == 2;
      collnets += !found.collnet.channels.empty();
    }
    for (const Node& node : machine.graph.nodes) switches += node.kind == NodeKind::nvs;
  }
  // The machines are of all kinds.
  CHECK(networks > 50);
  CHECK(switches > 10);
  CHECK(several > 50);
  CHECK(different > 5);
  CHECK(crossing > 1);
  CHECK(collnets > 5);
}

TEST_CASE("channels of every committed file are whole and never take more than a link carries") {
  const auto start = std::chrono::steady_clock::now();
  int machines = 0;
  for (const auto& path : data_files()) {
    INFO(path);
    const auto read = read_xml_file(path);
    REQUIRE(read.ok());
    const auto graph = make_graph(read->system, path);
    REQUIRE(graph.ok());
    if (graph->gpus.empty()) continue;
    ++machines;
    check_machine(*graph, 1, false);
    check_machine(*graph, 2, false);
  }
  CHECK(machines > 60);
  // Not a measure of speed: only that nothing runs away, with sanitizers on a busy machine too.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::minutes(10));
}

TEST_CASE("options bound the channels; without crossing no channel crosses") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    RandomMachine made(seed, 6, 4);
    const Machine machine = parse(made.xml());
    const Paths paths = effective_paths(machine.graph, machine.paths, {});
    for (const int cross : {0, 1, 2}) {
      const NodeGraphs found =
          search_node(machine.graph, paths,
                      {.nodes = 2, .min_channels = 2, .max_channels = 3, .cross_nic = cross});
      CHECK((found.ring.fallback ||
             (found.ring.channels.size() >= 2 && found.ring.channels.size() <= 3)));
      CHECK((found.ring.cross_nic == 0 || found.ring.cross_nic == cross));
      CHECK(judge(machine.graph, paths, found.ring, !machine.graph.nets.empty()) == "");
    }
  }
}

TEST_CASE("more bandwidth everywhere never gives less together") {
  int compared = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    RandomMachine made(seed + 500, 5, 2);
    const Machine machine = parse(made.xml());
    const Paths before = effective_paths(machine.graph, machine.paths, {});
    Graph twice = machine.graph;
    for (Node& node : twice.nodes) {
      for (GraphLink& link : node.links) link.gbps *= 2;
      node.net_gbps *= 2;
    }
    const Paths after = effective_paths(twice, base_paths(twice), {});
    const ChannelGraph slow = search_node(machine.graph, before, {}).ring;
    const ChannelGraph fast = search_node(twice, after, {}).ring;
    if (slow.fallback) continue;
    INFO("seed " << seed);
    CHECK(double(fast.channels.size()) * fast.bw_intra >=
          double(slow.channels.size()) * slow.bw_intra);
    ++compared;
  }
  CHECK(compared > 40);
}

TEST_CASE("a machine far larger than any real one stays within its visits") {
  // 96 GPUs below 12 switches, 24 ports: a ring of 96 at least must come out.
  std::string text;
  for (int s = 0; s < 12; ++s) {
    std::string inner;
    for (int g = 0; g < 8; ++g) {
      const int dev = s * 8 + g;
      inner += "<pci busid=\"" + std::to_string(1000 + s) + ":0" + std::to_string(g) +
               ":00.0\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + gpu(dev) + "</pci>";
    }
    for (int n = 0; n < 2; ++n)
      inner += "<pci busid=\"" + std::to_string(1000 + s) + ":1" + std::to_string(n) +
               ":00.0\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic><net name=\"n" +
               std::to_string(s * 2 + n) + "\" dev=\"" + std::to_string(s * 2 + n) +
               "\" speed=\"200000\" gdr=\"1\"/></nic></pci>";
    text += "<pci busid=\"" + std::to_string(1000 + s) +
            ":20:00.0\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + inner + "</pci>";
  }
  const Machine machine = parse(chip(text));
  REQUIRE(machine.graph.gpus.size() == 96);
  CHECK_FALSE(check_machine(machine.graph, 1, true).ring.fallback);
  CHECK_FALSE(check_machine(machine.graph, 2, false).ring.fallback);
}
