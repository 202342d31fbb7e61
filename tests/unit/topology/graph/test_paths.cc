// Best paths: expected values derived by hand from the rules, an oracle that tries every path of
// small graphs, and properties.
#include <cmath>
#include <random>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/unit/topology/machine.h"
#include "topology/bandwidth.h"

namespace graph_paths_tests {

using namespace collctl::topology;

TEST_CASE("the bandwidths are those of the sources") {
  const auto pci = [](const char* speed, int width) { return pci_bandwidth({speed}, {width}); };
  // Lanes x rate / 80: gen3 x16 is 16 x 60 / 80.
  CHECK(pci("8.0 GT/s PCIe", 16).gbps == Approx(12));
  CHECK(pci("16 GT/s", 16).gbps == Approx(24));
  CHECK(pci("32.0 GT/s PCIe", 16).gbps == Approx(48));
  CHECK(pci("64.0 GT/s PCIe", 16).gbps == Approx(96));
  CHECK(pci("8.0 GT/s PCIe", 4).gbps == Approx(3));
  CHECK(pci("2.5 GT/s PCIe", 1).gbps == Approx(0.1875));
  CHECK(pci("16 GT/s", 16).assumed.empty());
  CHECK(pci("32 GT/s PCIe/s", 16).gbps == Approx(12));
  CHECK(pci("32 GT/s PCIe/s", 16).assumed ==
        "the unknown link speed '32 GT/s PCIe/s'; gen3 is assumed");
  CHECK(pci("", 0).gbps == Approx(12));
  CHECK(pci("16 GT/s", 255).gbps == Approx(24));
  CHECK_FALSE(pci("16 GT/s", 255).assumed.empty());
  CHECK(pci_bandwidth({}, {}).gbps == Approx(12));
  CHECK(net_bandwidth(400000).gbps == Approx(50));
  CHECK(net_bandwidth(-1).gbps == Approx(1.25));
  for (const auto& [sm, gbps] : {std::pair(60, 18.0),
                                 {70, 20.0},
                                 {75, 20.0},
                                 {80, 20.0},
                                 {86, 12.0},
                                 {89, 20.0},
                                 {90, 20.6},
                                 {100, 40.1},
                                 {120, 40.1},
                                 {0, 20.0}})
    CHECK(nvlink_bandwidth(sm) == Approx(gbps));
  CHECK(xgmi_bandwidth("906") == Approx(24));
  CHECK(xgmi_bandwidth("910") == Approx(36));
  CHECK(xgmi_bandwidth("940") == Approx(48));
  CHECK(xgmi_bandwidth("gfx942") == Approx(48));
  CHECK(cpu_bandwidth("x86_64", "AuthenticAMD", 175, 1).gbps == Approx(16));
  for (const auto& [model, gbps] :
       {std::pair(0xCF, 40.0), {0x8F, 22.0}, {0x6A, 10.0}, {0x55, 10.0}, {0x4F, 6.0}})
    CHECK(cpu_bandwidth("x86_64", "GenuineIntel", 6, model).gbps == Approx(gbps));
  CHECK(cpu_bandwidth("arm64", "", 0, 0).gbps == Approx(6));
  CHECK(cpu_bandwidth("ppc64", "", 0, 0).gbps == Approx(32));
  CHECK(cpu_bandwidth("", "", 0, 0).gbps == Approx(5000));
}

TEST_CASE("eight H100 on NVSwitches below two-level PCI switches") {
  const Machine machine = load("oci-bm-gpu-h100-8-topo.xml");
  REQUIRE(machine.graph.gpus.size() == 8);
  REQUIRE(machine.graph.nets.size() == 16);
  // 18 NVLinks (5 + 5 + 4 + 4) of 20.6 GB/s to the one NVSwitch node, and 18 from it.
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b)
      if (a != b) machine.check_gpus(a, b, PathType::nvl, 370.8, 2);
  // The inner switches (subsystem 0x1003) are absorbed by the outer (0x0072), so the GPU and its
  // two ports are below one switch: GPU - switch - NIC - port, by gen5 x16 (48) and a port of 180
  // Gb/s.
  machine.check_net(0, 0, PathType::pix, 22.5, 3);
  machine.check_net(0, 1, PathType::pix, 22.5, 3);
  // Another switch of the socket: GPU - switch - CPU - switch - NIC - port; the outer switches' own
  // uplinks say 5.0 GT/s: 16 x 30 / 80.
  machine.check_net(0, 2, PathType::phb, 6, 5);
  // The other socket: one link more, 22 GB/s on Sapphire Rapids (model 143 = 0x8F).
  machine.check_net(0, 15, PathType::sys, 6, 6);
}

TEST_CASE("four A100, all to all by NVLink, a NIC on each NUMA node") {
  const Machine machine = load("nersc-perlmutter-a100-4x-cxi.xml");
  // Four links of 20 between each pair.
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      if (a != b) machine.check_gpus(a, b, PathType::nvl, 80, 1);
  // GPU 0 is on NUMA node 3 with cxi3: GPU - CPU - NIC - port, gen4 x16 (24), port 200 Gb/s (25).
  machine.check_net(0, 3, PathType::phb, 24, 3);
  machine.check_net(0, 0, PathType::sys, 16, 4);
}

TEST_CASE("eight RTX 3090 below two switches") {
  const Machine machine = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  machine.check_gpus(0, 3, PathType::pix, 24, 2);
  // GPU - switch - CPU - CPU - switch - GPU; Ice Lake (106 = 0x6A) 10.
  machine.check_gpus(0, 4, PathType::sys, 10, 5);
}

TEST_CASE("attributes that are missing") {
  const Machine machine = load("rtp-llm-l20-8x-cx8-partial-attrs.xml");
  REQUIRE(machine.graph.gpus.size() == 8);
  // GPU - switch - switch - NIC - port: several switches; a port without speed has 10 Gb/s.
  machine.check_net(0, 4, PathType::pxb, 1.25, 4);
  CHECK(machine.graph.nodes[size_t(machine.gpu(7))].rank == 7);
  CHECK(machine.has_finding("no rank"));
  CHECK(machine.has_finding("no sm"));
  CHECK(machine.has_finding("no speed; 10 Gb/s"));
}

TEST_CASE("empty link fields and a virtual network device") {
  const Machine machine = load("azure-nc48v4-topo.xml");
  machine.check_gpus(0, 1, PathType::nvl, 240, 1);  // 12 x 20
  machine.check_net(0, 0, PathType::phb, 12, 3);    // GPU - CPU - NIC - eth0 (100 Gb/s: 12.5)
  machine.check_net(1, 0, PathType::sys, 12, 4);    // 16 between AMD's NUMA nodes
  CHECK(machine.has_finding("a PCI device has no link speed; gen3 x16 is assumed"));
}

TEST_CASE("a published file in which every GPU has links to itself") {
  const Machine machine = load("azure-ncv4-topo.xml");
  machine.check_gpus(0, 1, PathType::sys, 12, 3);  // gen3 x16 assumed; no NVLink is left
  CHECK(machine.has_finding("links to itself; they are ignored (4 times; the first is shown)"));
}

TEST_CASE("a published file with a NIC of 200 Tb/s") {
  const Machine machine = load("rccl/topo_4p_940.xml");
  machine.check_gpus(0, 1, PathType::nvl, 48, 1);  // one xGMI link
  CHECK(machine.has_finding("more than any device has"));
}

// Two groups of 90 GPUs, each GPU with a link to all of the other group: within a group by NVLink
// through the first GPU of the other one, at the 20 GB/s of a link.
TEST_CASE("many GPUs with many NVLinks") {
  constexpr int kGroup = 90;
  const auto bus = [](int i) { return collctl::format("{:04x}:00:00.0", i + 1); };
  std::string text;
  for (int i = 0; i < 2 * kGroup; ++i) {
    text += collctl::format(
        "<pci busid=\"{}\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" link_width=\"16\">"
        "<gpu dev=\"{}\" rank=\"{}\" sm=\"80\" gdr=\"1\">",
        bus(i), i, i);
    for (int k = 0; k < kGroup; ++k)
      text += collctl::format("<nvlink target=\"{}\" count=\"1\" tclass=\"0x030200\"/>",
                              bus(i < kGroup ? kGroup + k : k));
    text += "</gpu></pci>";
  }
  const auto read =
      read_xml("<system version=\"1\"><cpu numaid=\"0\">" + text + "</cpu></system>", "f.xml");
  REQUIRE(read.ok());
  const auto graph = make_graph(read->system, "f.xml");
  REQUIRE(graph.ok());
  const Paths paths = make_paths(*graph);
  const std::vector<int>& gpus = graph->gpus;
  size_t wrong = 0;
  for (int a = 0; a < 2 * kGroup; ++a)
    for (int b = 0; b < 2 * kGroup; ++b) {
      if (a == b) continue;
      const Path& path = paths.at(gpus[size_t(a)], gpus[size_t(b)]);
      const bool same = (a < kGroup) == (b < kGroup);
      std::vector<int> nodes{gpus[size_t(a)], gpus[size_t(b)]};
      if (same) nodes.insert(nodes.begin() + 1, gpus[a < kGroup ? size_t(kGroup) : 0]);
      if (path.type != (same ? PathType::nvb : PathType::nvl) || path.gbps != 20 ||
          path.nodes != nodes)
        ++wrong;
    }
  CHECK(wrong == 0);
}

TEST_CASE("NVLink through one GPU, not through two") {
  // A chain of NVLinks 0 - 1 - 2 - 3, two links of 20 each; the GPUs on one CPU at gen4 x16.
  const Machine machine = parse(chip(device("01", gpu(0, nvlink("02", 2))) +
                                     device("02", gpu(1, nvlink("01", 2) + nvlink("03", 2))) +
                                     device("03", gpu(2, nvlink("02", 2) + nvlink("04", 2))) +
                                     device("04", gpu(3, nvlink("03", 2)))));
  machine.check_gpus(0, 1, PathType::nvl, 40, 1);
  machine.check_gpus(0, 2, PathType::nvb, 40, 2);
  machine.check_gpus(0, 3, PathType::phb, 24, 2);
  const Paths without = make_paths(machine.graph, {.through_gpus = false});
  CHECK(without.at(machine.gpu(0), machine.gpu(2)).type == PathType::phb);
}

TEST_CASE("Grace Hopper: C2C to the CPU, PCI from there to the NIC") {
  // c2c 44712 MB/s x 5 = 223.56; the GPU's own PCI link is gen1 x1.
  const Machine machine =
      parse(chip(device("01", gpu(0, "<c2c bw=\"44712\" count=\"5\"/>"), "2.5 GT/s PCIe", 1) +
                 device("02", gpu(1, "<c2c bw=\"44712\" count=\"5\"/>"), "2.5 GT/s PCIe", 1) +
                 device("03", "<nic><net name=\"a\" dev=\"0\" speed=\"400000\" gdr=\"1\"/></nic>",
                        "32.0 GT/s PCIe")));
  machine.check_gpus(0, 1, PathType::c2c, 223.56, 2);
  // GPU - CPU - NIC - port: 48 of the NIC's PCI link is the least.
  machine.check_net(0, 0, PathType::p2c, 48, 3);
  CHECK(machine.graph.nodes[size_t(machine.gpu(0))].links.front().kind == LinkKind::c2c);
}

TEST_CASE("which Broadcom switches become one") {
  const auto bridge = [](const char* bus, const char* device_id, const char* subsystem,
                         const std::string& inner) {
    return std::string("<pci busid=\"0000:") + bus +
           ":00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"" + device_id +
           "\" subsystem_vendor=\"0x1000\" subsystem_device=\"" + subsystem +
           "\" link_speed=\"16 GT/s\" link_width=\"16\">" + inner + "</pci>";
  };
  const auto type = [&](const char* device_id, const char* outer, const char* inner) {
    const Machine machine =
        parse(chip(bridge("10", device_id, outer,
                          bridge("20", device_id, inner, device("01", gpu(0))) +
                              bridge("30", device_id, inner, device("02", gpu(1))))));
    return machine.paths.at(machine.gpu(0), machine.gpu(1)).type;
  };
  CHECK(type("0xc010", "0xa096", "0xa064") == PathType::pix);  // gen4: axxx at both levels
  CHECK(type("0xc030", "0x0072", "0x1003") == PathType::pix);  // gen5: 0xxx over 1xxx
  CHECK(type("0xc030", "0x100b", "0x100b") == PathType::pxb);  // 1xxx is an inner one
  CHECK(type("0xc030", "0x0072", "0x0072") == PathType::pxb);
  CHECK(type("0xc010", "0xa096", "0x13b8") == PathType::pxb);
  CHECK(type("0xc012", "0xa096", "0xa096") == PathType::pxb);  // another family
}

TEST_CASE("a GPU that no rank has is left out, and a branch without a use") {
  const Machine machine = parse(chip(
      device("10", device("01", gpu(0)) + device("02", "<gpu dev=\"1\" rank=\"-1\" sm=\"80\"/>")) +
      device("20", device("03", ""))));
  CHECK(machine.graph.gpus.size() == 1);
  CHECK(machine.graph.nodes.size() == 3);  // the CPU, one switch, one GPU
}

TEST_CASE("functions of one card are one NIC, virtual interfaces one without an address") {
  const auto port = [](const char* function, int dev) {
    return std::string("<pci busid=\"0000:18:00.") + function +
           "\" link_speed=\"8.0 GT/s PCIe\" link_width=\"4\"><nic><net name=\"e" +
           std::to_string(dev) + "\" dev=\"" + std::to_string(dev) +
           "\" speed=\"1000\" gdr=\"0\"/></nic></pci>";
  };
  const std::string bridge = "<nic><net name=\"br0\" dev=\"2\" speed=\"10000\" gdr=\"0\"/></nic>";
  const std::string cpu = "<cpu numaid=\"0\" vendor=\"AuthenticAMD\">";
  const Machine machine = parse(
      "<system version=\"1\">" + cpu + port("0", 0) + port("1", 1) + bridge + device("01", gpu(0)) +
      "</cpu><cpu numaid=\"1\" vendor=\"AuthenticAMD\">" + bridge + "</cpu></system>");
  // Two CPUs, the card, its two ports, the virtual NIC, br0 once, the GPU.
  CHECK(machine.graph.nodes.size() == 8);
  machine.check_net(0, 0, PathType::phb, 0.125, 3);
  machine.check_net(0, 2, PathType::phb, 1.25, 3);
  CHECK(machine.has_finding("repeated below another NUMA node"));
}

TEST_CASE("two GPUs of one rank or dev are refused with both lines") {
  const auto graph_of = [](const std::string& text) {
    return make_graph(read_xml(text, "f.xml")->system, "f.xml");
  };
  const auto twice = graph_of(chip(device("01", gpu(0)) + "\n" + device("02", gpu(0))));
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().message == "f.xml:2: two GPUs have dev 0: the other is at line 1");
}

TEST_CASE("every committed file gives a graph whose ends all reach each other") {
  for (const auto& path : data_files()) {
    INFO(path);
    const auto read = read_xml_file(path);
    REQUIRE(read.ok());
    const auto graph = make_graph(read->system, "f.xml");
    REQUIRE(graph.ok());
    const Paths paths = base_paths(*graph);
    for (const int a : paths.endpoints())
      for (const int b : paths.endpoints()) {
        const Path& there = paths.at(a, b);
        const Path& back = paths.at(b, a);
        if (there.type == PathType::dis || there.type != back.type || there.gbps != back.gbps ||
            there.hops != back.hops || there.nodes.front() != a || there.nodes.back() != b)
          FAIL(node_name(*graph, a) << " to " << node_name(*graph, b));
      }
  }
}

namespace {

// Every walk without a repeated node, by the rules as the facts word them; shares nothing with the
// searches above.
struct Oracle {
  const Graph& graph;
  int target;
  std::tuple<int, double, int> best{99, 0, 0};  // type rank, minus bandwidth, hops
  std::vector<bool> seen = std::vector<bool>(graph.nodes.size(), false);

  // 0 nothing, 1 NVLink, 3 C2C, 4 one switch, 5 switches, 8 a CPU, 9 between CPUs
  int rank(int from, const GraphLink& link) const {
    const NodeKind a = graph.nodes[size_t(from)].kind, b = graph.nodes[size_t(link.to)].kind;
    const bool cpu = a == NodeKind::cpu || b == NodeKind::cpu;
    if (a == NodeKind::pci && b == NodeKind::pci) return 5;
    if (link.kind == LinkKind::pci) return cpu ? 8 : 4;
    if (link.kind == LinkKind::nvl) return 1;
    if (link.kind == LinkKind::c2c) return 3;
    if (link.kind == LinkKind::sys) return 9;
    return 0;
  }
  void walk(int at, int worst, double least, int hops, int gpus, bool only_nvl_to_gpus) {
    if (at == target) {
      // One GPU in between is NVLink through a GPU, and nothing else may be.
      if (gpus > 1 || (gpus == 1 && (!only_nvl_to_gpus || hops != 2))) return;
      best = std::min(best, {gpus == 1 ? 2 : worst, -least, hops});
      return;
    }
    const NodeKind kind = graph.nodes[size_t(at)].kind;
    if (hops > 0 && kind == NodeKind::net) return;
    if (hops > 0 && kind == NodeKind::gpu) ++gpus;
    if (gpus > 1) return;
    seen[size_t(at)] = true;
    for (const GraphLink& link : graph.nodes[size_t(at)].links)
      if (!seen[size_t(link.to)])
        walk(link.to, std::max(worst, rank(at, link)), std::min(least, link.gbps), hops + 1, gpus,
             only_nvl_to_gpus && link.kind == LinkKind::nvl);
    seen[size_t(at)] = false;
  }
};

// Up to nine nodes of any kind, linked at random in both directions with equal bandwidth.
Graph random_graph(std::mt19937& random) {
  const auto below = [&](int limit) { return int(random() % unsigned(limit)); };
  Graph graph;
  const int count = 2 + below(8);
  for (int i = 0; i < count; ++i) {
    Node node;
    node.kind = NodeKind(below(6));
    node.dev = node.rank = i;
    node.id = i;
    graph.nodes.push_back(node);
    if (node.kind == NodeKind::gpu) graph.gpus.push_back(i);
    if (node.kind == NodeKind::net) graph.nets.push_back(i);
    if (node.kind == NodeKind::cpu) graph.cpus.push_back(i);
  }
  const double widths[] = {6, 12, 24, 24.5, 48, 5000};
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < a; ++b) {
      if (below(5) < 2) continue;
      const LinkKind kind = LinkKind(below(6));
      const double gbps = widths[below(6)];
      graph.nodes[size_t(a)].links.push_back({b, kind, gbps});
      graph.nodes[size_t(b)].links.push_back({a, kind, gbps});
    }
  return graph;
}

}  // namespace

TEST_CASE("no path of a small graph is better than the one found") {
  int compared = 0, reached[kPathTypes] = {};
  const PathType by_rank[] = {PathType::loc, PathType::nvl, PathType::nvb, PathType::c2c,
                              PathType::pix, PathType::pxb, PathType::p2c, PathType::pxn,
                              PathType::phb, PathType::sys};
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    const Graph graph = random_graph(random);
    const Paths paths = make_paths(graph);
    for (const int a : paths.endpoints())
      for (const int b : paths.endpoints()) {
        if (a == b) continue;
        Oracle oracle{graph, b};
        const bool gpus = graph.nodes[size_t(a)].kind == NodeKind::gpu &&
                          graph.nodes[size_t(b)].kind == NodeKind::gpu;
        oracle.walk(a, 0, 1e300, 0, 0, gpus);
        const auto [rank, minus_gbps, hops] = oracle.best;
        const Path& found = paths.at(a, b);
        const PathType type = rank == 99 ? PathType::dis : by_rank[rank];
        ++compared;
        ++reached[int(type)];
        if (found.type != type || found.gbps != (rank == 99 ? 0 : -minus_gbps) ||
            found.hops != hops)
          FAIL("seed " << seed << ": " << node_name(graph, a) << " to " << node_name(graph, b)
                       << ": " << path_type_name(found.type) << " " << found.gbps << " "
                       << found.hops << " instead of " << path_type_name(type) << " " << -minus_gbps
                       << " " << hops);
      }
  }
  CHECK(compared > 10000);
  for (const PathType type : {PathType::nvl, PathType::nvb, PathType::c2c, PathType::pix,
                              PathType::pxb, PathType::phb, PathType::sys, PathType::dis})
    CHECK(reached[int(type)] >= 10);
}

TEST_CASE("paths are symmetric, no detour beats them, and more bandwidth never makes them worse") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed + 9000);
    Graph graph = random_graph(random);
    const Paths before = make_paths(graph);
    for (const int a : before.endpoints())
      for (const int b : before.endpoints()) {
        const Path &there = before.at(a, b), &back = before.at(b, a);
        CHECK((there.type == back.type && there.gbps == back.gbps && there.hops == back.hops));
        for (const int middle : graph.cpus) {
          const Path detour = joined(before.at(a, middle), before.at(middle, b));
          const bool better =
              std::pair(detour.type, -detour.gbps) < std::pair(there.type, -there.gbps);
          CHECK_FALSE(better);
        }
      }
    for (Node& node : graph.nodes)
      for (GraphLink& link : node.links) link.gbps *= 2;
    const Paths after = make_paths(graph);
    for (const int a : before.endpoints())
      for (const int b : before.endpoints()) {
        CHECK(after.at(a, b).type == before.at(a, b).type);
        CHECK((a == b || after.at(a, b).gbps == 2 * before.at(a, b).gbps));
      }
  }
}

}  // namespace graph_paths_tests
