// Detection of network devices over written worlds; expected by hand from the rules of NCCL.
#include <cstdio>

#include "tests/unit/topology/detect/sysfs.h"
#include "topology/graph/graph.h"

namespace detect_discover_net_tests {

using namespace collctl::topology;

TEST_CASE("a dual-port card: two functions, one element, ports 1 and 2") {
  Sysfs world = machine();
  for (const char* function : {"0", "1"}) {
    const std::string where = std::string("pci0000:00/0000:00:02.0/0000:04:00.") + function;
    world.pci(where, {"0x020700", "0x15b3", "0x101b", "16.0 GT/s PCIe", "16", "0", "", ""});
    world.rdma(std::string("mlx5_") + function, where, "0000:0000:0000:0001",
               "200 Gb/sec (4X HDR)");
  }
  check_system(world.discover(), kCpu0 + R"(
      <pci busid="0000:04:00.0" class="0x020700" vendor="0x15b3" device="0x101b"
           link_speed="16.0 GT/s PCIe" link_width="16"
           link_speed_able="16.0 GT/s PCIe" link_width_able="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x100000000000000" gdr="0"/>
          <net name="mlx5_1" dev="1" speed="200000" port="2" guid="0x100000000000000" gdr="0"/>
        </nic>
      </pci>)" + kEnd);
}

TEST_CASE("two ports of one RDMA device have names of their own; a port that is down is named") {
  Sysfs world = machine();
  const std::string where = "pci0000:00/0000:00:02.0/0000:04:00.0";
  world.pci(where, {"0x020700", "0x15b3", "0x1013", "8.0 GT/s PCIe", "8", "0", "", ""});
  world.rdma("mlx5_0", where, "0000:0000:0000:0002", "56 Gb/sec (4X FDR)", "4: ACTIVE", 1);
  world.rdma("mlx5_0", where, "0000:0000:0000:0002", "100 Gb/sec (4X EDR)", "4: ACTIVE", 2);
  world.rdma("mlx5_0", where, "0000:0000:0000:0002", "10 Gb/sec (4X SDR)", "1: DOWN", 3);
  const Nic nic = world.discover().system.cpus.at(0).children.at(0).nics.at(0);
  REQUIRE(nic.nets.size() == 2);
  CHECK(nic.nets[0].name == "mlx5_0");
  CHECK(nic.nets[0].speed_mbps == 56000);
  CHECK(nic.nets[1].name == "mlx5_0:2");
  CHECK(nic.nets[1].speed_mbps == 100000);
  CHECK(nic.ports_down == "mlx5_0:3");
}

TEST_CASE("only RDMA ports that are down: sockets, with a warning") {
  Sysfs world = machine();
  const std::string where = "pci0000:00/0000:00:02.0/0000:04:00.0";
  world.pci(where, {"0x020700", "0x15b3", "0x1021", "32.0 GT/s PCIe", "16", "0", "", ""});
  world.rdma("mlx5_0", where, "0000:0000:0000:0002", "10 Gb/sec (4X SDR)", "1: DOWN");
  world.interface("ib0", where, "400000");
  const Detected found = world.discover();
  const Nic& nic = found.system.cpus.at(0).children.at(0).nics.at(0);
  CHECK(nic.ports_down == "mlx5_0:1");
  REQUIRE(nic.nets.size() == 1);
  CHECK(nic.nets[0].name == "ib0");
  CHECK(nic.nets[0].speed_mbps == 400000);
  CHECK(has_finding(found.findings, "no active RDMA port"));
}

TEST_CASE("GDR of a NIC: by the kernel module, or by DMA-BUF; that of a GPU is its own") {
  const std::string where = "pci0000:00/0000:00:02.0/0000:04:00.0";
  const auto world_with = [&](const std::string& module, const std::string& driver) {
    Sysfs world = machine();
    world.pci("pci0000:00/0000:00:01.0/0000:01:00.0");
    world.pci(where, {"0x020700", "0x15b3", "0x1021", "32.0 GT/s PCIe", "16", "0", "", ""});
    world.rdma("mlx5_0", where, "0000:0000:0000:0002");
    if (!module.empty()) world.file(module, "550.54");
    if (!driver.empty()) world.file("/proc/driver/nvidia/version", driver);
    return world;
  };
  const auto nic_gdr = [](const Detected& found) {
    return found.system.cpus.at(0).children.at(1).nics.at(0).nets.at(0).gdr;
  };
  const auto gpu_gdr = [](const Detected& found) {
    return found.system.cpus.at(0).children.at(0).gpu->gdr;
  };
  const std::string open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1";
  const std::string closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15";
  DriverFacts facts;
  facts.gpus.push_back(gpu_facts(0, "0000:01:00.0"));
  for (const char* module :
       {"", "/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem/version",
        "/sys/kernel/mm/memory_peers/nv_mem_nc/version"})
    for (const bool dmabuf : {false, true}) {
      facts.gpus[0].cuda_dmabuf = dmabuf;
      // CUDA's answer counts before the driver's words.
      const Detected found = world_with(module, open).discover(facts);
      INFO("module " << module << ", DMA-BUF " << dmabuf);
      CHECK(nic_gdr(found) == (*module != 0 || dmabuf));
      CHECK(gpu_gdr(found) == true);
    }
  facts.gpus[0].cuda_dmabuf.reset();
  facts.gpus[0].cuda_gdr.reset();
  CHECK(nic_gdr(world_with("", open).discover(facts)) == true);
  CHECK(nic_gdr(world_with("", closed).discover(facts)) == false);
  CHECK(!gpu_gdr(world_with("", open).discover(facts)));
  facts.gpus[0].name = "NVIDIA H100";
  CHECK(gpu_gdr(world_with("", open).discover(facts)) == true);
  facts.gpus[0].name = "NVIDIA GeForce RTX 4090";
  CHECK(gpu_gdr(world_with("", open).discover(facts)) == false);
}

TEST_CASE("sockets: what is up and has an address; containers' bridges only without others") {
  Sysfs world = machine();
  world.pci("pci0000:00/0000:00:03.0", {"0x020000", "0x15b3", "0x1041", "", "", "-1", "", ""});
  world.interface("eth0", "pci0000:00/0000:00:03.0/virtio1", "-1");
  world.folder("/sys/devices/pci0000:00/0000:00:03.0/virtio1");
  world.interface("docker0", "", "10000");
  world.interface("lo", "", "", "unknown");
  world.interface("eth9", "", "", "down");
  DriverFacts facts;
  facts.interfaces = {{"lo", true, true, true, 0},
                      {"docker0", true, false, true, 0},
                      {"eth0", true, false, true, 0},
                      {"eth9", false, false, true, 0},
                      {"veth1", true, false, false, 0}};
  for (const bool drivers : {true, false}) {
    const Detected found = world.discover(drivers ? facts : DriverFacts{});
    const Cpu& cpu = found.system.cpus.at(0);
    CHECK(cpu.nics.empty());
    REQUIRE(cpu.children.size() == 1);  // virtio lies below its PCI device
    CHECK(cpu.children[0].bus_id == bus("0000:00:03.0"));
    REQUIRE(cpu.children[0].nics.at(0).nets.size() == 1);
    const Net& net = cpu.children[0].nics[0].nets[0];
    CHECK(net.name == "eth0");
    CHECK_FALSE(net.speed_mbps);  // -1: not known
    CHECK(net.gdr == false);
  }
  facts.interfaces->erase(facts.interfaces->begin() + 2);
  const Detected only = world.discover(facts);
  CHECK(only.system.cpus.at(0).nics.at(0).nets.at(0).name == "docker0");
}

TEST_CASE("virtual interfaces are no devices of a machine that has others") {
  Sysfs world = machine();
  for (const char* name : {"veth1", "br-9", "tun0"}) world.interface(name, "", "10000");
  world.link("/sys/devices/virtual/net/br-9/lower_veth1", "../veth1");
  const auto names = [&] {
    std::vector<std::string> list;
    const Detected found = world.discover();
    for (const Nic& nic : found.system.cpus.at(0).nics)
      for (const Net& net : nic.nets) list.push_back(net.name);
    return list;
  };
  CHECK(names() == std::vector<std::string>{"br-9", "tun0", "veth1"});  // as in a container
  // As on a virtual machine; a VLAN upon a bond of two of its NICs.
  for (const char* nic : {"eth0", "eth1", "eth2"}) {
    const std::string where = std::string("pci0000:00/0000:00:0") + nic[3] + ".0";
    world.file("/sys/devices/" + where + "/class", "0x020000");
    world.interface(nic, where, "25000", nic[3] == '0' ? "up" : "down");
  }
  CHECK(names() == std::vector<std::string>{"eth0"});
  world.interface("bond0", "", "50000");
  world.interface("bond0.7", "", "50000");
  world.link("/sys/devices/virtual/net/bond0/lower_eth1", "../../../pci0000:00/eth1");
  world.link("/sys/devices/virtual/net/bond0.7/lower_bond0", "../bond0");
  CHECK(names() == std::vector<std::string>{"bond0", "bond0.7", "eth0"});
}

TEST_CASE("interfaces that lead to no other host are no devices, by the one rule of which count") {
  Sysfs world = machine();
  // A CNI's bridge, of which a network card is a port as far as /sys tells.
  world.interface("cni0", "", "10000");
  world.link("/sys/devices/virtual/net/cni0/lower_eth0", "../../../pci0000:00/eth0");
  world.file("/sys/devices/pci0000:00/0000:00:03.0/class", "0x020000");
  world.interface("eth0", "pci0000:00/0000:00:03.0", "25000");
  DriverFacts facts;
  facts.interfaces = {{"cni0", true, false, true, 0, "a bridge that no network card is a port of"},
                      {"eth0", true, false, true, 0}};
  const Detected found = world.discover(facts);
  const Cpu& cpu = found.system.cpus.at(0);
  REQUIRE(cpu.nics.size() == 1);
  REQUIRE(cpu.nics[0].nets.size() == 1);
  CHECK(cpu.nics[0].nets[0].name == "eth0");
}

TEST_CASE("a paravirtual interface, whose device has no PCI link, hangs on the CPU") {
  Sysfs world = machine();
  // As on a virtual machine: a PCI device without max_link_speed.
  world.file("/sys/devices/pci0000:00/0000:00:03.0/class", "0x020000");
  world.interface("eth0", "pci0000:00/0000:00:03.0/virtio1", "-1");
  const Detected found = world.discover();
  CHECK(found.system.cpus.at(0).children.empty());
  CHECK(found.system.cpus.at(0).nics.at(0).nets.at(0).name == "eth0");
  CHECK(has_finding(found.findings, "does not report its speed; 10 Gb/s is assumed (eth0)"));
}

TEST_CASE("interfaces beyond what NCCL takes are counted, not shown") {
  Sysfs world = machine();
  for (int i = 0; i < 40; ++i) world.interface("eth" + std::to_string(i), "", "25000");
  const Detected found = world.discover();
  const auto& nets = found.system.cpus.at(0).nics.at(0).nets;
  REQUIRE(nets.size() == 16);
  CHECK(nets[2].name == "eth2");  // by number, not eth10
  CHECK(has_finding(found.findings, "40 network interfaces"));
}

TEST_CASE("hundreds of virtual functions: as many as a graph holds, and a finding") {
  Sysfs world = machine();
  for (int i = 0; i < 300; ++i) {
    char where[64];
    std::snprintf(where, sizeof where, "pci0000:00/0000:00:02.0/0000:%02x:%02x.0", 4 + i / 32,
                  i % 32);
    world.pci(where, {"0x020700", "0x15b3", "0x101e", "16.0 GT/s PCIe", "16", "0", "", ""});
    world.rdma("mlx5_" + std::to_string(i), where, "0000:0000:0000:0001");
  }
  const Detected found = world.discover();
  CHECK(has_finding(found.findings, "more than 128 active RDMA ports"));
  const auto graph = make_graph(found.system, "x");
  REQUIRE(graph.ok());
  CHECK(graph->nets.size() == 128);
}

TEST_CASE("an RDMA device that only verbs shows is there, at no place") {
  DriverFacts facts;
  facts.rdma = {{.name = "mlx5_7",
                 .system_guid = 5,
                 .max_qp = 1000,
                 .ports = {{.port = 1, .active = true, .mbps = 200'000},
                           {.port = 2, .active = false, .mbps = 0}}}};
  const Detected found = machine().discover(facts);
  const std::vector<Nic>& nics = found.system.cpus.at(0).nics;
  REQUIRE(nics.size() == 1);
  REQUIRE(nics[0].nets.size() == 1);
  CHECK(nics[0].nets[0].name == "mlx5_7");
  CHECK(nics[0].nets[0].speed_mbps == 200'000);
  CHECK(nics[0].ports_down == "mlx5_7:2");
}

}  // namespace detect_discover_net_tests
