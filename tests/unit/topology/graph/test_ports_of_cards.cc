// Which network devices are ports of their own: by card, GUID and port.
#include <set>

#include "tests/catch.h"
#include "tests/unit/topology/machine.h"
#include "topology/graph/graph.h"
#include "topology/xml/xml.h"

namespace graph_ports_tests {

using namespace collctl::topology;

namespace {

std::string function(const std::string& bus, int dev, int port) {
  return "<pci busid=\"0000:" + bus +
         "\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\" link_speed=\"32.0 GT/s PCIe\" "
         "link_width=\"16\"><nic><net name=\"mlx5_" +
         std::to_string(dev) + "\" dev=\"" + std::to_string(dev) + "\" speed=\"200000\" port=\"" +
         std::to_string(port) + "\" guid=\"0x66a9\" gdr=\"1\"/></nic></pci>\n";
}

size_t ports_of(const std::string& devices) {
  const auto read = read_xml(chip(devices), "f.xml");
  REQUIRE(read.ok());
  const auto graph = make_graph(read->system, "f.xml");
  REQUIRE(graph.ok());
  REQUIRE(graph->nets.size() == 2);
  std::set<int> ports;
  for (const int net : graph->nets) ports.insert(graph->nodes[size_t(net)].port);
  return ports.size();
}

}  // namespace

TEST_CASE("functions of one card are ports of their own, whatever number each says") {
  CHECK(ports_of(function("12:00.0", 0, 1) + function("12:00.1", 1, 1)) == 2);
  CHECK(ports_of(function("12:00.0", 0, 1) + function("12:00.1", 1, 2)) == 2);
}

TEST_CASE("one port that two cards of one GUID share stays one") {
  CHECK(ports_of(function("12:00.0", 0, 1) + function("93:00.0", 1, 1)) == 1);
}

}  // namespace graph_ports_tests
