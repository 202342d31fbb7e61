// Topology files: all load, survive writing, and every mistake has a position.
#include <cstdio>

#include "tests/catch.h"
#include "tests/unit/topology/data_files.h"
#include "topology/xml/xml.h"

namespace xml_xml_tests {

using namespace collctl::topology;

namespace {

std::string mistake(const std::string& text) {
  const auto read = read_xml(text, "f.xml");
  return read.ok() ? "(no mistake)" : read.error().message;
}

// A <system> around a device, so that mistakes stand at line 2.
std::string device(const std::string& inner) {
  return "<system version=\"1\"><cpu numaid=\"0\">\n" + inner + "\n</cpu></system>\n";
}

}  // namespace

TEST_CASE("a PCI address is a number and back") {
  CHECK(parse_bus_id("0000:0f:00.0")->value == 0xF000);
  CHECK(parse_bus_id("0001:00:00.0")->value == 0x100000);
  CHECK(parse_bus_id("fffffff:ff:ff.0") == kInvisibleTarget);
  CHECK(bus_id_text(kInvisibleTarget) == "fffffff:ff:ff.0");
  CHECK(bus_id_text(*parse_bus_id("0000:C1:1e.7")) == "0000:c1:1e.7");
  CHECK(parse_bus_id("0000:18:00.1")->card() == *parse_bus_id("0000:18:00.0"));
  for (const char* bad : {"", "0000", "0000:0f:00", "0000:0f:00.", "0000:0f:00.10", "000g:0f:00.0",
                          "0000:0f0:00.0", "123456789:0f:00.0", "0000:0f:00.0 ", ":0f:00.0"})
    CHECK_FALSE(parse_bus_id(bad).has_value());
}

TEST_CASE("parts that NCCL makes of one GPU are read as that GPU, which is said") {
  const auto read = read_xml(device("<pci busid=\"0002:81:00.0\" class=\"0x030200\">\n"
                                    "<gpu dev=\"0\" sm=\"107\" mlopart=\"0\" rank=\"0\"/>\n"
                                    "<gpu dev=\"0\" sm=\"107\" mlopart=\"1\" rank=\"1\"/></pci>"),
                             "f.xml");
  REQUIRE(read.ok());
  const Pci& pci = read->system.cpus.at(0).children.at(0);
  REQUIRE(pci.gpu);
  CHECK(pci.gpu->rank == 0);
  CHECK(std::ranges::any_of(read->findings, [](const Finding& finding) {
    return finding.what ==
           "<gpu> with mlopart=\"1\" is a part of the one before it: both are read as one GPU";
  }));
}

TEST_CASE("every topology file loads and survives a write and a read") {
  const auto paths = data_files();
  REQUIRE(paths.size() == 78);
  for (const auto& path : paths) {
    INFO(path);
    const auto read = read_xml_file(path);
    REQUIRE(read.ok());
    CHECK_FALSE(read->system.cpus.empty());
    const std::string written = write_xml(read->system);
    const auto again = read_xml(written, "written");
    REQUIRE(again.ok());
    CHECK(again->system == read->system);
    CHECK(write_xml(again->system) == written);
  }
}

TEST_CASE("attributes arrive with their values") {
  const auto read = read_xml_file(data_path("oci-bm-gpu-h100-8-topo.xml"));
  REQUIRE(read.ok());
  const System& system = read->system;
  REQUIRE(system.cpus.size() == 2);
  const Cpu& cpu = system.cpus[0];
  CHECK(cpu.vendor == "GenuineIntel");
  CHECK(cpu.model == 143);
  CHECK(cpu.numa == 0);
  const Pci& outer = cpu.children.at(0);
  CHECK(outer.bus_id.value == 0x8000);
  CHECK(outer.at.line == 4);
  CHECK(outer.link_speed == "5.0 GT/s PCIe");
  CHECK(outer.subsystem_device == 0x0072u);
  const Pci& device = outer.children.at(0).children.at(0);
  REQUIRE(device.gpu.has_value());
  CHECK(device.gpu->sm == 90);
  CHECK(device.gpu->gdr == true);
  REQUIRE(device.gpu->links.size() == 4);
  CHECK(device.gpu->links[0].count == 5);
  CHECK(device.gpu->links[0].target_class == 0x068000u);
  const Net& net = outer.children.at(1).children.at(0).nics.at(0).nets.at(1);
  CHECK(net.name == "mlx5_1");
  CHECK(net.speed_mbps == 180000);
  CHECK(net.guid == 0x9a70500003ae6d94u);
  CHECK(net.port == 2);
}

TEST_CASE("what is not known is kept") {
  const std::string text =
      "<system version=\"1\" made_by=\"a &amp; b\">\n"
      "  <cpu numaid=\"0\">\n"
      "    <pci busid=\"0000:01:00.0\" colour=\"&lt;red&gt; &quot;1&quot;\">\n"
      "      <gpu dev=\"0\" rank=\"0\" clock=\"1&#10;2\"><future "
      "a=\"1\"><b/>x&amp;y</future></gpu>\n"
      "    </pci>\n"
      "  </cpu>\n"
      "</system>\n";
  const auto read = read_xml(text, "f.xml");
  REQUIRE(read.ok());
  const Pci& pci = read->system.cpus.at(0).children.at(0);
  CHECK(read->system.unknown.at(0).value == "a & b");
  CHECK(pci.unknown.at(0).value == "<red> \"1\"");
  CHECK(pci.gpu->unknown.at(0).value == "1\n2");
  REQUIRE(pci.gpu->unknown_elements.size() == 1);
  REQUIRE(read->findings.size() == 1);
  CHECK(read->findings[0].where == "f.xml:4");
  const auto again = read_xml(write_xml(read->system), "g.xml");
  REQUIRE(again.ok());
  CHECK(again->system == read->system);
}

TEST_CASE("what cannot be kept is said") {
  const auto read = read_xml(
      device("<pci busid=\"0000:01:00.0\">text<pcilink target=\"0000:02:00.0\" speed=\"5\"/>"
             "<nic>\n<net name=\"a\"><b/></net></nic></pci>"),
      "f.xml");
  REQUIRE(read.ok());
  REQUIRE(read->findings.size() == 3);
  CHECK(read->findings[0].what == "text inside <pci> is ignored");
  CHECK(read->findings[1].what == "speed of <pcilink> is ignored");
  CHECK(read->findings[2].what == "the content of <net> is ignored");
  CHECK(read->findings[2].where == "f.xml:3");
}

TEST_CASE("every mistake is named with its line and column") {
  CHECK(mistake("") == "f.xml:1:1: no XML element in it: expected <system version=\"1\">");
  CHECK(mistake("<graphs version=\"1\"/>") ==
        "f.xml:1:2: expected <system version=\"1\"> as the root");
  CHECK(mistake("<system version=\"3\"/>") ==
        "f.xml:1:9: version=\"3\" in <system>: expected a whole number 1..2");
  CHECK(mistake("<system>\n<cpu>\n</system>").rfind("f.xml:3:", 0) == 0);
  CHECK(mistake("<system/>\n<system/>") ==
        "f.xml:2:2: a second root <system>: expected one <system>");
  CHECK(mistake(device("<gpu/>")) ==
        "f.xml:2:2: <gpu> inside <cpu>: expected <pci> or <nic> there");
  CHECK(mistake(device("<pci/>")) ==
        "f.xml:2:2: <pci> has no busid: expected a PCI address such as 0000:0f:00.0");
  CHECK(mistake(device("  <pci class=\"0x03\" busid=\"0f:00.0\"/>")) ==
        "f.xml:2:21: busid=\"0f:00.0\" in <pci>: expected a PCI address such as 0000:0f:00.0");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\" link_width=\"-8\"/>")) ==
        "f.xml:2:27: link_width=\"-8\" in <pci>: expected a whole number 0..255");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\" class=\"0xabcdefg\"/>")) ==
        "f.xml:2:27: class=\"0xabcdefg\" in <pci>: expected hexadecimal digits up to 0xffffff");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\" vendor=\"10000\"/>")) ==
        "f.xml:2:27: vendor=\"10000\" in <pci>: expected hexadecimal digits up to 0xffff");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\" busid=\"0000:01:00.0\"/>")) ==
        "f.xml:2:27: busid=\"0000:01:00.0\" in <pci>: expected it only once");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\"><gpu dev=\"0\"/><gpu dev=\"1\"/></pci>")) ==
        "f.xml:2:42: a second <gpu>: expected one per device");
  // MLOPart makes several of one device.
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" mlopart=\"0\"/><gpu dev=\"0\" "
                       "mlopart=\"0\"/></pci>")) ==
        "f.xml:2:54: a second <gpu>: expected one per device");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\"><gpu dev=\"99999999999999999999\"/></pci>")) ==
        "f.xml:2:32: dev=\"99999999999999999999\" in <gpu>: expected a whole number -1..1048576");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\">\n<pci busid=\"0000:01:00.0\"/></pci>")) ==
        "f.xml:3:2: 0000:01:00.0 is nested in itself: expected another busid");
  CHECK(mistake(device("<pci busid=\"0000:01:00.0\"><gpu dev=\"0\">"
                       "<nvlink target=\"0000:02:00.0\" count=\"1000000\"/></gpu></pci>")) ==
        "f.xml:2:70: count=\"1000000\" in <nvlink>: expected a whole number 1..1024");
  CHECK(mistake(device("<nic><net dev=\"0\"/></nic>")) ==
        "f.xml:2:7: <net> has no name: expected the device's name");
  CHECK(mistake(device("<nic><net name=\"a\" latency=\"nan\"/></nic>"))
            .rfind("f.xml:2:20: latency", 0) == 0);
  CHECK(mistake(std::string("<system>\0</system>", 18)) ==
        "f.xml:1:9: a NUL byte: expected text in UTF-8");
}

TEST_CASE("numbers may be decimal or hexadecimal") {
  const auto read = read_xml(
      device("<pci busid=\"0000:01:00.0\" class=\"030200\"><gpu dev=\"0x1\" rank=\"010\"/></pci>"),
      "f");
  REQUIRE(read.ok());
  const Pci& pci = read->system.cpus.at(0).children.at(0);
  CHECK(pci.device_class == 0x030200u);
  CHECK(pci.gpu->dev == 1);
  CHECK(pci.gpu->rank == 10);
}

TEST_CASE("sizes are bounded") {
  std::string deep, wide, tags, attributes = "<system version=\"1\"";
  for (int i = 0; i < 100; ++i)
    deep += "<pci busid=\"0000:" + std::string(i < 16 ? "0" : "") + [&] {
      char t[3];
      std::snprintf(t, 3, "%x", i);
      return std::string(t);
    }() + ":00.0\">";
  CHECK(mistake(device(deep)).find(" nested deeper than 64 elements") == std::string::npos);
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  CHECK(mistake(device(deep)).find(": nested deeper than 64 elements") != std::string::npos);
  for (int i = 0; i < kMaxElements; ++i) wide += "<x/>";
  CHECK(mistake("<system version=\"1\">" + wide + "</system>").find("more than 65536 elements") !=
        std::string::npos);
  for (int i = 0; i < 5; ++i) tags += wide;
  CHECK(mistake("<system>" + tags + "</system>") ==
        "f.xml: too many tags: expected at most 65536 elements");
  CHECK(mistake(std::string(kMaxFileBytes + 1, ' ')) ==
        "f.xml: larger than 16 MiB: expected a topology file");
  for (int i = 0; i < 70; ++i) attributes += " a" + std::to_string(i) + "=\"\"";
  CHECK(mistake(attributes + "/>") == "f.xml:1:2: more than 64 attributes");
  CHECK(mistake("<system x=\"" + std::string(5000, 'y') + "\"/>").find("at most 4096 bytes") !=
        std::string::npos);
}

TEST_CASE("a path that is no file is refused") {
  CHECK(read_xml_file("/").error().message == "/: not a regular file: expected a topology file");
  const auto absent = read_xml_file("/nonexistent/a.xml");
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().code == collctl::ErrorCode::usage);
  CHECK(absent.error().message == "/nonexistent/a.xml: No such file or directory");
}

}  // namespace xml_xml_tests
