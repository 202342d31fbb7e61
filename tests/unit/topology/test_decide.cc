// P2P, GDR, PXN and the NIC of a GPU, by the rules and by hand.
#include "tests/catch.h"
#include "tests/unit/topology/machine.h"

using namespace collctl::topology;

TEST_CASE("GPUs talk directly up to several switches") {
  const Machine machine = load("rtx3090-8x-pcieswitch-2socket-icelake.xml");
  const auto ask = [&](int a, int b, Rules rules = {}) {
    return p2p(machine.graph, machine.paths, rules, machine.gpu(a), machine.gpu(b));
  };
  CHECK(ask(0, 1).yes);
  CHECK(ask(0, 1).why == "the path is PIX, PXB is the limit");
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
  CHECK(ask(near, Direction::send).why == "the path is PIX, P2C is the limit");
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
