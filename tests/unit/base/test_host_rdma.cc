// RDMA devices and the way to GPU memory out of trees of files laid out as the kernel does it,
// whole and damaged; and what is made of the facts.
#include "base/host_rdma.h"

#include "base/host_devices.h"
#include "tests/catch.h"
#include "tests/unit/base/root_folder.h"

namespace host_rdma_tests {

using namespace collctl::base;
using collctl::base::testing::Root;
namespace fs = std::filesystem;

namespace {

const std::string kBridge = "pci0000:00/0000:00:01.0";
const std::string kUp = kBridge + "/0000:10:00.0";
const std::string kGpu = kUp + "/0000:11:00.0/0000:12:00.0";
const std::string kNic = kUp + "/0000:11:01.0/0000:18:00.0";

// A switch with a GPU and a NIC below.
void plug_in(const Root& root) {
  for (const std::string& bridge : {kBridge, kUp, kUp + "/0000:11:00.0", kUp + "/0000:11:01.0"})
    root.pci(bridge, "0x060400", "0x1000");
  root.pci(kGpu, "0x030200", "0x10de");
  root.pci(kNic, "0x020700", "0x15b3");
  root.rdma("mlx5_0", kNic);
  root.file("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
}

// 4 KiB of configuration: AER at 0x100, ACS at 0x148 with this control register.
std::string config(uint16_t acs_control) {
  std::string bytes(4096, '\0');
  const auto put = [&](size_t at, uint32_t word) {
    for (int i = 0; i < 4; ++i) bytes[at + size_t(i)] = char(word >> 8 * i);
  };
  put(0x100, 0x0001 | 1u << 16 | 0x148u << 20);
  put(0x148, 0x000d | 1u << 16);  // the last one
  put(0x14c, uint32_t(acs_control) << 16);
  return bytes;
}

bool says(const GpuDirectAdvice& advice, const std::string& part, bool prevents) {
  for (const GpuDirectReason& reason : advice.reasons)
    if (reason.what.find(part) != std::string::npos) {
      CHECK_FALSE(reason.remedy.empty());
      return reason.prevents == prevents;
    }
  return false;
}

}  // namespace

TEST_CASE("RDMA devices: ports, GIDs that are set, firmware, interfaces") {
  const Root root;
  plug_in(root);
  const std::string at = "sys/devices/" + kNic + "/infiniband/mlx5_0";
  root.file(at + "/board_id", "MT_0000000838\n");
  root.file("sys/devices/" + kNic + "/numa_node", "1\n");
  root.file("sys/devices/" + kNic + "/net/eth2/mtu", "9000\n");
  root.file(at + "/ports/1/state", "4: ACTIVE\n");
  root.file(at + "/ports/1/phys_state", "5: LinkUp\n");
  root.file(at + "/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  root.file(at + "/ports/1/link_layer", "Ethernet\n");
  const char* const gids[] = {"fe80:0000:0000:0000:0a00:27ff:fe00:0001",
                              "0000:0000:0000:0000:0000:ffff:0a00:0007",
                              "0000:0000:0000:0000:0000:0000:0000:0000", "not an address"};
  for (int i = 0; i < 4; ++i)
    root.file(at + "/ports/1/gids/" + std::to_string(i), std::string(gids[i]) + "\n");
  root.file(at + "/ports/1/gids/10", "fe80:0000:0000:0000:0000:0000:0000:0002\n");
  root.file(at + "/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
  root.file(at + "/ports/1/gid_attrs/types/1", "RoCE v2\n");
  root.file(at + "/ports/1/gid_attrs/ndevs/1", "eth2\n");
  // A second port, of InfiniBand, down; and things that are no ports.
  root.file(at + "/ports/2/state", "1: DOWN\n");
  root.file(at + "/ports/2/link_layer", "InfiniBand\n");
  root.file(at + "/ports/2/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0003\n");
  root.file(at + "/ports/2/gid_attrs/types/0", "IB/RoCE v1\n");
  root.file(at + "/ports/other/state", "4: ACTIVE\n");
  const auto devices = rdma_devices(root.text());
  REQUIRE(devices.size() == 1);
  const RdmaDevice expected{
      .name = "mlx5_0",
      .bus_id = "0000:18:00.0",
      .numa = 1,
      .firmware = "28.39.1002",
      .board = "MT_0000000838",
      .interfaces = {"eth2"},
      .ports = {{1,
                 "ACTIVE",
                 "LinkUp",
                 "400 Gb/sec (4X NDR)",
                 "Ethernet",
                 {{0, "RoCE v1", "fe80::a00:27ff:fe00:1", ""},
                  {1, "RoCE v2", "::ffff:10.0.0.7", "eth2"},
                  {10, "", "fe80::2", ""}}},
                {2, "DOWN", "", "", "InfiniBand", {{0, "IB", "fe80::3", ""}}}}};
  CHECK(devices[0] == expected);
}

TEST_CASE("RDMA devices: files that are no facts are bounded and shown as they may be") {
  const Root root;
  root.rdma("rxe0", "virtual");  // not on the PCI bus
  const std::string at = "sys/devices/virtual/infiniband/rxe0";
  root.file(at + "/fw_ver", std::string(100'000, 'x'));
  root.file(at + "/board_id", "a\x1b[31mb\n");
  for (int i = 0; i < 400; ++i)
    root.file(at + "/ports/" + std::to_string(1 + i) + "/state", "4: ACTIVE\n");
  const auto devices = rdma_devices(root.text());
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].bus_id.empty());
  CHECK(devices[0].numa == -1);
  CHECK(devices[0].firmware.size() <= 256);
  CHECK(devices[0].board == "a?[31mb");
  CHECK(devices[0].ports.size() == kMostRdmaPorts);
  CHECK(rdma_devices(root.text() + "/nowhere").empty());
}

TEST_CASE("the way to GPU memory: drivers, modules, IOMMU and ACS out of files") {
  const Root root;
  plug_in(root);
  GpuDirectFacts facts = gpu_direct_facts(root.text());
  CHECK(facts.gpus == 1);
  CHECK(facts.rdma_devices == 1);
  CHECK(facts.kernel == "6.1.0-18-amd64");
  CHECK(facts.driver.empty());
  CHECK_FALSE(facts.acs_known);  // no bridge's registers
  CHECK(says(judge_gpu_direct(facts), "driver is not loaded", true));

  root.file("sys/module/nvidia/version", "550.54.15\n");
  root.file("proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15\n");
  root.file("sys/kernel/iommu_groups/7/type", "identity\n");
  root.file("sys/kernel/iommu_groups/8/type", "DMA-FQ\n");
  root.link("sys/devices/" + kGpu + "/iommu_group", "../../../../../../kernel/iommu_groups/7");
  // The bridges between GPU and NIC, of the four, redirect: control 0x1d, as the kernel sets it.
  root.file("sys/devices/" + kBridge + "/config", config(0x0001));
  root.file("sys/devices/" + kUp + "/config", config(0x0000));
  root.file("sys/devices/" + kUp + "/0000:11:00.0/config", config(0x001d));
  root.file("sys/devices/" + kUp + "/0000:11:01.0/config", config(0x0004));
  facts = gpu_direct_facts(root.text());
  CHECK(facts.open_driver);
  CHECK(facts.iommu == "identity");
  CHECK(facts.acs_known);
  CHECK(facts.redirecting == std::vector<std::string>{"0000:11:00.0", "0000:11:01.0"});
  // One that translates shows more than one that does not.
  root.link("sys/devices/" + kNic + "/iommu_group", "../../../../../../kernel/iommu_groups/8");
  facts = gpu_direct_facts(root.text());
  CHECK(facts.iommu == "DMA-FQ");
  const GpuDirectAdvice advice = judge_gpu_direct(facts);
  CHECK(advice.possible);
  CHECK(advice.by == "DMA-BUF");
  CHECK(says(advice, "the IOMMU translates", false));
  CHECK(says(advice, "0000:11:00.0, 0000:11:01.0", false));
  // As without root: 64 bytes.
  root.file("sys/devices/" + kUp + "/config", std::string(64, '\0'));
  CHECK_FALSE(gpu_direct_facts(root.text()).acs_known);
}

TEST_CASE("the way to GPU memory: a list of capabilities that goes round ends") {
  const Root root;
  plug_in(root);
  std::string bytes = config(0);
  bytes[0x102] = char(0x01);
  bytes[0x103] = char(0x10);  // AER leads to itself
  root.file("sys/devices/" + kBridge + "/config", bytes);
  CHECK(gpu_direct_facts(root.text()).redirecting.empty());
}

TEST_CASE("the way to GPU memory: what is possible, by what, and what to do") {
  GpuDirectFacts facts;
  facts.acs_known = true;
  CHECK_FALSE(judge_gpu_direct(facts).applies);
  facts.gpus = facts.rdma_devices = 8;
  facts.driver = "550.54.15";
  facts.kernel = "5.15.0-91-generic";
  // Closed modules and nothing else.
  GpuDirectAdvice advice = judge_gpu_direct(facts);
  CHECK(advice.applies);
  CHECK_FALSE(advice.possible);
  CHECK(says(advice, "no kernel module lets RDMA devices access GPU memory", true));
  CHECK(says(advice, "does not use the open kernel modules", true));
  facts.module = "nvidia_peermem 550.54.15";
  advice = judge_gpu_direct(facts);
  CHECK(advice.possible);
  CHECK(advice.by == facts.module);
  CHECK(advice.reasons.empty());
  facts.open_driver = true;
  CHECK(judge_gpu_direct(facts).by == "DMA-BUF");
  // DMA-BUF wants 5.12: then the module is left.
  for (const char* old : {"5.11.22", "4.18.0-513.el8", "3.10.0", "nonsense", ""}) {
    facts.kernel = old;
    CHECK(judge_gpu_direct(facts).by == facts.module);
  }
  for (const char* enough : {"5.12.0", "5.12", "6.0.1-rc1", "10.1"}) {
    facts.kernel = enough;
    CHECK(judge_gpu_direct(facts).by == "DMA-BUF");
  }
  facts.kernel = "5.4.0";
  facts.module.clear();
  CHECK(says(judge_gpu_direct(facts), "the kernel is 5.4.0", true));
  facts.acs_known = false;
  CHECK(says(judge_gpu_direct(facts), "whether ACS redirects", false));
}

TEST_CASE("NVIDIA's display controllers on PCI, but for those of virtual machines", "[base]") {
  const Root root;
  CHECK(nvidia_pci_devices(root.text()) == 0);
  plug_in(root);
  CHECK(nvidia_pci_devices(root.text()) == 1);
  root.pci("pci0000:00/0000:00:02.0", "0x030000", "0x10de");
  root.pci("pci0000:00/0000:00:02.1", "0x040300", "0x10de");  // its audio
  root.pci("pci0000:00/0000:00:03.0", "0x030000", "0x1002");  // another maker's
  CHECK(nvidia_pci_devices(root.text()) == 2);
  root.link("sys/devices/pci0000:00/0000:00:02.0/driver", "../../../bus/pci/drivers/vfio-pci");
  CHECK(nvidia_pci_devices(root.text()) == 1);
}

}  // namespace host_rdma_tests
