// Detection where something is missing: files, drivers, one end of a link; and findings.
#include "tests/unit/topology/detect/sysfs.h"

namespace detect_discover_gaps_tests {

using namespace collctl::topology;

namespace {

const std::string kPort = "pci0000:00/0000:00:01.0";  // root port
const std::string kUp = kPort + "/0000:01:00.0";      // the switch's upstream port
const std::string kDown0 = kUp + "/0000:02:00.0", kDown1 = kUp + "/0000:02:01.0";

}  // namespace

TEST_CASE("no /sys at all: one CPU, GPUs and interfaces still there") {
  const Sysfs empty;
  const Detected nothing = empty.discover();
  REQUIRE(nothing.system.cpus.size() == 1);
  CHECK(nothing.system.cpus[0].numa == -1);
  CHECK(nothing.system.cpus[0].children.empty());
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:0f:00.0"));
  facts.interfaces = {{"eth0", true, false, true, 25000}};
  const Detected found = empty.discover(facts);
  REQUIRE(found.system.cpus.size() == 1);
  const Pci& gpu = found.system.cpus[0].children.at(0);
  CHECK(gpu.bus_id == bus("0000:0f:00.0"));
  CHECK(gpu.device_class == 0x030200u);
  CHECK(gpu.gpu->sm == 90);
  CHECK(found.system.cpus[0].nics.at(0).nets.at(0).speed_mbps == 25000);
  CHECK(has_finding(found.findings, "does not show a GPU's place on the PCI bus (0000:0f:00.0)"));
}

TEST_CASE("a container without /sys/class/pci_bus finds devices all the same") {
  Sysfs world = machine();
  world.pci(kPort + "/0000:01:00.0");
  TreeNodes nodes = world.nodes();
  std::erase_if(nodes,
                [](const auto& node) { return node.first.find("pci_bus") != std::string::npos; });
  Reader reader = world.reader();
  reader.files = std::make_unique<MemoryTree>(nodes);
  reader.drivers.gpus.push_back(gpu_facts(0, "0000:01:00.0"));
  reader.drivers.interfaces.emplace();
  const Detected found = discover(reader);
  CHECK(found.system.cpus.at(0).children.at(0).link_speed == "32.0 GT/s PCIe");
}

TEST_CASE("speeds: what one end does not know the other says") {
  struct Case {
    const char *device, *device_width, *port, *port_width;
    const char* speed;
    int width;
  };
  const Case cases[] = {
      {"Unknown", "255", "16.0 GT/s PCIe", "8", "16.0 GT/s PCIe", 8},
      {"8.0 GT/s PCIe", "4", "Unknown speed", "0", "8.0 GT/s PCIe", 4},
      {"Unknown", "0", "Unknown", "255", "Unknown", 0},
      {"16 GT/s", "16", "8 GT/s", "16", "8 GT/s", 16},
      {"5.0 GT/s PCIe", "1", "32.0 GT/s PCIe", "16", "5.0 GT/s PCIe", 1},
  };
  for (const Case& one : cases) {
    Sysfs world = machine();
    world.bridge(kPort, one.port, one.port_width);
    world.pci(kPort + "/0000:01:00.0",
              {"0x030200", "0x10de", "0x2330", one.device, one.device_width, "0", "", ""});
    DriverFacts facts;
    facts.gpus.push_back(gpu_facts(0, "0000:01:00.0"));
    const Detected found = world.discover(facts);
    const Pci& gpu = found.system.cpus.at(0).children.at(0);
    INFO(one.device << " and " << one.port);
    CHECK(gpu.link_speed == one.speed);
    CHECK(gpu.link_width == one.width);
  }
}

TEST_CASE("a link at x8 of x16 is told apart from a slot of x8") {
  Sysfs world = machine();
  world.bridge(kPort);
  world.pci(kPort + "/0000:01:00.0",
            {"0x030200", "0x10de", "0x2330", "32.0 GT/s PCIe", "16", "0", "16.0 GT/s PCIe", "8"});
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:01:00.0"));
  const Pci gpu = world.discover(facts).system.cpus.at(0).children.at(0);
  CHECK(gpu.link_width == 16);
  CHECK(gpu.state.width_now == 8);
  CHECK(gpu.state.width_able == 16);
  CHECK(gpu.state.speed_now == "16.0 GT/s PCIe");
  CHECK(gpu.state.speed_able == "32.0 GT/s PCIe");
}

TEST_CASE("without NVML the PCI bus tells which GPUs there are, but not the board's display") {
  Sysfs world = machine();
  world.pci("pci0000:00/0000:00:01.0/0000:01:00.0");
  world.pci("pci0000:00/0000:00:02.0/0000:02:00.0",
            {"0x030000", "0x1a03", "0x2000", "5.0 GT/s PCIe", "1", "0", "", ""});
  world.pci("pci0000:00/0000:00:03.0/0000:03:00.0",
            {"0x120000", "0x1002", "0x74a1", "32.0 GT/s PCIe", "16", "0", "", ""});
  DriverFacts facts;
  facts.nvml_missing = "libnvidia-ml.so.1: not found";
  facts.interfaces.emplace();
  const Detected found = world.discover(facts);
  const auto& children = found.system.cpus.at(0).children;
  REQUIRE(children.size() == 2);
  CHECK(children[0].gpu->dev == 0);
  CHECK(!children[0].gpu->sm);
  CHECK(children[1].vendor == 0x1002u);
  CHECK(has_finding(found.findings,
                    "no GPUs from NVML (libnvidia-ml.so.1: not found): 2 found on the PCI bus"));
}

TEST_CASE("CUDA without NVML: index and capability, NVLinks unknown, one warning") {
  Sysfs world = machine();
  world.pci("pci0000:00/0000:00:01.0/0000:01:00.0");
  DriverFacts facts;
  facts.nvml_missing = "gone";
  facts.gpus.push_back(gpu_facts(0, "0000:01:00.0", 80));
  const Detected found = world.discover(facts);
  CHECK(found.system.cpus.at(0).children.at(0).gpu->sm == 80);
  CHECK(has_finding(found.findings, "GPUs are taken from CUDA, their NVLinks are unknown"));
}

TEST_CASE("Broadcom's links between switches") {
  Sysfs world = machine();
  world.bridge(kPort);
  world.bridge(kUp);
  world.bridge(kDown0);
  world.pci(kDown0 + "/0000:03:00.0");
  const std::string links = "/sys/kernel/pci_switch_link/virtual_switch_links/0000:01:00.0/";
  world.file(links + "0000:41:00.0", "");
  world.file(links + "nonsense", "");
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:03:00.0"));
  const System system = world.discover(facts).system;
  CHECK(system.cpus.at(0).children.at(0).peers == std::vector<BusId>{bus("0000:41:00.0")});

  // With the two above one more than 4096 are listed.
  for (int i = 0; i < 4095; ++i) world.file(links + bus_id_text({int64_t{0x1000 + i} << 20}), "");
  const Detected many = world.discover(facts);
  CHECK(has_finding(many.findings, "more than 4096 links between PCI switches"));
  CHECK(many.system.cpus.at(0).children.at(0).peers.size() == 4096);  // "nonsense" is listed last
}

TEST_CASE("GPUs that may not reach each other, MIG, dead ends: findings") {
  Sysfs world = machine();
  world.pci("pci0000:00/0000:00:01.0/0000:01:00.0");
  world.pci("pci0000:00/0000:00:02.0/0000:02:00.0");
  DriverFacts facts;
  facts.gpus = {gpu_facts(0, "0000:01:00.0"), gpu_facts(1, "0000:02:00.0"),
                gpu_facts(2, "0000:02:00.0")};
  facts.gpus[0].p2p = {1, 0, 0};
  facts.gpus[0].mig = true;
  facts.gpus[1].links.push_back({0, true, std::nullopt});
  facts.troubles = {"the driver is tired"};
  const Detected found = world.discover(facts);
  CHECK(has_finding(found.findings, "does not let some GPUs access each other's memory"));
  CHECK(has_finding(found.findings, "MIG"));
  CHECK(has_finding(found.findings, "do not report where they lead (0000:02:00.0)"));
  CHECK(has_finding(found.findings, "lists a GPU twice (0000:02:00.0)"));
  CHECK(has_finding(found.findings, "the driver is tired"));
  const auto& children = found.system.cpus.at(0).children;
  REQUIRE(children.size() == 2);
  CHECK(children[0].gpu->no_p2p == std::vector<BusId>{bus("0000:02:00.0"), bus("0000:02:00.0")});
  CHECK(read_xml(write_xml(found.system), "x.xml")->system == found.system);
}

TEST_CASE("this machine can be detected, and its snapshot is the same machine") {
  Reader reader = live_reader();
  const Detected found = discover(reader);
  CHECK(!found.system.cpus.empty());
  CHECK(!found.processors.online.empty());
  CHECK(read_xml(write_xml(found.system), "live.xml")->system == found.system);
}

}  // namespace detect_discover_gaps_tests
