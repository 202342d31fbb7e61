// Devices that differ from their equals, and switches slower than what is below them.
#include "tests/catch.h"
#include "tests/unit/topology/machine.h"
#include "topology/inspect.h"

using namespace collctl::topology;

namespace {

std::string card(const std::string& bus, int width, int dev, int links) {
  return "<pci busid=\"0000:" + bus +
         ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s "
         "PCIe\" link_width=\"" +
         std::to_string(width) + "\">" +
         gpu(dev,
             "<nvlink target=\"0000:f0:00.0\" count=\"" + std::to_string(links) +
                 "\" tclass=\"0x068000\"/>",
             90) +
         "</pci>\n";
}

std::vector<Oddity> look(const std::string& text) {
  const auto read = read_xml(text, "f.xml");
  REQUIRE(read.ok());
  return inspect(read->system, "f.xml");
}

}  // namespace

TEST_CASE("a GPU at x8 and one with 16 NVLinks stand out") {
  const auto odd = look(chip("\n" + card("01", 16, 0, 18) + card("02", 8, 1, 18) +
                             card("03", 16, 2, 16) + card("04", 16, 3, 18)));
  REQUIRE(odd.size() == 2);
  CHECK(odd[0].device == *parse_bus_id("0000:02:00.0"));
  CHECK(odd[0].mark == "others 48 GB/s");
  CHECK(odd[0].finding.what ==
        "the GPU 0000:02:00.0 has a PCI link of 24 GB/s (gen5 x8), others of its kind 48 GB/s");
  CHECK(odd[0].finding.where == "f.xml:3");
  CHECK(odd[1].finding.what == "the GPU 0000:03:00.0 has 16 NVLinks, others of its kind 18");
}

TEST_CASE("equal devices, two that differ, and halves are nobody's fault") {
  CHECK(look(chip(card("01", 16, 0, 18) + card("02", 16, 1, 18) + card("03", 16, 2, 18))).empty());
  CHECK(look(chip(card("01", 16, 0, 18) + card("02", 8, 1, 18))).empty());
  CHECK(look(chip(card("01", 16, 0, 18) + card("02", 8, 1, 18) + card("03", 16, 2, 18) +
                  card("04", 8, 3, 18)))
            .empty());
}

TEST_CASE("a switch with an uplink slower than a device below it is marked") {
  const auto odd = look(data_text(data_path("oci-bm-gpu-h100-8-topo.xml")));
  REQUIRE(odd.size() == 8);  // the outer switches say 5.0 GT/s
  CHECK(odd[0].device == *parse_bus_id("0000:08:00.0"));
  CHECK(odd[0].mark == "slower than the 48 GB/s below");
  CHECK(look(data_text(data_path("oci-bm-gpu-h100-8-topo-k8s.xml"))).empty());
}
