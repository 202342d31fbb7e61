// RDMA devices in the report of a machine: text and JSON, by hand.
#include <nlohmann/json.hpp>

#include "base/json_writer.h"
#include "cmd/topo/hosts.h"
#include "cmd/topo/topo.h"
#include "launcher/remote/probe.h"
#include "tests/catch.h"
#include "topology/xml/xml.h"

namespace topo_rdma_tests {

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;

namespace {

// A GPU and the NIC below one switch, another GPU on the CPU.
TopoView machine() {
  const std::string text =
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
      "familyid=\"6\" modelid=\"143\"><pci busid=\"0000:10:00.0\" class=\"0x060400\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><pci busid=\"0000:11:00.0\" "
      "class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" "
      "rank=\"0\" "
      "sm=\"90\" gdr=\"1\"/></pci><pci busid=\"0000:12:00.0\" class=\"0x020000\" link_speed=\"32.0 "
      "GT/s PCIe\" link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" "
      "port=\"1\" "
      "guid=\"0x1\" gdr=\"1\"/></nic></pci></pci><pci busid=\"0000:21:00.0\" class=\"0x030200\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"1\" rank=\"1\" sm=\"90\" "
      "gdr=\"1\"/></pci></cpu></system>";
  auto read = topology::read_xml(text, "f.xml");
  REQUIRE(read.ok());
  auto view = view_of(std::move(read->system), "node01", {});
  REQUIRE(view.ok());
  view->rdma = {{"mlx5_0",
                 "0000:12:00.0",
                 0,
                 "28.39.1002",
                 "MT_0000000838",
                 {"eth2"},
                 {{1,
                   "ACTIVE",
                   "LinkUp",
                   "400 Gb/sec (4X NDR)",
                   "Ethernet",
                   {{0, "RoCE v1", "fe80::1", "eth2"},
                    {1, "RoCE v2", "fe80::1", "eth2"},
                    {3, "RoCE v2", "::ffff:10.0.0.7", "eth2"}}}}}};
  view->gpu_direct = base::GpuDirectFacts{.gpus = 2,
                                          .rdma_devices = 1,
                                          .kernel = "5.4.0",
                                          .driver = "550.54",
                                          .open_driver = true,
                                          .module = "",
                                          .iommu = "",
                                          .redirecting = {},
                                          .acs_known = true};
  return std::move(*view);
}

}  // namespace

TEST_CASE("topo shows RDMA devices, and why GPU memory is out of their reach", "[topo]") {
  TopoView view = machine();
  const std::string text = topo_rdma(view, false);
  // The GPU below the same switch is the nearest; of the GIDs that of RoCE v2 with IPv4 comes
  // first.
  CHECK(text.find(
            "RDMA mlx5_0  0000:12:00.0  NUMA 0  firmware 28.39.1002  next to GPU 0 (PIX)\n"
            "  port 1  ACTIVE  Ethernet  400 Gb/sec (4X NDR)\n"
            "    GID 3  RoCE v2  ::ffff:10.0.0.7  eth2\n"
            "    GID 1  RoCE v2  fe80::1  eth2\n"
            "    and 1 more GIDs (-v)\n"
            "GPUDirect RDMA: not possible\n"
            "  ! no kernel module lets RDMA devices access GPU memory; modprobe nvidia_peermem") ==
        0);
  CHECK(text.find("  ! no DMA-BUF for GPU memory: the kernel is 5.4.0, 5.12 or newer is required; "
                  "use a newer "
                  "kernel\n") != std::string::npos);
  const std::string more = topo_rdma(view, true);
  CHECK(more.find("    GID 0  RoCE v1  fe80::1  eth2\n") != std::string::npos);
  CHECK(more.find("(MT_0000000838)") != std::string::npos);
  view.gpu_direct->kernel = "6.1.0";
  CHECK(topo_rdma(view, false).find("GPUDirect RDMA: possible, by DMA-BUF\n") != std::string::npos);
  // Names are another's: nothing that a terminal obeys.
  view.rdma[0].firmware = "1\x1b[2J";
  CHECK(topo_rdma(view, false).find('\x1b') == std::string::npos);
  view.rdma.clear();
  CHECK(topo_rdma(view, false).empty());
}

TEST_CASE("topo --json has RDMA devices and the way to GPU memory, of this machine only",
          "[topo]") {
  TopoView view = machine();
  const json all = json::parse(topo_json(view, {}));
  const json& device = all["rdma"][0];
  CHECK(device["name"] == "mlx5_0");
  CHECK(device["firmware"] == "28.39.1002");
  CHECK(device["near_gpus"] == json::array({{{"dev", 0}, {"type", "PIX"}}}));
  CHECK(device["ports"][0]["link_layer"] == "Ethernet");
  CHECK(device["ports"][0]["gids"][2]["index"] == 3);
  CHECK(device["ports"][0]["gids"][2]["address"] == "::ffff:10.0.0.7");
  CHECK(all["gdr"]["possible"] == false);
  CHECK(all["gdr"]["reasons"].size() == 2);
  CHECK(all["gdr"]["reasons"][0]["prevents"] == true);
  CHECK(all["gdr"]["acs_redirects"] == json::array());
  view.gpu_direct->acs_known = false;
  CHECK(json::parse(topo_json(view, {}))["gdr"]["acs_redirects"].is_null());
  view.gpu_direct.reset();
  CHECK_FALSE(json::parse(topo_json(view, {})).contains("gdr"));
}

TEST_CASE("topo -H shows the ports of all hosts with the GIDs that connections take", "[topo]") {
  const TopoView here = machine();
  const json answer = {
      {"schema", "collctl.topo-answer/1"},
      {"xml", topology::write_xml(here.system)},
      {"findings", json::array()},
      {"rdma", json::parse(json_of(launcher::RdmaFacts{here.rdma, *here.gpu_direct}))},
      {"memlock_bytes", 65536}};
  std::vector<HostTopology> hosts;
  for (const char* name : {"node01", "node02"}) {
    auto view = view_of_answer(answer.dump(), name);
    REQUIRE(view.ok());
    CHECK(view->rdma == here.rdma);
    CHECK(*view->gpu_direct == *here.gpu_direct);
    CHECK(view->memlock_bytes == 65536);
    hosts.push_back({base::saved_host(name), {}, std::move(*view), {}});
  }
  hosts[1].view->rdma[0].ports[0].state = "DOWN";
  const auto groups = group_hosts(hosts);
  const std::string text = hosts_text(hosts, groups, {});
  INFO(text);
  CHECK(text.find("RDMA ports:\n"
                  "  node01  mlx5_0:1  ACTIVE  Ethernet  400 Gb/sec (4X NDR)  GID 3 "
                  "::ffff:10.0.0.7 (RoCE v2)\n"
                  "  node02  mlx5_0:1  DOWN  Ethernet  400 Gb/sec (4X NDR)  GID 3 "
                  "::ffff:10.0.0.7 (RoCE v2)\n") != std::string::npos);
  CHECK(hosts_text(hosts, groups, {.unfold = true}).find("GID 0 fe80::1 (RoCE v1)") !=
        std::string::npos);
  const json all = json::parse(hosts_json(hosts, groups));
  CHECK(all["hosts"][1]["topo"]["rdma"][0]["ports"][0]["gids"].size() == 3);
  CHECK(all["hosts"][1]["topo"]["gdr"]["memlock_bytes"] == 65536);
  // A host without such devices, and one that says nonsense of them.
  json other = answer;
  other.erase("rdma");
  CHECK(view_of_answer(other.dump(), "node03")->rdma.empty());
  other["rdma"] = {{"rdma_devices", "many"}, {"gpu_direct", 1}};
  const auto refused = view_of_answer(other.dump(), "node03");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::launch);
}

}  // namespace topo_rdma_tests
