// Detection over written worlds: the expected machine is drawn by hand from the rules of NCCL
// (an upstream port stands for its switch, one level of two is skipped, the lower of device and
// port counts, functions of a card are one NIC).
#include "tests/unit/topology/detect/sysfs.h"

namespace detect_discover_tests {

using namespace collctl::topology;

namespace {

const std::string kPort = "pci0000:00/0000:00:01.0";  // root port
const std::string kUp = kPort + "/0000:01:00.0";      // the switch's upstream port
const std::string kDown0 = kUp + "/0000:02:00.0", kDown1 = kUp + "/0000:02:01.0";

}  // namespace

TEST_CASE("a switch, a GPU and a NIC: every other level is an element, the lower end counts") {
  Sysfs world = machine();
  world.bridge(kPort);
  world.bridge(kUp);
  // The slot of the GPU is gen4, that of the NIC has 8 lanes.
  world.bridge(kDown0, "16.0 GT/s PCIe", "16");
  world.bridge(kDown1, "32.0 GT/s PCIe", "8");
  world.pci(kDown0 + "/0000:03:00.0",
            {"0x030200", "0x10de", "0x2330", "32.0 GT/s PCIe", "16", "0", "2.5 GT/s PCIe", "16"});
  world.pci(kDown1 + "/0000:04:00.0",
            {"0x020700", "0x15b3", "0x1021", "32.0 GT/s PCIe", "16", "0", "", ""});
  world.rdma("mlx5_0", kDown1 + "/0000:04:00.0", "b8ce:f603:00d4:e0a4");
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:03:00.0"));
  add_nvlinks(facts.gpus[0], 18, "0000:c1:00.0");
  facts.gpus[0].name = "NVIDIA H100";
  facts.rdma.push_back({"mlx5_0", 0, 131072, {}});
  // guid: the bytes b8 ce f6 03 00 d4 e0 a4 as a little-endian number. No switch chip is in sysfs:
  // an NVSwitch is assumed (0x068000).
  check_system(world.discover(facts),
               kCpu0 + R"(<pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc030"
                   link_speed="32.0 GT/s PCIe" link_width="16"
                   link_speed_able="32.0 GT/s PCIe" link_width_able="16">
        <pci busid="0000:03:00.0" class="0x030200" vendor="0x10de" device="0x2330"
             link_speed="16.0 GT/s PCIe" link_width="16" link_speed_now="2.5 GT/s PCIe" link_width_now="16"
             link_speed_able="32.0 GT/s PCIe" link_width_able="16">
          <gpu dev="0" sm="90" rank="0" gdr="1" name="NVIDIA H100" nvlinks_able="18">
            <nvlink target="0000:c1:00.0" count="18" tclass="0x068000"/>
          </gpu>
        </pci>
        <pci busid="0000:04:00.0" class="0x020700" vendor="0x15b3" device="0x1021"
             link_speed="32.0 GT/s PCIe" link_width="8"
             link_speed_able="32.0 GT/s PCIe" link_width_able="16">
          <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0xa4e0d40003f6ceb8"
                    maxconn="131072" gdr="1"/></nic>
        </pci>
      </pci>)" + kEnd);
}

TEST_CASE("a virtual machine that hangs everything below the root") {
  Sysfs world;
  world.cpuinfo("AuthenticAMD", 25, 17);
  world.numa(0, "00000000,00000000,ffffffff,ffffffff,ffffffff");
  for (const char* device : {"0000:00:05.0", "0000:00:06.0"})
    world.pci(std::string("pci0000:00/") + device,
              {"0x030200", "0x10de", "0x2335", "Unknown", "0", "-1", "", ""});
  DriverFacts facts;
  for (int i = 0; i < 2; ++i) {
    facts.gpus.push_back(gpu_facts(i, i == 0 ? "0000:00:05.0" : "0000:00:06.0"));
    facts.gpus.back().cuda_gdr = false;
    facts.gpus.back().links.push_back({0, true, kInvisibleTarget});
    facts.gpus.back().links.push_back({1, true, kInvisibleTarget});
  }
  facts.interfaces = {{"eth0", true, false, true, 0}};
  // The kernel says -1 of devices on machines of one node: they can only be on that.
  const std::string gpu0 =
      R"(class="0x030200" vendor="0x10de" device="0x2335" link_speed="Unknown" link_width="0">)";
  const auto gpu = [](int n) {
    return "<gpu dev=\"" + std::to_string(n) + "\" sm=\"90\" rank=\"" + std::to_string(n) +
           "\" gdr=\"0\" nvlinks_able=\"2\">"
           "<nvlink target=\"fffffff:ff:ff.0\" count=\"2\" tclass=\"0x068000\"/></gpu></pci>";
  };
  check_system(
      world.discover(facts),
      R"(<system version="1"><cpu numaid="0" affinity="00000000,00000000,ffffffff,ffffffff,ffffffff"
                 arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="17">
                 <pci busid="0000:00:05.0" )" +
          gpu0 + gpu(0) + "<pci busid=\"0000:00:06.0\" " + gpu0 + gpu(1) +
          R"(<nic><net name="eth0" dev="0" port="0" guid="0x0" maxconn="65536" gdr="0"/></nic>)" +
          kEnd);
}

TEST_CASE("several nodes and a device whose node nobody knows: a CPU of its own, NUMA -1") {
  Sysfs world;
  world.numa(0, "0f");
  world.numa(1, "f0");
  world.pci("pci0000:00/0000:00:05.0", {"0x030200", "0x10de", "0x2335", "", "", "-1", "", ""});
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:00:05.0"));
  facts.interfaces.emplace();
  const System system = world.discover(facts).system;
  REQUIRE(system.cpus.size() == 3);
  CHECK(system.cpus[0].numa == -1);
  CHECK(!system.cpus[0].affinity);
  CHECK(system.cpus[0].children.size() == 1);
  CHECK(system.cpus[1].numa == 0);
  CHECK(system.cpus[2].affinity == "f0");
}

TEST_CASE("Hyper-V: each device in a domain of its own, link files empty") {
  Sysfs world;
  world.cpuinfo("AuthenticAMD", 25, 1);
  world.numa(0, "0f");
  world.numa(1, "f0");
  const std::string hyper = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/";
  world.pci(hyper + "aaaa/pci0001:00/0001:00:00.0",
            {"0x030200", "0x10de", "0x20b5", "", "0", "0", "", ""});
  world.pci(hyper + "bbbb/pci0002:00/0002:00:00.0",
            {"0x030200", "0x10de", "0x20b5", "", "0", "1", "", ""});
  DriverFacts facts;
  facts.gpus = {gpu_facts(0, "0001:00:00.0", 80), gpu_facts(1, "0002:00:00.0", 80)};
  add_nvlinks(facts.gpus[0], 12, "0002:00:00.0");
  add_nvlinks(facts.gpus[1], 12, "0001:00:00.0");
  facts.interfaces.emplace();
  const auto gpu = [](int n, const char* other) {
    const std::string number = std::to_string(n);
    return "<gpu dev=\"" + number + "\" sm=\"80\" rank=\"" + number +
           "\" gdr=\"1\" nvlinks_able=\"12\"><nvlink target=\"" + other +
           "\" count=\"12\" tclass=\"0x030200\"/></gpu></pci>";
  };
  const std::string pci =
      R"(class="0x030200" vendor="0x10de" device="0x20b5" link_speed="" link_width="0">)";
  const std::string cpu = R"(arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">)";
  check_system(world.discover(facts),
               "<system version=\"1\"><cpu numaid=\"0\" affinity=\"0f\" " + cpu +
                   "<pci busid=\"0001:00:00.0\" " + pci + gpu(0, "0002:00:00.0") +
                   "</cpu><cpu numaid=\"1\" affinity=\"f0\" " + cpu +
                   "<pci busid=\"0002:00:00.0\" " + pci + gpu(1, "0001:00:00.0") + kEnd);
}

TEST_CASE("an emulated switch keeps its slow uplink, the devices below their fast ones") {
  Sysfs world = machine();
  world.bridge(kPort, "2.5 GT/s PCIe", "1");
  world.pci(kUp, {"0x060400", "0x104c", "0x8232", "2.5 GT/s PCIe", "1", "0", "", ""});
  world.bridge(kDown0, "32.0 GT/s PCIe", "16");
  world.pci(kDown0 + "/0000:03:00.0");
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:03:00.0"));
  facts.interfaces.emplace();
  const System system = world.discover(facts).system;
  const Pci& above = system.cpus.at(0).children.at(0);
  CHECK(above.link_speed == "2.5 GT/s PCIe");
  CHECK(above.link_width == 1);
  CHECK(above.children.at(0).link_speed == "32.0 GT/s PCIe");
  CHECK(above.children.at(0).link_width == 16);
}

TEST_CASE("a container that sees two of four GPUs: NVML's numbers, sysfs complete") {
  Sysfs world = machine();
  for (int i = 0; i < 4; ++i)
    world.pci("pci0000:00/0000:00:0" + std::to_string(i + 1) + ".0/0000:0" + std::to_string(i + 1) +
              ":00.0");
  DriverFacts facts;
  facts.gpus = {gpu_facts(0, "0000:02:00.0"), gpu_facts(1, "0000:04:00.0")};
  // One neighbour is hidden but its class stands in sysfs; the other is seen.
  add_nvlinks(facts.gpus[0], 4, "0000:03:00.0");
  add_nvlinks(facts.gpus[0], 2, "0000:04:00.0");
  add_nvlinks(facts.gpus[0], 2, "", false);
  facts.interfaces.emplace();
  const Detected found = world.discover(facts);
  const auto& children = found.system.cpus.at(0).children;
  REQUIRE(children.size() == 2);
  CHECK(children[0].bus_id == bus("0000:02:00.0"));
  CHECK(children[1].gpu->dev == 1);
  const Gpu& gpu = *children[0].gpu;
  REQUIRE(gpu.links.size() == 2);
  CHECK(gpu.links[0].target_class == 0x030200u);
  CHECK(gpu.links[0].count == 4);
  CHECK(gpu.links[1].count == 2);
  CHECK(gpu.links_able == 8);
  CHECK(has_finding(found.findings, "2 more GPUs are on the PCI bus"));
}

TEST_CASE("NUMA nodes that are neither contiguous nor in order, and some without cores") {
  Sysfs world;
  world.cpuinfo("AuthenticAMD", 23, 49);
  for (const int id : {3, 1, 7, 5}) world.numa(id, "0" + std::to_string(id));
  world.numa(8, "00000000");  // memory of a GPU
  for (const int id : {3, 1, 7, 5})
    world.pci("pci0000:" + std::to_string(id) + "0/0000:" + std::to_string(id) +
                  "0:01.0/0000:" + std::to_string(id) + "1:00.0",
              {"0x030200", "0x10de", "0x20b0", "16.0 GT/s PCIe", "16", std::to_string(id), "", ""});
  DriverFacts facts;
  int index = 0;
  for (const int id : {3, 1, 7, 5})
    facts.gpus.push_back(gpu_facts(index++, "0000:" + std::to_string(id) + "1:00.0", 80));
  facts.interfaces.emplace();
  const System system = world.discover(facts).system;
  REQUIRE(system.cpus.size() == 4);
  const int nodes[] = {1, 3, 5, 7}, devs[] = {1, 0, 3, 2};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(system.cpus[i].numa == nodes[i]);
    CHECK(system.cpus[i].children.at(0).gpu->dev == devs[i]);
  }
}

TEST_CASE("NPS4: four nodes of one socket stay four, devices on their own") {
  Sysfs world;
  world.cpuinfo("AuthenticAMD", 25, 1);
  const char* const masks[] = {"000000ff", "0000ff00", "00ff0000", "ff000000"};
  DriverFacts facts;
  for (int n = 0; n < 4; ++n) {
    const std::string number = std::to_string(n);
    world.numa(n, masks[n]);
    world.pci("pci0000:" + number + "0/0000:" + number + "0:01.0/0000:" + number + "1:00.0",
              {"0x030000", "0x10de", "0x2684", "16.0 GT/s PCIe", "16", number, "", ""});
    facts.gpus.push_back(gpu_facts(n, "0000:" + number + "1:00.0", 89));
  }
  facts.interfaces.emplace();
  const System system = world.discover(facts).system;
  REQUIRE(system.cpus.size() == 4);
  for (size_t n = 0; n < 4; ++n) {
    CHECK(system.cpus[n].affinity == masks[n]);
    CHECK(system.cpus[n].children.at(0).gpu->rank == int(n));
  }
}

TEST_CASE("a tray of Grace and Blackwell: C2C, invisible NVSwitches, memory-only nodes") {
  Sysfs world;
  world.numa(0, "ff");
  world.numa(2, "00");
  world.file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  world.pci("pci0008:00/0008:00:00.0/0008:01:00.0",
            {"0x030200", "0x10de", "0x2941", "32.0 GT/s PCIe", "1", "0", "", ""});
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0008:01:00.0", 100));
  for (int i = 0; i < 18; ++i) facts.gpus[0].links.push_back({i, true, kInvisibleTarget});
  facts.gpus[0].c2c_mbps.assign(5, 44712);
  facts.interfaces.emplace();
  Reader reader = world.reader(facts);
  reader.arch = "arm64";
  const Detected found = discover(reader);
  REQUIRE(found.system.cpus.size() == 1);
  const Cpu& cpu = found.system.cpus[0];
  CHECK(cpu.arch == "arm64");
  const Gpu& gpu = *cpu.children.at(0).gpu;
  REQUIRE(gpu.links.size() == 1);
  CHECK(gpu.links[0].count == 18);
  CHECK(gpu.links[0].target == kInvisibleTarget);
  CHECK(gpu.links[0].target_class == 0x068000u);
  REQUIRE(gpu.c2c.size() == 1);
  CHECK(gpu.c2c[0].count == 5);
  CHECK(gpu.c2c[0].mbytes_per_s == 44712);
}

}  // namespace detect_discover_tests
