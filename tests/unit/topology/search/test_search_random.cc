// Properties of the search over machines made at random and over the committed files.
#include "tests/how_much.h"
#include "tests/unit/topology/committed.h"
#include "tests/unit/topology/random_machine.h"
#include "tests/unit/topology/search/channels.h"

namespace search_search_random_tests {

using namespace collctl::topology;
using namespace collctl::test;

namespace {

bool is_equal(const ChannelGraph& a, const ChannelGraph& b) {
  return a.pattern == b.pattern && a.channels == b.channels && a.bw_intra == b.bw_intra &&
         a.bw_inter == b.bw_inter && a.visits == b.visits && a.steps == b.steps &&
         a.type_intra == b.type_intra && a.type_inter == b.type_inter && a.hops == b.hops;
}

// Three patterns, each at most 2^21 visits and short attempts after that.
constexpr int64_t kMostVisits = int64_t{1} << 22;

void check_found(const Graph& graph, const Paths& paths, const NodeGraphs& found, int nodes) {
  const bool network = nodes > 1 && !graph.nets.empty();
  INFO("nodes " << nodes);
  for (const ChannelGraph* one : {&found.ring, &found.tree, &found.collnet}) {
    INFO((one == &found.ring ? "ring" : one == &found.tree ? "tree" : "collnet"));
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
}

// Its channels, after all checks. `again`: a second search must say the same in all.
NodeGraphs check_machine(const Graph& graph, int nodes, bool again) {
  const Paths paths = effective_paths(graph, base_paths(graph), {});
  const SearchOptions options{.nodes = nodes};
  NodeGraphs found = search_node(graph, paths, options);
  check_found(graph, paths, found, nodes);
  if (again) {
    const NodeGraphs repeated = search_node(graph, paths, options);
    CHECK(is_equal(found.ring, repeated.ring));
    CHECK(is_equal(found.tree, repeated.tree));
    CHECK(is_equal(found.collnet, repeated.collnet));
  }
  return found;
}

}  // namespace

TEST_CASE("channels of random machines are whole and never take more than a link carries") {
  int networks = 0, switches = 0, several = 0, different = 0, crossing = 0, collnets = 0;
  for (int seed = 0; seed < how_much(Sweep::search_random); ++seed) {
    INFO("seed " << seed);
    RandomMachine made(unsigned(seed), 8, 4);
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
  CHECK(networks > share(Sweep::search_random, 50));
  CHECK(switches > share(Sweep::search_random, 10));
  CHECK(several > share(Sweep::search_random, 50));
  CHECK(different > share(Sweep::search_random, 5));
  CHECK(crossing > share(Sweep::search_random, 1));
  CHECK(collnets > share(Sweep::search_random, 5));
}

TEST_CASE("channels of every committed file are whole and never take more than a link carries") {
  int machines = 0;
  Part inside(Sweep::committed_inside);
  for (const Committed& one : committed_machines()) {
    INFO(one.path);
    check_found(one.graph, one.paths, one.found, 2);
    // Inside the node.
    ++machines;
    if (inside.takes()) check_machine(one.graph, 1, false);
  }
  CHECK(machines > fewest_machines());
}

TEST_CASE("options bound the channels; without crossing no channel crosses") {
  for (int seed = 0; seed < how_much(Sweep::search_options); ++seed) {
    INFO("seed " << seed);
    RandomMachine made(unsigned(seed), 6, 4);
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
  for (int seed = 0; seed < how_much(Sweep::search_bandwidth); ++seed) {
    RandomMachine made(unsigned(seed) + 500, 5, 2);
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
  CHECK(compared > share(Sweep::search_bandwidth, 40));
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
  CHECK_FALSE(check_machine(machine.graph, 1, nightly()).ring.fallback);
  if (nightly()) CHECK_FALSE(check_machine(machine.graph, 2, false).ring.fallback);
}

}  // namespace search_search_random_tests
