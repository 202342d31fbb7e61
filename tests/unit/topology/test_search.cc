// Channels by hand: what the rules give for real machines and for small ones that show one rule
// each. Every expectation is derived from the rules in its comment.
#include "tests/unit/topology/channels.h"

using namespace collctl::topology;

namespace {

NodeGraphs search(const Machine& machine, const SearchOptions& options = {},
                  const Rules& rules = {}) {
  const Paths paths = effective_paths(machine.graph, machine.paths, rules);
  NodeGraphs found = search_node(machine.graph, paths, options);
  const bool network = options.nodes > 1 && !machine.graph.nets.empty();
  for (const ChannelGraph* one : {&found.ring, &found.tree, &found.collnet})
    CHECK(judge(machine.graph, paths, *one, network) == "");
  return found;
}

// "2 x 20/20 PIX/PIX": channels, GB/s inside and outside, worst types.
std::string text(const ChannelGraph& graph) {
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
std::string line(const Machine& machine, const GraphChannel& channel) {
  const auto dev = [&](int at) { return std::to_string(machine.graph.nodes[size_t(at)].dev); };
  std::string line = channel.net_in >= 0 ? "NET/" + dev(channel.net_in) : "";
  for (const int gpu : channel.gpus) line += (line.empty() ? "" : " ") + dev(gpu);
  if (channel.net_out >= 0) line += " NET/" + dev(channel.net_out);
  return line;
}

std::string nic(const std::string& bus, int dev, int gbits, const std::string& more = "") {
  const std::string number = std::to_string(dev);
  return device(bus, "<nic><net name=\"n" + number + "\" dev=\"" + number + "\" speed=\"" +
                         std::to_string(gbits * 1000) + "\" gdr=\"1\" " + more + "/></nic>");
}

}  // namespace

TEST_CASE("eight H200 on NVSwitch: six rings of 60 become twelve of 30") {
  const Machine machine = load("vastai-hgx-h200-8x.xml");
  const NodeGraphs found = search(machine);
  // Each GPU has 18 links of 20.6: 370.8 GB/s. At 60, the fastest of sm 90, 6 rings fit (360), all
  // in PCI order, which is tried first. 50, 40 and 30 give 7 x 50 = 350, 9 x 40 = 360 and 12 x 30 =
  // 360: no more; 24 is below 0.49 x 60. 60 >= 50, so the six are doubled and halved.
  CHECK(text(found.ring) == "12 x 30/30 NVL/PIX");
  CHECK(found.ring.same_channels);
  for (const auto& channel : found.ring.channels)
    CHECK(line(machine, channel) == "0 1 2 3 4 5 6 7");
  // A chain loads 7 of 8 GPUs: 370.8 x 8 / 7 = 423.8 for 12 trees, so 30 is the first that may go
  // (12 x 40 = 480); 40 is tried again in the second pass, and 9 fit, not 12.
  CHECK(text(found.tree) == "12 x 30/30 NVL/PIX");
  CHECK(found.tree.pattern == Pattern::balanced_tree);
  CHECK(found.collnet.channels.empty());
}

TEST_CASE("eight B200: eight rings of 90 become sixteen of 45") {
  // 18 x 40.1 = 721.8: 8 x 90 = 720 is found first; 9 x 80, 10 x 70, 12 x 60, 14 x 50 and 16 x 45
  // give no more, 40 is below 0.49 x 90.
  const NodeGraphs found = search(load("vastai-hgx-b200-8x.xml"));
  CHECK(text(found.ring) == "16 x 45/45 NVL/PIX");
  // Trees may use 721.8 x 8 / 7 = 824.9: 16 x 50 = 800 is tried, but a GPU in the middle sends
  // once in each: 14 fit. So 45.
  CHECK(text(found.tree) == "16 x 45/45 NVL/PIX");
}

TEST_CASE("two H200 in a virtual machine, as NCCL 2.28.9 itself reports them") {
  // Published by the program: "Pattern 4, nChannels 12, bw 30/30, type NVL/PIX, sameChannels 1" and
  // "Pattern 1, nChannels 12, bw 60/60, sameChannels 0", six trees 0 1 and six 1 0.
  const std::string links = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
  const Machine machine = parse(chip(device("06", gpu(0, links, 90), "32.0 GT/s PCIe", 0) +
                                         device("07", gpu(1, links, 90), "32.0 GT/s PCIe", 0),
                                     "-1"));
  const NodeGraphs found = search(machine);
  CHECK(text(found.ring) == "12 x 30/30 NVL/PIX");
  CHECK(found.ring.same_channels);
  CHECK(text(found.tree) == "12 x 60/60 NVL/PIX");
  CHECK(found.tree.pattern == Pattern::balanced_tree);
  CHECK_FALSE(found.tree.same_channels);
  for (size_t i = 0; i < 12; ++i)
    CHECK(line(machine, found.tree.channels[i]) == (i < 6 ? "0 1" : "1 0"));
}

TEST_CASE("eight H100 with sixteen ports: each port has its ring, which starts at its GPU") {
  const Machine machine = load("oci-bm-gpu-h100-8-topo.xml");
  const NodeGraphs found = search(machine, {.nodes = 2});
  // Ports of 180 Gb/s are 22.5 GB/s: 22 is the first speed of sm 90 that fits, one channel a port.
  // A ring goes g, g-1, ... behind NVSwitches and must leave by the port it came in by, which its
  // last GPU reaches through GPU g (PXN). Channels in one order would all start at GPU 0: 2 of
  // them.
  CHECK(text(found.ring) == "16 x 22/22 NVL/PXN");
  CHECK_FALSE(found.ring.same_channels);
  CHECK(found.ring.cross_nic == 0);
  REQUIRE(found.ring.channels.size() == 16);
  for (int c = 0; c < 16; ++c) {
    std::string wanted = "NET/" + std::to_string(c);
    for (int i = 0; i < 8; ++i) wanted += " " + std::to_string((c / 2 + 8 - i) % 8);
    CHECK(line(machine, found.ring.channels[size_t(c)]) == wanted + " NET/" + std::to_string(c));
  }
  // A balanced tree's second GPU would reach the port by PXN; sm 90 tries the plain tree first,
  // whose one GPU is next to it (PIX): g, g+1, ... Second pass, inside only: a GPU sends in all
  // trees but the two it ends: 14 x 24 = 336 of 370.8; 14 x 30 = 420 does not fit.
  CHECK(text(found.tree) == "16 x 24/22 NVL/PIX");
  CHECK(found.tree.pattern == Pattern::tree);
  CHECK(line(machine, found.tree.channels[15]) == "NET/15 7 0 1 2 3 4 5 6 NET/15");
}

TEST_CASE("eight A100 on NVSwitch with a NIC each, two pairs below every switch") {
  // A skeleton of a cloud: its GPUs and NICs are put in here by PCI class, 12 NVLinks to NVSwitches
  // and 200 Gb/s a port, as these machines have.
  std::string skeleton = data_text(data_path("azure-ndv4-topo.xml"));
  int gpus = 0, nics = 0;
  for (size_t at = 0; (at = skeleton.find("<pci ", at)) != skeleton.npos; ++at) {
    const size_t end = skeleton.find('>', at);
    const std::string element = skeleton.substr(at, end - at);
    std::string inner;
    if (element.find("0x0302") != element.npos)
      inner = gpu(gpus++, "<nvlink target=\"0000:ff:00.0\" count=\"12\" tclass=\"0x068000\"/>");
    if (element.find("0x0207") != element.npos) {
      const std::string n = std::to_string(nics++);
      inner = "<nic><net name=\"ib" + n + "\" dev=\"" + n + "\" speed=\"200000\" gdr=\"1\"/></nic>";
    }
    if (!inner.empty()) skeleton.replace(end - 1, 2, ">" + inner + "</pci>");
  }
  const Machine machine = parse(skeleton);
  REQUIRE(machine.graph.gpus.size() == 8);
  REQUIRE(machine.graph.nets.size() == 8);
  // 12 x 20 = 240: 6 x 40 use all of it; 40 >= 25 on sm 80: 12 x 20.
  const NodeGraphs alone = search(machine);
  CHECK(text(alone.ring) == "12 x 20/20 NVL/PIX");
  CHECK(alone.ring.same_channels);
  // Gen4 x16 is 24 and a port 25 GB/s: 24 a channel, one a port and one into each GPU. Behind
  // NVSwitches a ring goes on to the GPU before or behind, and both GPUs of a pair reach both ports
  // of their switch by PIX. From GPU 0 downwards it ends at GPU 1, next to port 0. From GPU 1
  // downwards it would end at GPU 2, below another switch; upwards it ends at GPU 0: PIX again.
  const NodeGraphs two = search(machine, {.nodes = 2});
  CHECK(text(two.ring) == "8 x 24/24 NVL/PIX");
  for (const auto& channel : two.ring.channels) {
    const int first = machine.graph.nodes[size_t(channel.gpus[0])].dev;
    std::string wanted;
    for (int i = 0; i < 8; ++i)
      wanted += " " + std::to_string((first + (first % 2 == 0 ? 8 - i : i)) % 8);
    const std::string port = "NET/" + std::to_string(first);
    CHECK(line(machine, channel) == port + wanted + " " + port);
  }
  // Every port serves one ring.
  std::set<int> used;
  for (const auto& channel : two.ring.channels) used.insert(channel.net_in);
  CHECK(used.size() == 8);
}

TEST_CASE("four A100, all to all by NVLink: six rings in six orders") {
  // Between each two GPUs 80 GB/s: two channels of 40 in one direction. All in one order: 2 x 40.
  // In different orders: K4 has six directed rings, each directed pair lies on two of them: 6 x 40
  // = 240, all that a GPU has. Doubled: 12 x 20.
  const Machine machine = load("nersc-perlmutter-a100-4x-cxi.xml");
  const NodeGraphs alone = search(machine);
  CHECK(text(alone.ring) == "12 x 20/20 NVL/PIX");
  CHECK_FALSE(alone.ring.same_channels);
  CHECK(line(machine, alone.ring.channels[0]) == "0 3 2 1");  // PCI order
  std::set<std::string> orders;
  for (const auto& channel : alone.ring.channels) {
    // Turned so that it begins with 0.
    std::string text = line(machine, channel) + " " + line(machine, channel);
    orders.insert(text.substr(text.find('0'), 7));
  }
  CHECK(orders.size() == 6);
}

TEST_CASE("four A100 with a NIC on each NUMA node: pairs of rings that cross") {
  // A GPU reaches its own NIC through its CPU: PHB, gen4 x16, 24 GB/s; the others across AMD's 16.
  // A ring that leaves by the port it came in by would cross: at most 16. By different ports 24
  // fits, which is crossing; pairs use two ports both ways: four ports, 4 x 24 = 96 in all. One
  // order gives one. 12 is the last above 0.49 x 24: 8 x 12 is no more.
  const Machine machine = load("nersc-perlmutter-a100-4x-cxi.xml");
  const NodeGraphs found = search(machine, {.nodes = 2});
  CHECK(text(found.ring) == "4 x 24/24 NVL/PHB");
  CHECK(found.ring.cross_nic == 2);
  // Without crossing every ring comes back through one link of 16: 15 a channel, one a port (24),
  // is 60 in all; at 12 a port carries two: 8 x 12 = 96.
  const NodeGraphs straight = search(machine, {.nodes = 2, .cross_nic = 0});
  CHECK(text(straight.ring) == "8 x 12/12 NVL/SYS");
}

TEST_CASE("eight RTX 3090 below two switches: the socket link decides") {
  // Ice Lake: 10 GB/s each way, and a ring crosses once each way: 1 x 10. 5 is the last speed above
  // 0.49 x 10: 2 x 5 is no more. The PCI order serves, so nothing else comes in front.
  const Machine machine = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  const NodeGraphs found = search(machine);
  CHECK(text(found.ring) == "1 x 10/10 SYS/PIX");
  CHECK(line(machine, found.ring.channels[0]) == "0 1 2 3 4 5 6 7");
  CHECK(text(found.tree) == "1 x 10/10 SYS/PIX");
}

TEST_CASE("four RTX 4090 on four NUMA nodes of AMD") {
  // No P2P beyond PXB, so by the CPUs: 16 between any two. 15 is the first below; a second ring in
  // the same order finds no room, and across AMD's nodes no other order is tried. 12, 10 and 9 (the
  // last above 0.49 x 15) give one as well: two would need 2 x 9 = 18.
  const Machine machine = load("rtx4090-4x-epyc-rome-nps4-socket.xml");
  const NodeGraphs found = search(machine);
  CHECK(text(found.ring) == "1 x 15/15 SYS/PIX");
  CHECK(line(machine, found.ring.channels[0]) == "0 1 3 4");
}

TEST_CASE("four MI100, each two joined by one xGMI link") {
  // 24 GB/s between each two: a channel of 20 each, or two of 12. K4's six directed rings use each
  // directed pair twice: 3 rings of 20 at most (a pair serves one), or 6 x 12 = 72, which is all
  // that a GPU has: 3 x 24. 12 is above 0.49 x 20.
  const NodeGraphs found = search(load("rccl/topo_4p3l.xml"));
  CHECK(text(found.ring) == "6 x 12/12 NVL/PIX");
  CHECK(text(found.tree).find("6 x 12/12") == 0);
}

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
  CHECK(none.ring.steps.back() ==
        "no channel fits at any speed: one in the order of ranks is assumed");

  const Machine two = parse(chip(device("10", device("01", gpu(0)) + device("02", gpu(1)))));
  CHECK(search(two, {.nodes = 4}).ring.channels == search(two).ring.channels);
}

TEST_CASE("what was tried is told in words") {
  const ChannelGraph ring = search(load("oci-bm-gpu-h100-8-topo.xml"), {.nodes = 2}).ring;
  CHECK(ring.steps ==
        std::vector<std::string>{
            "a path to the network carries 22.5 GB/s at best, a GPU 370.8 GB/s: 22 GB/s a channel "
            "is tried first",
            "22 GB/s a channel, paths up to NVL and PXN to the network: 2 channels, 44 GB/s "
            "together",
            "22 GB/s a channel, paths up to NVL and PXN to the network, channels in different "
            "orders: 16 channels, 352 GB/s together",
            "20, 17.5, 15, 12 GB/s a channel: nothing better"});
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
