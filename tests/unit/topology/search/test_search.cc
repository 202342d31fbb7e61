// Channels by hand: what the rules give for real machines and for small ones that show one rule
// each. Every expectation is derived from the rules in its comment.
#include "tests/unit/topology/search/search_by_hand.h"

namespace search_search_tests {

using namespace collctl::topology;
using namespace collctl::topology::testing;

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
  const NodeGraphs same_nic = search(machine, {.nodes = 2, .cross_nic = 0});
  CHECK(text(same_nic.ring) == "8 x 12/12 NVL/SYS");
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

}  // namespace search_search_tests
