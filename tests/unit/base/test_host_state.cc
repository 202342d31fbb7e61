// The state of NICs, PCI links and the host out of trees of the kernel's files.
#include "base/host_state.h"

#include "base/nic_module.h"
#include "tests/catch.h"
#include "tests/unit/base/root_folder.h"

namespace host_state_tests {

using namespace collctl::base;
using collctl::base::testing::Root;

namespace {

const DeviceState* device(const HostState& state, const std::string& name) {
  for (const DeviceState& each : state.devices)
    if (each.device == name) return &each;
  return nullptr;
}

std::string value(const HostState& state, const std::string& name, const char* fact) {
  const DeviceState* at = device(state, name);
  const std::string* known = at == nullptr ? nullptr : at->find(fact);
  return known == nullptr ? "" : *known;
}

void link(const Root& root, const std::string& where, const char* width, const char* speed,
          const char* most_width, const char* most_speed) {
  const std::string at = "sys/devices/" + where + "/";
  root.file(at + "current_link_width", width);
  root.file(at + "current_link_speed", speed);
  root.file(at + "max_link_width", most_width);
  root.file(at + "max_link_speed", most_speed);
}

const std::string kBridge = "pci0000:10/0000:10:01.0";
const std::string kGpu = kBridge + "/0000:11:00.0";
const std::string kPort = "pci0000:20/0000:20:01.0";
const std::string kNic = kPort + "/0000:21:00.0";

}  // namespace

TEST_CASE("a PCI link is held against what both of its ends can", "[host_state]") {
  const Root root;
  root.pci(kBridge, "0x060400", "0x1000");
  root.pci(kGpu, "0x030200", "0x10de");
  link(root, kBridge, "8\n", "16.0 GT/s PCIe\n", "16\n", "32.0 GT/s PCIe\n");
  link(root, kGpu, "8\n", "2.5 GT/s PCIe\n", "32\n", "64.0 GT/s PCIe\n");
  root.pci("pci0000:30/0000:30:00.0", "0x030000", "0x10de");  // no bridge above it
  link(root, "pci0000:30/0000:30:00.0", "0\n", "Unknown\n", "255\n", "Unknown\n");
  root.pci("pci0000:40/0000:40:00.0", "0x030000", "0x10de");  // a virtual machine's
  root.link("sys/devices/pci0000:40/0000:40:00.0/driver", "../../../bus/pci/drivers/vfio-pci");
  root.pci("pci0000:50/0000:50:00.0", "0x030000", "0x1002");  // another maker's
  const HostState state = host_state(root.text());
  CHECK(value(state, "0000:11:00.0", "pcie_width") == "8");
  CHECK(value(state, "0000:11:00.0", "pcie_width_most") == "16");
  CHECK(value(state, "0000:11:00.0", "pcie_GTps") == "2.5");
  CHECK(value(state, "0000:11:00.0", "pcie_GTps_most") == "32");
  CHECK(value(state, "0000:11:00.0", "bridges") == "0000:10:01.0");
  REQUIRE(device(state, "0000:30:00.0") != nullptr);
  CHECK(device(state, "0000:30:00.0")->facts.size() == 1);  // its bus
  CHECK(device(state, "0000:40:00.0") == nullptr);
  CHECK(device(state, "0000:50:00.0") == nullptr);
}

TEST_CASE("NICs: ports, partitions, rates; a link of both kinds of device once", "[host_state]") {
  const Root root;
  root.pci(kPort, "0x060400", "0x1000");
  root.pci(kNic, "0x020700", "0x15b3");
  root.rdma("mlx5_0", kNic);
  link(root, kPort, "16\n", "32.0 GT/s PCIe\n", "16\n", "32.0 GT/s PCIe\n");
  link(root, kNic, "8\n", "32.0 GT/s PCIe\n", "16\n", "32.0 GT/s PCIe\n");
  const std::string rdma = "sys/devices/" + kNic + "/infiniband/mlx5_0/";
  root.file(rdma + "board_id", "MT_0000000838\n");
  root.file(rdma + "ports/1/state", "4: ACTIVE\n");
  root.file(rdma + "ports/1/link_layer", "InfiniBand\n");
  root.file(rdma + "ports/1/rate", "400 Gb/sec (4X NDR)\n");
  root.file(rdma + "ports/1/pkeys/0", "0x7fff\n");
  root.file(rdma + "ports/1/pkeys/1", "0x8001\n");
  root.file(rdma + "ports/1/pkeys/2", "0x0000\n");
  root.file(rdma + "ports/1/pkeys/3", "0x8002\n");
  root.file(rdma + "ports/1/pkeys/4", "0x8001\n");
  for (const auto& [index, type] :
       {std::pair("0", "RoCE v2\n"), {"1", "IB/RoCE v1\n"}, {"2", "RoCE v2\n"}, {"3", ""}})
    root.file(rdma + "ports/1/gid_attrs/types/" + index, type);
  const std::string net = "sys/devices/" + kNic + "/net/ib0/";
  root.file(net + "operstate", "up\n");
  root.file(net + "mtu", "4092\n");
  root.file(net + "speed", "-1\n");
  for (int priority = 0; priority < 8; ++priority)
    root.file(net + "ecn/roce_np/enable/" + std::to_string(priority),
              priority == 3 ? "1\n" : "0\n");
  root.link(net + "device", "../..");
  root.link("sys/class/net/ib0", "../../devices/" + kNic + "/net/ib0");
  root.file("sys/class/net/docker0/operstate", "up\n");  // no device
  const HostState state = host_state(root.text());
  const std::string port = "mlx5_0 port 1";
  REQUIRE(device(state, port) != nullptr);
  CHECK(device(state, port)->model == "MT_0000000838");
  CHECK(value(state, port, "state") == "ACTIVE");
  CHECK(value(state, port, "link") == "InfiniBand");
  CHECK(value(state, port, "firmware") == "28.39.1002");
  CHECK(value(state, port, "rate_Mbps") == "400000");
  CHECK(value(state, port, "pkeys") == "0x7fff 0x8001 0x8002");
  CHECK(value(state, port, "gid_types") == "IB/RoCE v1, RoCE v2");
  CHECK(value(state, port, "pkeys_full") == "3");
  CHECK(value(state, port, "pkeys_limited") == "1");
  CHECK(value(state, port, "bus") == "0000:21:00.0");
  CHECK(value(state, port, "pcie_width") == "8");
  CHECK(value(state, port, "pcie_width_most") == "16");
  CHECK(value(state, "ib0", "state") == "up");
  CHECK(value(state, "ib0", "mtu") == "4092");
  CHECK(value(state, "ib0", "ecn_np") == "00010000");
  CHECK(value(state, "ib0", "ecn_rp").empty());
  CHECK(value(state, "ib0", "rate_Mbps").empty());
  CHECK(value(state, "ib0", "pcie_width").empty());
  CHECK(device(state, "docker0") == nullptr);
}

TEST_CASE("an active port in many partitions tells the first of them", "[host_state]") {
  const Root root;
  root.pci(kNic, "0x020700", "0x15b3");
  root.rdma("mlx5_0", kNic);
  for (int index = 0; index < 70; ++index)
    root.file("sys/devices/" + kNic + "/infiniband/mlx5_0/ports/1/pkeys/" + std::to_string(index),
              "0x80" + std::to_string(99 - index) + "\n");
  CHECK(value(host_state(root.text()), "mlx5_0 port 1", "pkeys").empty());
  root.file("sys/devices/" + kNic + "/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  const std::string keys = value(host_state(root.text()), "mlx5_0 port 1", "pkeys");
  CHECK(keys.starts_with("0x8030 0x8031 "));
  CHECK(keys.ends_with(" 0x8093 and 6 more"));
  CHECK(keys.size() < kMostStateText);
}

TEST_CASE("the host: command line, governors, huge pages, free space", "[host_state]") {
  const Root root;
  root.file("proc/sys/kernel/osrelease", "6.1.0\n");
  root.file("proc/uptime", "86400.52 1234.00\n");
  root.file("proc/cmdline", "root=/dev/sda1 intel_iommu=on password=secret iommu=pt\n");
  root.file("proc/meminfo", "MemTotal:       4194304 kB\nMemFree: 1 kB\n");
  root.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
  root.file("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1\n");
  const std::string policies = "sys/devices/system/cpu/cpufreq/policy";
  root.file(policies + "0/scaling_governor", "powersave\n");
  root.file(policies + "1/scaling_governor", "performance\n");
  root.file(policies + "2/scaling_governor", "performance\n");
  root.file("tmp/x", "");
  root.file("sys/module/nvidia/version", "570.86.15\n");
  root.file("dev/nvidia-caps-imex-channels/channel0", "");
  const HostState state = host_state(root.text());
  CHECK(state.uptime_s == 86400);
  CHECK(value(state, "host", "iommu") == "intel_iommu=on iommu=pt");
  CHECK(value(state, "host", "memory_MiB") == "4096");
  CHECK(value(state, "host", "hugepages_MiB") == "2048");
  CHECK(value(state, "host", "governor") == "performance of 2, powersave of 1");
  CHECK(value(state, "host", "kernel") == "6.1.0");
  CHECK(value(state, "host", "driver") == "570.86.15");
  CHECK(value(state, "host", "imex_channels") == "1");
  CHECK_FALSE(value(state, "host", "tmp_free_MiB").empty());
  CHECK(json_of(state).find("secret") == std::string::npos);
  // Nothing of it: a container.
  const Root bare;
  CHECK(device(host_state(bare.text()), "host")->facts.empty());
}

TEST_CASE("facts of a module in an interface", "[host_state]") {
  DeviceState nic;
  add_module(nic, {.type = "OSFP",
                   .vendor = "ACME",
                   .part = "",
                   .temperature_C = 45.53,
                   .most_C = std::nullopt,
                   .received_uW = {812.34, 0},
                   .least_uW = 39.8,
                   .sent_uW = {1000},
                   .least_sent_uW = 100.12});
  const std::vector<StateFact> wanted{{"module", "OSFP"},
                                      {"module_vendor", "ACME"},
                                      {"module_C", "45.5"},
                                      {"module_least_uW", "39.8"},
                                      {"module_uW", "812.3"},
                                      {"module_uW", "0.0"},
                                      {"module_tx_least_uW", "100.1"},
                                      {"module_tx_uW", "1000.0"}};
  CHECK(nic.facts == wanted);
}

TEST_CASE("a state is read as it was written, and only within bounds", "[host_state]") {
  HostState state;
  state.uptime_s = 5;
  state.unread = {"NVML: none"};
  DeviceState& gpu = state.devices.emplace_back();
  gpu.kind = CounterOf::gpu;
  gpu.device = "0000:11:00.0";
  gpu.model = "H100";
  gpu.add("ecc", "on");
  gpu.add("process", std::string(2000, 'x'));
  CHECK(gpu.facts[1].value.size() == kMostStateText);
  const auto again = record_of<HostState>(json_of(state));
  REQUIRE(again.ok());
  CHECK(again->devices == state.devices);
  CHECK(again->unread == state.unread);
  CHECK(again->uptime_s == 5);
  for (size_t i = 0; i < 2 * kMostStateFacts; ++i) gpu.add("x", "y");
  CHECK(gpu.facts.size() == kMostStateFacts);
  gpu.facts.push_back({"one", "too many"});
  CHECK_FALSE(record_of<HostState>(json_of(state)).ok());
}

}  // namespace host_state_tests
