// Skeleton files with assumed GPUs and NICs. The expected values come from the data sheets: A100 12
// NVLinks (20 GB/s each in the model: 240), H100 18 (20.6: 370.8), and from the files' own lists.
#include <map>

#include "tests/unit/topology/machine.h"
#include "topology/detect/assume.h"

namespace detect_assume_tests {

using namespace collctl::topology;

namespace {

Assumed assumed(const std::string& text, const std::string& model,
                std::optional<double> nic = std::nullopt) {
  const auto read = read_xml(text, "f.xml");
  if (!read.ok()) FAIL(read.error().message);
  auto made = assume(read->system, model, nic, "f.xml");
  if (!made.ok()) FAIL(made.error().message);
  return std::move(*made);
}

Machine machine_of(const System& system) {
  auto graph = make_graph(system, "f.xml");
  if (!graph.ok()) FAIL(graph.error().message);
  Machine machine{std::move(*graph), {}};
  machine.paths = base_paths(machine.graph);
  return machine;
}

Machine assumed_file(const std::string& name, const std::string& model) {
  return machine_of(assumed(data_text(data_path(name)), model).system);
}

std::string pci(const std::string& bus, const std::string& device_class,
                const std::string& inner = "") {
  return "<pci busid=\"0000:" + bus + ":00.0\"" +
         (device_class.empty() ? "" : " class=\"" + device_class + "\"") +
         " link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + inner + "</pci>";
}

bool found(const std::vector<Finding>& findings, const std::string& part) {
  for (const Finding& finding : findings)
    if (finding.what.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("ND A100 v4: 8 GPUs and 8 NICs of 200 Gb/s, two pairs below each switch") {
  const Machine m = assumed_file("azure-ndv4-topo.xml", "a100");
  REQUIRE(m.graph.gpus.size() == 8);
  REQUIRE(m.graph.nets.size() == 8);
  for (int dev = 0; dev < 8; ++dev) {
    CHECK(m.graph.nodes[size_t(m.gpu(dev))].rank == dev);
    CHECK(m.graph.nodes[size_t(m.gpu(dev))].sm == 80);
    CHECK(m.graph.nodes[size_t(m.net(dev))].net_gbps == Approx(25));
    for (int other = 0; other < 8; ++other) {
      if (other == dev) continue;
      m.check_gpus(dev, other, PathType::nvl, 240, 2);
    }
    // GPUs and NICs 2k and 2k+1 hang below one switch, gen4 x16: 24 GB/s. GPU, switch, NIC, NET.
    for (int net = 0; net < 8; ++net)
      if (net / 2 == dev / 2) m.check_net(dev, net, PathType::pix, 24, 3);
  }
  // In the file's order: the first GPU is 0003:00:00.0.
  CHECK(m.graph.nodes[size_t(m.gpu(0))].id == parse_bus_id("0003:00:00.0")->value);
}

TEST_CASE("ND H100 v5: one GPU and one NIC of 400 Gb/s below each of eight switches") {
  const Machine m = assumed_file("azure-ndv5-topo.xml", "h100");
  REQUIRE(m.graph.gpus.size() == 8);
  REQUIRE(m.graph.nets.size() == 8);
  for (int dev = 0; dev < 8; ++dev) {
    m.check_gpus(dev, (dev + 1) % 8, PathType::nvl, 370.8, 2);
    m.check_net(dev, dev, PathType::pix, 48, 3);
    CHECK(m.graph.nodes[size_t(m.gpu(dev))].gdr);
    CHECK(m.graph.nodes[size_t(m.net(dev))].gdr);
  }
}

TEST_CASE("p5: eight switches and no GPU in the file") {
  const Machine m = assumed_file("aws-p5.48xl-topo.xml", "h100");
  REQUIRE(m.graph.gpus.size() == 8);
  REQUIRE(m.graph.nets.size() == 32);
  // 400 Gb/s for each GPU are four NICs of 100.
  for (int net = 0; net < 32; ++net) {
    CHECK(m.graph.nodes[size_t(m.net(net))].net_gbps == Approx(12.5));
    CHECK(m.paths.at(m.gpu(net / 4), m.net(net)).type == PathType::pix);
  }
  CHECK(m.paths.at(m.gpu(0), m.net(4)).type == PathType::phb);
}

TEST_CASE("p5 with its GPUs listed: they keep what they say and get NVLinks") {
  const std::string text = data_text(data_path("aws-p5.48xl-topo-595fix.xml"));
  const Assumed made = assumed(text, "h100");
  const Machine m = machine_of(made.system);
  REQUIRE(m.graph.gpus.size() == 8);
  m.check_gpus(0, 7, PathType::nvl, 370.8, 2);
  CHECK(found(made.findings, "18 NVLinks to NVSwitches are assumed"));
  CHECK(!found(made.findings, "is assumed to be"));
  // Another generation than the file's: it stays as it is.
  const Assumed other = assumed(text, "a100");
  CHECK(other.system == read_xml(text, "f.xml")->system);
  CHECK(found(other.findings, "a GPU is of sm 90, not A100 (sm 80): left as it is"));
}

TEST_CASE("p4d: EFA devices have the 100 Gb/s of their PCI ids") {
  const Machine m = assumed_file("aws-p4d-24xl-topo.xml", "a100");
  REQUIRE(m.graph.gpus.size() == 8);
  REQUIRE(m.graph.nets.size() == 4);
  for (int net = 0; net < 4; ++net)
    CHECK(m.graph.nodes[size_t(m.net(net))].net_gbps == Approx(12.5));
}

TEST_CASE("ND v2: NVLinks directly to others cannot be assumed") {
  const Assumed made = assumed(data_text(data_path("azure-ndv2-topo.xml")), "v100");
  const Machine m = machine_of(made.system);
  CHECK(m.graph.gpus.size() == 8);
  CHECK(m.graph.nodes[size_t(m.gpu(0))].fabric_links == 0);
  CHECK(found(made.findings, "V100 has 6 NVLinks directly to other GPUs"));
}

TEST_CASE("assumed things are marked, listed ones are not touched") {
  const Assumed made =
      assumed("<system version=\"1\"><cpu numaid=\"0\">" +
                  pci("01", "0x030200", "<gpu dev=\"0\" rank=\"1\" sm=\"80\" gdr=\"0\"/>") +
                  pci("02", "0x030200") + pci("03", "0x030200", "<gpu dev=\"1\" rank=\"0\"/>") +
                  pci("04", "0x020000", "<nic><net name=\"a\" dev=\"0\"/></nic>") +
                  pci("05", "0x020000") + pci("06", "0x010802") + pci("07", "") + "</cpu></system>",
              "a100-pcie", 50.0);
  const auto& children = made.system.cpus.at(0).children;
  CHECK(children[0].gpu->gdr == false);
  CHECK(!children[0].gpu->assumed);
  CHECK(children[1].gpu->assumed == true);
  CHECK(children[1].gpu->dev == 2);  // 0 and 1 are taken
  CHECK(children[1].gpu->rank == 2);
  CHECK(children[1].gpu->links.empty());
  CHECK(children[2].gpu->sm == 80);
  CHECK(children[3].nics.at(0).nets.at(0).name == "a");
  CHECK(!children[3].nics[0].nets[0].speed_mbps);
  const Net& net = children[4].nics.at(0).nets.at(0);
  CHECK(net.dev == 1);
  CHECK(net.speed_mbps == 50000);
  CHECK(net.unknown == Unknowns{{"assumed", "1"}});
  CHECK(children[5].nics.empty());  // a disk
  CHECK(children[6].nics.empty());  // no class: nobody knows
  // The marks survive the file.
  CHECK(read_xml(write_xml(made.system), "x")->system == made.system);
}

TEST_CASE("where nothing can be assumed: an error that says why") {
  const auto message = [](const std::string& text, const std::string& model) {
    const auto made = assume(read_xml(text, "f.xml")->system, model, std::nullopt, "f.xml");
    REQUIRE(!made.ok());
    CHECK(made.error().code == collctl::ErrorCode::usage);
    return made.error().message;
  };
  const std::string flat = data_text(data_path("aws-g5.48xl-topo.xml"));
  CHECK(message(flat, "a10g") ==
        "f.xml: no device of class GPU, and 0 switches: no place for a10g");
  const std::string skeleton = data_text(data_path("aws-p5.48xl-topo.xml"));
  CHECK(message(skeleton, "l40s").find("8 switches: no place for l40s") != std::string::npos);
  CHECK(message(skeleton, "h101").find("expected one of v100, a100, ") != std::string::npos);
}

TEST_CASE("every model of the table is itself") {
  std::map<std::string, int> names;
  for (const AssumedModel& model : assumed_models()) {
    INFO(model.name);
    CHECK(++names[model.name] == 1);
    const Assumed made =
        assumed("<system version=\"1\"><cpu numaid=\"0\">" + pci("01", "0x030200") +
                    pci("02", "0x030200") + "</cpu></system>",
                model.name);
    const Machine m = machine_of(made.system);
    REQUIRE(m.graph.gpus.size() == 2);
    CHECK(m.graph.nodes[size_t(m.gpu(0))].sm == model.sm);
    const bool switched = m.paths.at(m.gpu(0), m.gpu(1)).type == PathType::nvl;
    CHECK(switched == model.nvswitch);
  }
}

}  // namespace detect_assume_tests
