// Detection over worlds that no machine has: it ends, and what it says can be written and replayed.
#include <cstdio>
#include <functional>
#include <random>

#include "tests/how_much.h"
#include "tests/unit/topology/detect/sysfs.h"
#include "topology/detect/reader_snapshot.h"

namespace detect_discover_random_tests {

using namespace collctl::topology;

namespace {

// A world in which anything may stand anywhere: real names, wrong kinds, circles.
TreeNodes random_world(std::mt19937& random) {
  const auto pick = [&](const std::vector<std::string>& from) {
    return from[random() % from.size()];
  };
  const std::vector<std::string> folders = {
      "/sys/devices/pci0000:00",
      "/sys/devices/pci0000:00/0000:00:01.0",
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0",
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0",
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
      "/sys/devices/pci0000:00/0000:03:00.0/0000:01:00.0/0000:00:01.0",
      "/sys/class/net",
      "/sys/class/net/eth0",
      "/sys/class/infiniband",
      "/sys/class/infiniband/mlx5_0",
      "/sys/class/infiniband/mlx5_0/ports",
      "/sys/class/infiniband/mlx5_0/ports/1",
      "/sys/class/pci_bus",
      "/sys/class/pci_bus/0000:03",
      "/sys/bus/pci/devices",
      "/sys/devices/system/node",
      "/sys/devices/system/node/node0",
      "/sys/devices/system/cpu",
      "/sys/devices/system/cpu/cpu0",
      "/proc",
      "/sys/kernel/pci_switch_link/virtual_switch_links/0000:01:00.0"};
  const std::vector<std::string> names = {"class",
                                          "vendor",
                                          "device",
                                          "max_link_speed",
                                          "max_link_width",
                                          "numa_node",
                                          "state",
                                          "rate",
                                          "0000:03:00.0",
                                          "0000:00:01.0",
                                          "0000:02",
                                          "eth0",
                                          "mlx5_0",
                                          "device",
                                          "1",
                                          "node0",
                                          "node1",
                                          "cpumap",
                                          "cpulist",
                                          "online",
                                          "cpuinfo",
                                          "operstate",
                                          "speed",
                                          "ports",
                                          "sys_image_guid",
                                          "current_link_width",
                                          "distance",
                                          "meminfo",
                                          "possible",
                                          "..",
                                          "ffffffff:ff:1f.7"};
  const std::vector<std::string> texts = {
      "",
      "\n",
      "0x030200\n",
      "0x020700",
      "0x1000",
      "0x10de",
      "16",
      "255",
      "-1",
      "4: ACTIVE",
      "up",
      "99999999999999999999",
      "0-4294967295",
      "ffffffff,ffffffff",
      "32.0 GT/s PCIe",
      "nan GT/s",
      "1e308 Gb/sec",
      "400 Gb/sec (4X NDR)",
      std::string(5000, 'f'),
      std::string("\0\1\2", 3),
      "%s%n",
      "vendor_id : \x01<&\"\ncpu family : 99999999\nmodel : -5"};
  TreeNodes nodes;
  const int count = 20 + int(random() % 80);
  for (int i = 0; i < count; ++i) {
    const std::string path = pick(folders) + (random() % 5 == 0 ? "" : "/" + pick(names));
    switch (random() % 4) {
      case 0:
        nodes[path] = {EntryKind::folder, ""};
        break;
      case 1:
        nodes[path] = {EntryKind::link, random() % 2 ? pick(folders) : "../" + pick(names)};
        break;
      default:
        nodes[path] = {EntryKind::file, pick(texts)};
    }
  }
  return nodes;
}

DriverFacts random_facts(std::mt19937& random) {
  DriverFacts facts;
  const char* const addresses[] = {"0000:03:00.0", "0000:01:00.0", "0000:00:01.0", "ffff:ff:1f.7"};
  for (size_t i = random() % 4; i > 0; --i) {
    facts.gpus.push_back(gpu_facts(int(random() % 3), addresses[random() % 4]));
    add_nvlinks(facts.gpus.back(), int(random() % 5), addresses[random() % 4], random() % 2 == 0);
    facts.gpus.back().p2p = std::vector<int>(random() % 3, 0);
  }
  if (random() % 2 == 0) facts.interfaces = {{"eth0", true, false, true, -5}};
  return facts;
}

}  // namespace

TEST_CASE("any world gives a machine that can be written, read and recorded") {
  for (unsigned seed = 0;
       seed < unsigned(collctl::test::how_much(collctl::test::Sweep::discover_random)); ++seed) {
    std::mt19937 random(seed);
    Reader reader;
    reader.files = std::make_unique<MemoryTree>(random_world(random));
    reader.drivers = random_facts(random);
    const Detected found = discover(reader);
    INFO("seed " << seed << "\n" << write_xml(found.system));
    REQUIRE(!found.system.cpus.empty());
    const auto read = read_xml(write_xml(found.system), "x.xml");
    if (!read.ok()) FAIL(read.error().message);
    CHECK(read->system == found.system);
    TreeNodes taken;
    CHECK(discover_recorded(reader, taken).system == found.system);
    reader.files = std::make_unique<MemoryTree>(taken);
    const Detected again = discover(reader);
    CHECK(again.system == found.system);
    CHECK(again.findings == found.findings);
  }
}

TEST_CASE("devices below more switches than a file may nest: cut, with a finding") {
  Sysfs world = machine();
  std::string where = "pci0000:00";
  DriverFacts facts;
  for (int i = 1; i <= 250; ++i) {
    char name[16];
    std::snprintf(name, sizeof name, "/%04x:01:00.0", unsigned(i));
    where += name;
    if (i % 50 != 0) continue;
    world.pci(where);
    facts.gpus.push_back(gpu_facts(i / 50 - 1, name + 1));
  }
  const Detected found = world.discover(facts);
  CHECK(has_finding(found.findings, "below too many switches"));
  const auto read = read_xml(write_xml(found.system), "x.xml");
  if (!read.ok()) FAIL(read.error().message);
  int gpus = 0;
  const std::function<void(const Pci&)> count = [&](const Pci& pci) {
    gpus += pci.gpu ? 1 : 0;
    for (const Pci& child : pci.children) count(child);
  };
  for (const Pci& pci : read->system.cpus.at(0).children) count(pci);
  CHECK(gpus == 5);
}

TEST_CASE("names are ordered with their numbers by value") {
  CHECK(natural_less("mlx5_2", "mlx5_10"));
  CHECK(!natural_less("mlx5_10", "mlx5_2"));
  CHECK(natural_less("a", "a1"));
  CHECK(natural_less("a1b2", "a1b10"));
  CHECK(natural_less("eth01", "eth1"));  // equal numbers: one order all the same
  CHECK(!natural_less("eth1", "eth01"));
  CHECK(!natural_less("x", "x"));
}

}  // namespace detect_discover_random_tests
