// P2P, shared memory, the network, GDR, PXN and the NIC of a GPU, by the rules and by hand.
#include "tests/catch.h"
#include "tests/unit/topology/machine.h"
#include "topology/graph/parts.h"

namespace graph_decide_tests {

using namespace collctl::topology;

TEST_CASE("GPUs talk directly up to several switches") {
  const Machine machine = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  const auto ask = [&](int a, int b, Rules rules = {}) {
    return p2p(machine.graph, machine.paths, rules, machine.gpu(a), machine.gpu(b));
  };
  CHECK(ask(0, 1).yes);
  CHECK(ask(0, 1).why == "the path is PIX, PXB is the limit (NCCL_P2P_LEVEL=C2C would forbid it)");
  CHECK_FALSE(ask(0, 4).yes);
  CHECK(ask(0, 4).why == "the path is SYS, PXB is the limit (NCCL_P2P_LEVEL=SYS would allow it)");
  CHECK(ask(0, 4, {.p2p_level = PathType::sys}).yes);
  CHECK_FALSE(ask(0, 1, {.p2p_level = PathType::loc}).yes);
}

TEST_CASE("GPUs without P2P below one switch go through the CPU: four links") {
  const Machine machine = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  const Paths paths = effective_paths(machine.graph, machine.paths, {.p2p_level = PathType::loc});
  const Path& path = paths.at(machine.gpu(0), machine.gpu(1));
  CHECK(path.type == PathType::phb);
  CHECK(path.gbps == Approx(24));
  CHECK(path.hops == 4);
}

TEST_CASE("two GPUs on an AMD CPU talk directly across its NUMA nodes, three do not") {
  const auto amd = [](int gpus) {
    std::string text = "<system version=\"1\">";
    for (int i = 0; i < gpus; ++i)
      text += "<cpu numaid=\"" + std::to_string(i) +
              "\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"175\" modelid=\"1\">" +
              device("0" + std::to_string(i + 1), gpu(i)) + "</cpu>";
    return parse(text + "</system>");
  };
  const Machine two = amd(2), three = amd(3);
  CHECK(p2p(two.graph, two.paths, {}, two.gpu(0), two.gpu(1)).yes);
  CHECK_FALSE(p2p(three.graph, three.paths, {}, three.gpu(0), three.gpu(1)).yes);
}

TEST_CASE("GDR needs both sides and a near path") {
  const auto nic = [](const char* gdr_text) {
    return device("09", "<nic><net name=\"a\" dev=\"0\" speed=\"200000\" gdr=\"" +
                            std::string(gdr_text) + "\"/></nic>");
  };
  const auto under_switch = [&](const std::string& inner) { return chip(device("10", inner)); };
  const auto ask = [](const Machine& m, Direction direction) {
    return gdr(m.graph, m.paths, {}, m.gpu(0), m.net(0), direction);
  };
  const Machine near = parse(under_switch(device("01", gpu(0)) + nic("1")));
  CHECK(ask(near, Direction::send).yes);
  CHECK(ask(near, Direction::send).why ==
        "the path is PIX, P2C is the limit (NCCL_NET_GDR_LEVEL=C2C would forbid it)");
  const Machine off = parse(under_switch(device("01", gpu(0)) + nic("0")));
  CHECK_FALSE(ask(off, Direction::receive).yes);
  CHECK(ask(off, Direction::receive).why.rfind("NET/0 has gdr=0", 0) == 0);
  const Machine far = parse(chip(device("01", gpu(0)) + nic("1")));
  CHECK_FALSE(ask(far, Direction::send).yes);
  CHECK(ask(far, Direction::send).why ==
        "the path is PHB, P2C is the limit (NCCL_NET_GDR_LEVEL=PHB would allow it)");
  // Volta without NVLink beside a second GPU: it may be written, not read.
  const Machine old =
      parse(under_switch(device("01", gpu(0, "", 70)) + device("02", gpu(1, "", 70)) + nic("1")));
  CHECK_FALSE(ask(old, Direction::send).yes);
  CHECK(ask(old, Direction::receive).yes);
  const Machine alone = parse(under_switch(device("01", gpu(0, "", 70)) + nic("1")));
  CHECK(ask(alone, Direction::send).yes);
  // Without GDR the message takes the way through the CPU: GPU - switch - CPU - switch - NIC -
  // port.
  const Paths paths = effective_paths(off.graph, off.paths, {});
  const Path& path = paths.at(off.gpu(0), off.net(0));
  CHECK(path.type == PathType::phb);
  CHECK(path.hops == 5);
}

TEST_CASE("the user decides about GDR: how far, and whether NICs read") {
  const std::string nic =
      device("09", "<nic><net name=\"a\" dev=\"0\" speed=\"200000\" gdr=\"1\"/></nic>");
  const Machine near = parse(chip(device("10", device("01", gpu(0)) + nic)));
  const Machine far = parse(chip(device("01", gpu(0)) + nic));
  const Machine old =
      parse(chip(device("10", device("01", gpu(0, "", 70)) + device("02", gpu(1, "", 70)) + nic)));
  const auto ask = [](const Machine& m, const Rules& rules, Direction direction) {
    return gdr(m.graph, m.paths, rules, m.gpu(0), m.net(0), direction).yes;
  };
  for (const Direction both : {Direction::send, Direction::receive}) {
    CHECK(ask(far, {.gdr_level = PathType::phb}, both));
    CHECK_FALSE(ask(far, {.gdr_level = PathType::pxb}, both));
    CHECK(ask(near, {.gdr_level = PathType::pix}, both));
    CHECK_FALSE(ask(near, {.gdr_level = PathType::loc}, both));
  }
  // NET_GDR_READ is about sending only, and goes before what the GPU's age says.
  CHECK_FALSE(ask(near, {.gdr_read = false}, Direction::send));
  CHECK(ask(near, {.gdr_read = false}, Direction::receive));
  CHECK_FALSE(ask(old, {}, Direction::send));
  CHECK(ask(old, {.gdr_read = true}, Direction::send));
  CHECK_FALSE(ask(far, {.gdr_read = true}, Direction::send));
  // The abilities of the two are another question.
  const Machine off = parse(chip(device(
      "10",
      device("01", gpu(0)) +
          device("09", "<nic><net name=\"a\" dev=\"0\" speed=\"200000\" gdr=\"0\"/></nic>"))));
  CHECK_FALSE(ask(off, {}, Direction::receive));
  CHECK(gdr_wanted(off.graph, off.paths, {}, off.gpu(0), off.net(0), Direction::receive).yes);
}

TEST_CASE("the NIC of another switch is reached through its GPU") {
  const Machine machine = load("oci-bm-gpu-h100-8-topo.xml");
  const Locality locality(machine.graph, machine.paths);
  const auto relay = [&](int dev, int net, Rules rules = {}) {
    return pxn(machine.graph, machine.paths, locality, rules, machine.gpu(dev), machine.net(net));
  };
  // Ports 2g and 2g + 1 are next to GPU g, and nobody else is.
  for (int dev = 0; dev < 8; ++dev) {
    CHECK(locality.nets(machine.gpu(dev)) ==
          std::vector<int>{machine.net(2 * dev), machine.net(2 * dev + 1)});
    CHECK(locality.net(machine.gpu(dev), 0) == machine.net(2 * dev));
    CHECK(locality.net(machine.gpu(dev), 1) == machine.net(2 * dev + 1));
    CHECK(locality.net(machine.gpu(dev), 2) == machine.net(2 * dev));
    CHECK(locality.gpu(machine.net(2 * dev + 1)) == machine.gpu(dev));
  }
  CHECK(relay(0, 3).gpu == machine.gpu(1));
  CHECK(relay(0, 15).gpu == machine.gpu(7));
  CHECK(relay(0, 1).gpu == -1);
  CHECK(relay(0, 1).why == "it is next to the NIC itself");
  CHECK(relay(0, 3, {.pxn = false}).gpu == -1);
  const Paths paths = effective_paths(machine.graph, machine.paths, {});
  // NVLink to the relay (2 links, 370.8) and 3 links from there to the port (22.5).
  const Path& path = paths.at(machine.gpu(0), machine.net(15));
  CHECK(path.type == PathType::pxn);
  CHECK(path.gbps == Approx(22.5));
  CHECK(path.hops == 5);
  CHECK(path.nodes.size() == 6);
  // Receiving has no relay: the NIC's data crosses the CPUs.
  CHECK(paths.at(machine.net(15), machine.gpu(0)).type == PathType::sys);
}

TEST_CASE("no PXN where the relay itself is behind a CPU") {
  const Machine machine = load("nersc-perlmutter-a100-4x-cxi.xml");
  const Locality locality(machine.graph, machine.paths);
  const Relay relay =
      pxn(machine.graph, machine.paths, locality, {}, machine.gpu(0), machine.net(0));
  CHECK(relay.gpu == -1);
  CHECK(relay.why == "GPU/3 reaches the NIC by PHB only");
}

TEST_CASE("GPUs that share network devices start at different ones") {
  // Four devices of one card, equally near to two GPUs below the same switch. G = 2, N = 4: GPU 1
  // starts at 1, mirrored in two bits: 2. Channels alternate between ceil(4 / 2) = 2 of them.
  std::string nets;
  for (int i = 0; i < 4; ++i)
    nets += "<net name=\"n" + std::to_string(i) + "\" dev=\"" + std::to_string(i) +
            "\" speed=\"100000\" gdr=\"1\"/>";
  const Machine machine = parse(chip(device("10", device("01", gpu(0)) + device("02", gpu(1)) +
                                                      device("09", "<nic>" + nets + "</nic>"))));
  const Locality locality(machine.graph, machine.paths);
  const auto pick = [&](int dev, int channel) {
    return machine.graph.nodes[size_t(locality.net(machine.gpu(dev), channel))].dev;
  };
  CHECK(pick(0, 0) == 0);
  CHECK(pick(0, 1) == 1);
  CHECK(pick(0, 2) == 0);
  CHECK(pick(1, 0) == 2);
  CHECK(pick(1, 1) == 3);
  CHECK(locality.gpu(machine.net(3)) == machine.gpu(1));
}

TEST_CASE("the slowest link of a path is named") {
  const Machine machine = load("oci-bm-gpu-h100-8-topo.xml");
  const Path& path = machine.paths.at(machine.gpu(0), machine.net(2));
  CHECK(limiting_link(machine.graph, path) == "PCI/0000:08:00.0 -> CPU/0 (PCI, 6 GB/s)");
}

namespace {

std::string port(const std::string& bus, int dev, int gbits) {
  const std::string number = std::to_string(dev);
  return device(bus, "<nic><net name=\"n" + number + "\" dev=\"" + number + "\" speed=\"" +
                         std::to_string(gbits * 1000) + "\" gdr=\"1\"/></nic>");
}

// Two sockets of Skylake (10 GB/s between them), on each a gen4 switch (24 GB/s) with a GPU and a
// NIC of that many Gb/s.
Machine two_sockets(int gbits) {
  std::string text = "<system version=\"1\">";
  for (int i = 0; i < 2; ++i) {
    const std::string n = std::to_string(i);
    text += "<cpu numaid=\"" + n +
            "\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">" +
            device("1" + n, device("2" + n, gpu(i)) + port("3" + n, i, gbits)) + "</cpu>";
  }
  return parse(text + "</system>");
}

// A chip with C2C to its GPU: the path to the NIC on the CPU is P2C.
Machine grace(int sm, const std::string& more = "") {
  return parse(
      chip(device("01", gpu(0, "<c2c bw=\"44712\" count=\"5\"/>", sm), "2.5 GT/s PCIe", 1) +
           port("03", 0, 400) + more));
}

}  // namespace

TEST_CASE("no P2P by knob; shared memory needs one host and its knob") {
  const Machine machine = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  const int a = machine.gpu(0), b = machine.gpu(1);
  CHECK(p2p(machine.graph, machine.paths, {.p2p = false}, a, b).why ==
        "NCCL_P2P_DISABLE=1 forbids it");
  CHECK(shm(machine.graph, {}, a, b).yes);
  CHECK_FALSE(shm(machine.graph, {.shm = false}, a, b).yes);
  CHECK(gpu_way(machine.graph, machine.paths, {}, a, b).way == Way::p2p);
  CHECK(gpu_way(machine.graph, machine.paths, {.p2p = false}, a, b).way == Way::shm);
  CHECK(gpu_way(machine.graph, machine.paths, {.p2p = false, .shm = false}, a, b).way == Way::net);
  CHECK(std::string(way_name(Way::shm)) == "SHM");
}

TEST_CASE("where the driver says so there is no P2P, in either direction and whatever the path") {
  const auto pair = [](const std::string& more) {
    return parse(chip(device("01", "<gpu dev=\"0\" rank=\"0\" sm=\"90\" gdr=\"1\"" + more + ">" +
                                       nvlink("02", 4) + "</gpu>") +
                      device("02", gpu(1, nvlink("01", 4), 90))));
  };
  const Machine free = pair(""), locked = pair(" no_p2p=\"0000:02:00.0\"");
  CHECK(gpu_way(free.graph, free.paths, {}, free.gpu(0), free.gpu(1)).way == Way::p2p);
  const Decision there = p2p(locked.graph, locked.paths, {}, locked.gpu(0), locked.gpu(1));
  CHECK_FALSE(there.yes);
  CHECK(there.why.find("the driver allows no P2P between them although the path is NVL") == 0);
  CHECK_FALSE(p2p(locked.graph, locked.paths, {}, locked.gpu(1), locked.gpu(0)).yes);
  CHECK(gpu_way(locked.graph, locked.paths, {}, locked.gpu(0), locked.gpu(1)).way == Way::shm);
  // So messages go through the CPU.
  const Paths paths = effective_paths(locked.graph, locked.paths, {});
  CHECK(paths.at(locked.gpu(0), locked.gpu(1)).type == PathType::phb);
}

TEST_CASE("GPUs of one host take the network where both are nearer to it than to each other") {
  // Between the sockets 10 GB/s; 25 GB/s of the ports, but 24 of the PCI links below the switch.
  const Machine fast = two_sockets(200);
  const int a = fast.gpu(0), b = fast.gpu(1);
  const Decision decision = by_network(fast.graph, fast.paths, {}, a, b);
  CHECK(decision.yes);
  CHECK(decision.why ==
        "10 GB/s between them, 24 and 24 GB/s to network devices up to PXB away "
        "(NCCL_NET_DISABLE_INTRA=1 would forbid it)");
  CHECK_FALSE(by_network(fast.graph, fast.paths, {.net_intra = false}, a, b).yes);
  CHECK(gpu_way(fast.graph, fast.paths, {}, a, b).way == Way::net);
  // 80 Gb/s are 10 GB/s, which is no gain.
  const Machine equal = two_sockets(80);
  CHECK_FALSE(by_network(equal.graph, equal.paths, {}, equal.gpu(0), equal.gpu(1)).yes);

  // So the host falls into two nodes, each with its GPU; both ports can be reached from either.
  const auto groups = gpu_groups(fast.graph, fast.paths, {});
  CHECK(groups == std::vector<std::vector<int>>{{a}, {b}});
  CHECK(gpu_groups(fast.graph, fast.paths, {.net_intra = false}).size() == 1);
  const Graph part = part_of(fast.graph, fast.paths, groups[1]);
  CHECK(part.gpus == std::vector<int>{b});
  CHECK(part.nets == fast.graph.nets);
  CHECK(base_paths(part).at(b, fast.net(1)).type == PathType::pix);
}

TEST_CASE("GPUs that nothing joins fall apart, and take only devices they reach along") {
  // Two hosts in one file, without NVLink between them.
  const auto host = [](const std::string& n, const std::string& inner) {
    return "<cpu host_hash=\"0x" + n + "\" numaid=\"" + n +
           "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">" + inner + "</cpu>";
  };
  const Machine machine =
      parse("<system version=\"1\">" +
            host("1", device("01", gpu(0)) + device("02", gpu(1)) + port("03", 0, 100)) +
            host("2", device("01", gpu(2)) + port("03", 1, 100)) + "</system>");
  REQUIRE(machine.graph.hosts == 2);
  const auto groups = gpu_groups(machine.graph, machine.paths, {});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0] == std::vector<int>{machine.gpu(0), machine.gpu(1)});
  CHECK(groups[1] == std::vector<int>{machine.gpu(2)});
  CHECK(part_of(machine.graph, machine.paths, groups[0]).nets == std::vector<int>{machine.net(0)});
  CHECK(part_of(machine.graph, machine.paths, groups[1]).nets == std::vector<int>{machine.net(1)});
  CHECK(gpu_way(machine.graph, machine.paths, {}, machine.gpu(0), machine.gpu(2)).way == Way::net);
}

TEST_CASE("hosts whose NVSwitches are joined are one NVLink domain") {
  // Two trays of two GPUs; the driver does not show the switches: 18 links of 40.1 from each GPU.
  const auto tray = [](const std::string& n, int first) {
    const std::string links =
        "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
    return "<cpu host_hash=\"0x" + n + "\" numaid=\"0\" arch=\"arm64\" vendor=\"ARM\">" +
           device("01", gpu(first, links, 100)) + device("02", gpu(first + 1, links, 100)) +
           "</cpu>";
  };
  const Machine machine =
      parse("<system version=\"1\">" + tray("a", 0) + tray("b", 2) + "</system>");
  machine.check_gpus(0, 1, PathType::nvl, 721.8, 2);
  machine.check_gpus(0, 3, PathType::nvl, 721.8, 2);
  const int a = machine.gpu(0), d = machine.gpu(3);
  CHECK(fabric(machine.graph, machine.paths, a, d).yes);
  CHECK_FALSE(fabric(machine.graph, machine.paths, a, machine.gpu(1)).yes);
  CHECK(p2p(machine.graph, machine.paths, {}, a, d).yes);
  CHECK_FALSE(shm(machine.graph, {}, a, d).yes);
  CHECK(gpu_way(machine.graph, machine.paths, {}, a, d).way == Way::p2p);
  CHECK(gpu_groups(machine.graph, machine.paths, {}).size() == 1);
}

TEST_CASE("C2C to the CPU counts for GDR and PXN only as far as the knobs allow") {
  const Machine machine = grace(90);
  const auto ask = [&](Rules rules) {
    return gdr(machine.graph, machine.paths, rules, machine.gpu(0), machine.net(0),
               Direction::receive);
  };
  CHECK(ask({}).yes);
  CHECK(ask({}).why ==
        "the path is P2C, P2C is the limit (NCCL_NET_GDR_LEVEL=PXB would forbid it)");
  CHECK_FALSE(ask({.gdr_c2c = false}).yes);
  // A level by hand goes first.
  CHECK(ask({.gdr_level = PathType::phb, .gdr_c2c = false}).yes);

  // A second chip, joined by NVLink: its GPU reaches the first one's NIC (P2C) through that GPU.
  const auto chips = [](int links) {
    std::string text = "<system version=\"1\">";
    for (int i = 0; i < 2; ++i) {
      const std::string n = std::to_string(i), other = std::to_string(1 - i);
      text += "<cpu numaid=\"" + n + "\" arch=\"arm64\" vendor=\"ARM\">" +
              device("0" + n,
                     gpu(i, "<c2c bw=\"44712\" count=\"5\"/>" + nvlink("0" + other, links), 90),
                     "2.5 GT/s PCIe", 1) +
              (i == 0 ? port("13", 0, 400) : "") + "</cpu>";
    }
    return parse(text + "</system>");
  };
  const Machine two = chips(18);
  const Locality locality(two.graph, two.paths);
  const auto relay = [&](Rules rules) {
    return pxn(two.graph, two.paths, locality, rules, two.gpu(1), two.net(0));
  };
  CHECK(relay({}).gpu == two.gpu(0));
  CHECK(relay({.pxn_c2c = false}).gpu == -1);
  CHECK(relay({.pxn_c2c = false}).why ==
        "GPU/0 reaches the NIC by P2C only (NCCL_PXN_C2C=1 would allow it)");
}

TEST_CASE("reading instead of writing pays between two A100 by NVLink only") {
  const Machine a100 = load("nersc-perlmutter-a100-4x-cxi.xml");
  CHECK(p2p_read(a100.graph, a100.paths, {}, a100.gpu(0), a100.gpu(1)).yes);
  CHECK_FALSE(p2p_read(a100.graph, a100.paths, {.p2p = false}, a100.gpu(0), a100.gpu(1)).yes);
  const Machine h100 = load("oci-bm-gpu-h100-8-topo.xml");
  CHECK_FALSE(p2p_read(h100.graph, h100.paths, {}, h100.gpu(0), h100.gpu(1)).yes);
  const Machine pcie = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  CHECK_FALSE(p2p_read(pcie.graph, pcie.paths, {}, pcie.gpu(0), pcie.gpu(1)).yes);
}

TEST_CASE("received data is flushed before sm 90, and where the flag may overtake it") {
  const auto ask = [](const Machine& m, Rules rules = {}) {
    return flush(m.graph, m.paths, rules, m.gpu(0), m.net(0));
  };
  const auto below = [](int sm) {
    return parse(chip(device("10", device("01", gpu(0, "", sm)) + port("02", 0, 200))));
  };
  CHECK(ask(below(80)).yes);
  CHECK_FALSE(ask(below(90)).yes);
  CHECK_FALSE(ask(below(80), {.gdr_level = PathType::loc}).yes);  // no GDR, nothing to flush
  CHECK_FALSE(ask(grace(90)).yes);                                // data and flag both by C2C
  // The NIC below the GPU's own switch: data by PIX, flags by C2C.
  const Machine direct = parse(chip(device(
      "10", device("01", gpu(0, "<c2c bw=\"44712\" count=\"5\"/>", 90)) + port("02", 0, 400))));
  CHECK(ask(direct).yes);
}

}  // namespace graph_decide_tests
