// Channels of small machines that show one rule each, derived in the comments.
#include "tests/unit/topology/search/search_by_hand.h"

namespace search_search_rules_tests {

using namespace collctl::topology;
using namespace collctl::topology::testing;

TEST_CASE("through an Intel CPU a sixth of a PCI link is lost") {
  // Gen3 x16 is 12 GB/s. P2P through the CPU by knob; 12 x 6/5 is too much, 10 x 6/5 is 12.
  const auto pair = [](const std::string& maker) {
    return parse("<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"" + maker +
                 "\" familyid=\"6\" modelid=\"143\">" + device("01", gpu(0), "8.0 GT/s PCIe") +
                 device("02", gpu(1), "8.0 GT/s PCIe") + "</cpu></system>");
  };
  CHECK(text(search(pair("GenuineIntel")).ring) == "1 x 10/10 PHB/PIX");
  CHECK(text(search(pair("AuthenticAMD")).ring) == "1 x 12/12 PHB/PIX");
}

TEST_CASE("GPUs before sm 80 answer a NIC with an eighth on the way back") {
  // One GPU and a NIC of 100 Gb/s (12.5) below a gen3 switch (12). A ring of one: in and out. Out
  // 12 and an eighth of 12 for what comes in: 13.5 of 12 for the old GPU, so 10 (and 1.25).
  const auto node = [](int sm) {
    return parse(chip(device("10",
                             device("01", gpu(0, "", sm), "8.0 GT/s PCIe") +
                                 device("02",
                                        "<nic><net name=\"n\" dev=\"0\" speed=\"100000\" "
                                        "gdr=\"1\"/></nic>",
                                        "8.0 GT/s PCIe"),
                             "8.0 GT/s PCIe")));
  };
  CHECK(text(search(node(70), {.nodes = 2}).ring) == "1 x 10/10 LOC/PIX");
  CHECK(text(search(node(80), {.nodes = 2}).ring) == "1 x 12/12 LOC/PIX");
}

TEST_CASE("NVLink to a POWER CPU is paid for both ways") {
  // Two GPUs of sm 70 with two links (40 GB/s) to their CPU each. A ring goes up and down at both:
  // up costs as much on the way down, so each way down carries it twice: 20, not 40. 2 x 10 is no
  // more.
  const auto power = [](const std::string& arch) {
    const std::string links = "<nvlink target=\"0004:00:00.0\" count=\"2\" tclass=\"0x068001\"/>";
    return parse("<system version=\"1\"><cpu numaid=\"0\" arch=\"" + arch + "\" vendor=\"IBM\">" +
                 device("01", gpu(0, links, 70)) + device("02", gpu(1, links, 70)) +
                 "</cpu></system>");
  };
  CHECK(text(search(power("ppc64le")).ring) == "1 x 20/20 NVL/PIX");
  // Elsewhere the way down is free: 40 is all that a GPU has; doubled it is 2 x 20.
  CHECK(text(search(power("x86_64")).ring) == "2 x 20/20 NVL/PIX");
}

TEST_CASE("which ports a ring may enter and leave by") {
  // Two switches of one socket (PCI 24), on each a GPU and a port of 80 Gb/s (10 GB/s).
  const Machine machine = parse(chip(device("10", device("01", gpu(0)) + nic("02", 0, 80)) +
                                     device("20", device("11", gpu(1)) + nic("12", 1, 80))));
  // Free: in by port 0 at GPU 0 and out by port 1 at GPU 1, at 10; the second ring back: 2 x 10.
  const NodeGraphs free = search(machine, {.nodes = 2, .cross_nic = 1});
  CHECK(free.ring.channels.size() * free.ring.bw_inter == 20);
  CHECK(free.ring.cross_nic == 1);
  // Never: out by the port it came in by, which lies behind the CPU for one of its GPUs.
  const NodeGraphs never = search(machine, {.nodes = 2, .cross_nic = 0});
  CHECK(never.ring.type_inter == PathType::phb);
  for (const auto& channel : never.ring.channels) CHECK(channel.net_in == channel.net_out);
  // Where it helps: worse paths come before crossing, so the same as never.
  const NodeGraphs helps = search(machine, {.nodes = 2, .cross_nic = 2});
  CHECK(helps.ring.cross_nic == 0);
  CHECK(text(helps.ring) == text(never.ring));
}

TEST_CASE("ports with one guid and number share their bandwidth") {
  // One GPU (gen5, 48) and two devices of 96 Gb/s (12): each by itself 12, the same port 12 once.
  const auto node = [](const char* second_port) {
    return parse(chip(device(
        "10",
        device("01", gpu(0), "32.0 GT/s PCIe") +
            device("02",
                   "<nic><net name=\"a\" dev=\"0\" speed=\"96000\" gdr=\"1\" guid=\"0x5\" "
                   "port=\"1\"/><net name=\"b\" dev=\"1\" speed=\"96000\" gdr=\"1\" guid=\"0x5\" "
                   "port=\"" +
                       std::string(second_port) + "\"/></nic>",
                   "32.0 GT/s PCIe"),
        "32.0 GT/s PCIe")));
  };
  CHECK(text(search(node("2"), {.nodes = 2}).ring) == "2 x 12/12 LOC/PIX");
  CHECK(text(search(node("1"), {.nodes = 2}).ring) == "1 x 12/12 LOC/PIX");
}

TEST_CASE("two islands of NVLink take at least two rings") {
  // 0 - 1 and 2 - 3, each pair on a NUMA node of AMD (16 between them, no P2P across). A ring
  // crosses once each way, and across AMD's nodes all go in one order. One ring would have 15; with
  // two at least it goes 2 x 7 = 14, 3 x 5 = 15, 4 x 4 = 16 (4 > 0.49 x 5), 5 x 3 = 15.
  const auto islands = [](bool joined) {
    const auto links = [&](const char* bus) { return joined ? nvlink(bus, 4) : std::string(); };
    const auto cpu = [](const char* numa, const std::string& inner) {
      return "<cpu numaid=\"" + std::string(numa) + "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">" +
             inner + "</cpu>";
    };
    return parse("<system version=\"1\">" +
                 cpu("0", device("01", gpu(0, links("02"))) + device("02", gpu(1, links("01")))) +
                 cpu("1", device("03", gpu(2, links("04"))) + device("04", gpu(3, links("03")))) +
                 "</system>");
  };
  CHECK(text(search(islands(true)).ring) == "4 x 4/4 SYS/PIX");
  CHECK(text(search(islands(true), {.max_channels = 1}).ring) == "1 x 15/15 SYS/PIX");
  CHECK(text(search(islands(false)).ring) == "1 x 15/15 SYS/PIX");
}

TEST_CASE("where two rings of two islands do not fit there is one") {
  // As above, with a GPU more behind gen1 x16 (3 GB/s): two rings of the slowest speed, 3, need 6.
  const auto cpu = [](const char* numa, const std::string& inner) {
    return "<cpu numaid=\"" + std::string(numa) + "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">" +
           inner + "</cpu>";
  };
  const Machine machine = parse(
      "<system version=\"1\">" +
      cpu("0", device("01", gpu(0, nvlink("02", 4))) + device("02", gpu(1, nvlink("01", 4)))) +
      cpu("1", device("03", gpu(2, nvlink("04", 4))) + device("04", gpu(3, nvlink("03", 4))) +
                   device("05", gpu(4), "2.5 GT/s PCIe")) +
      "</system>");
  CHECK(text(search(machine).ring) == "1 x 3/3 SYS/PIX");
}

TEST_CASE("a chain for networks that reduce, from two nodes on") {
  const std::string below = device("01", gpu(0)) + device("03", gpu(1));
  const Machine with = parse(chip(device("10", below + nic("02", 0, 100, "coll=\"1\""))));
  const Machine without = parse(chip(device("10", below + nic("02", 0, 100))));
  CHECK(search(with).collnet.channels.empty());
  CHECK(search(without, {.nodes = 2}).collnet.channels.empty());
  const NodeGraphs found = search(with, {.nodes = 2});
  CHECK(found.collnet.collnet);
  CHECK(found.collnet.pattern == Pattern::tree);
  CHECK(found.collnet.channels.size() == found.ring.channels.size());
}

TEST_CASE("a GPU by itself, GPUs that nothing joins, and nodes without a network") {
  const Machine one = parse(chip(device("01", gpu(0))));
  const NodeGraphs alone = search(one);
  CHECK(alone.ring.channels.size() == 32);  // nothing limits it
  CHECK(alone.tree.pattern == Pattern::tree);
  CHECK(alone.ring.type_intra == PathType::loc);

  Graph cut;  // two GPUs, no link
  for (int i = 0; i < 2; ++i) {
    Node node;
    node.kind = NodeKind::gpu;
    node.dev = node.rank = 1 - i;
    node.cpu = 2;
    cut.nodes.push_back(node);
    cut.gpus.push_back(i);
  }
  cut.nodes.emplace_back();
  cut.nodes.back().kind = NodeKind::cpu;
  cut.cpus.push_back(2);
  const NodeGraphs none = search_node(cut, base_paths(cut), {});
  CHECK(none.ring.fallback);
  CHECK(none.tree.fallback);
  CHECK(none.ring.bw_intra == 0.1);
  CHECK(none.ring.type_intra == PathType::sys);
  REQUIRE(none.ring.channels.size() == 1);
  CHECK(none.ring.channels[0].gpus == std::vector<int>{1, 0});  // by rank
  CHECK(none.ring.steps.back() == "no channel fits at any speed: one in rank order is assumed");

  const Machine two = parse(chip(device("10", device("01", gpu(0)) + device("02", gpu(1)))));
  CHECK(search(two, {.nodes = 4}).ring.channels == search(two).ring.channels);
}

TEST_CASE("what was tried is told in words") {
  const ChannelGraph ring = search(load("oci-bm-gpu-h100-8-topo.xml"), {.nodes = 2}).ring;
  CHECK(
      ring.steps ==
      std::vector<std::string>{
          "a path to the network carries 22.5 GB/s at best, a GPU 370.8 GB/s: 22 GB/s per channel "
          "is tried first",
          "22 GB/s per channel, paths up to NVL and PXN to the network: 2 channels, 44 GB/s "
          "together",
          "22 GB/s per channel, paths up to NVL and PXN to the network, channels in different "
          "orders: 16 channels, 352 GB/s together",
          "20, 17.5, 15, 12 GB/s per channel: nothing better"});
}

TEST_CASE("who sends to whom in a channel") {
  using Steps = std::vector<std::pair<int, int>>;
  const GraphChannel inside{{1, 2, 3}, -1, -1}, outside{{1, 2, 3}, 7, 8};
  CHECK(channel_steps(Pattern::ring, inside) == Steps{{1, 2}, {2, 3}, {3, 1}});
  CHECK(channel_steps(Pattern::tree, inside) == Steps{{1, 2}, {2, 3}});
  CHECK(channel_steps(Pattern::ring, outside) == Steps{{7, 1}, {1, 2}, {2, 3}, {3, 8}});
  CHECK(channel_steps(Pattern::tree, outside) == Steps{{7, 1}, {1, 2}, {2, 3}, {1, 8}});
  CHECK(channel_steps(Pattern::split_tree, outside) == Steps{{7, 1}, {1, 2}, {2, 3}, {2, 8}});
  CHECK(channel_steps(Pattern::balanced_tree, outside) ==
        Steps{{7, 1}, {1, 2}, {2, 3}, {1, 8}, {2, 8}});
  CHECK(channel_steps(Pattern::ring, {{1}, -1, -1}).empty());
}

}  // namespace search_search_rules_tests
