// Devices that differ from their equals, and switches slower than what is below them.
#include "tests/catch.h"
#include "tests/unit/topology/machine.h"
#include "topology/detect/inspect.h"

namespace detect_inspect_tests {

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

TEST_CASE("a device of unknown width has one lane at least: a slower uplink above it is marked") {
  const std::string device = card("a4", 0, 0, 18);
  const auto below = [&](const std::string& speed) {
    return look(chip("<pci busid=\"0000:a1:00.0\" class=\"0x060400\" link_speed=\"" + speed +
                     "\" link_width=\"1\">" + device + "</pci>\n"));
  };
  const auto odd = below("2.5 GT/s PCIe");
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].device == *parse_bus_id("0000:a1:00.0"));
  CHECK(odd[0].mark == "slower than the 3 GB/s below");
  CHECK(below("32.0 GT/s PCIe").empty());
}

TEST_CASE("a switch with an uplink slower than a device below it is marked") {
  const auto odd = look(data_text(data_path("oci-bm-gpu-h100-8-topo.xml")));
  REQUIRE(odd.size() == 8);  // the outer switches report 5.0 GT/s
  CHECK(odd[0].device == *parse_bus_id("0000:08:00.0"));
  CHECK(odd[0].mark == "slower than the 48 GB/s below");
  CHECK(look(data_text(data_path("oci-bm-gpu-h100-8-topo-k8s.xml"))).empty());
}

namespace {

// One card; `attributes` go into its <pci>, `inner` below it.
std::string one(const std::string& bus, const std::string& attributes, const std::string& inner) {
  return "<pci busid=\"0000:" + bus +
         ":00.0\" class=\"0x020000\" vendor=\"0x15b3\" device=\"0x1021\" link_speed=\"32.0 GT/s "
         "PCIe\" link_width=\"16\" " +
         attributes + ">" + inner + "</pci>\n";
}
std::string port(const std::string& name, int mbps) {
  return "<nic><net name=\"" + name + "\" dev=\"" + name.substr(name.size() - 1) + "\" speed=\"" +
         std::to_string(mbps) + "\"/></nic>";
}

std::vector<std::string> marks(const std::string& text) {
  std::vector<std::string> list;
  for (const Oddity& oddity : look(text)) {
    CHECK(oddity.finding.severity == Severity::warning);
    CHECK_FALSE(oddity.finding.remedy.empty());
    list.push_back(oddity.mark);
  }
  return list;
}
using Marks = std::vector<std::string>;

}  // namespace

TEST_CASE("a link below what both its ends can do is marked") {
  CHECK(marks(chip(one("01", "link_width_now=\"16\" link_speed_now=\"32.0 GT/s PCIe\"",
                       port("n0", 1)))) == Marks{});
  CHECK(marks(chip(one("01", "link_width_now=\"4\"", port("n0", 1)))) == Marks{"x4 of x16"});
  CHECK(marks(chip(one("01", "link_width_able=\"32\"", port("n0", 1)))) ==
        Marks{"x16 slot for an x32 card"});
  CHECK(marks(chip(one("01", "link_speed_now=\"16.0 GT/s PCIe\"", port("n0", 1)))) ==
        Marks{"gen4 of gen5"});
  // 0 and 255 lanes, and words that no kernel uses, mean nothing.
  CHECK(marks(chip(one("01", "link_width_now=\"0\" link_speed_now=\"Unknown\"", port("n0", 1)))) ==
        Marks{});
  CHECK(marks(chip(one("01", "link_width_able=\"255\"", port("n0", 1)))) == Marks{});
}

TEST_CASE("an idle GPU's link speed is no fault, and known to who asks") {
  std::string text = card("01", 16, 0, 18);
  text.replace(text.find(" link_width"), 0, " link_speed_now=\"2.5 GT/s PCIe\"");
  CHECK(marks(chip(text)) == Marks{});
  const auto read = read_xml(chip("\n" + text), "f.xml");
  REQUIRE(read.ok());
  const auto idle = idle_links(read->system, "f.xml");
  REQUIRE(idle.size() == 1);
  CHECK(idle[0].severity == Severity::note);
  CHECK(idle[0].what == "the GPU 0000:01:00.0 runs its PCI link at gen1 of gen5 now");
  CHECK(idle[0].where == "f.xml:2");
}

TEST_CASE(
    "NVLinks that the device has and that are not up are marked, all of them missing is not") {
  const auto with_able = [](int links, const char* able) {
    std::string text = card("01", 16, 0, links);
    return text.replace(text.find("<gpu ") + 5, 0, std::string("nvlinks_able=\"") + able + "\" ");
  };
  CHECK(marks(chip(with_able(16, "18"))) == Marks{"16 of 18 NVLinks"});
  CHECK(marks(chip(with_able(18, "18"))) == Marks{});
  // The device reports it itself: its equals are not asked as well.
  CHECK(marks(chip(with_able(16, "18") + card("02", 16, 1, 18) + card("03", 16, 2, 18))) ==
        Marks{"16 of 18 NVLinks"});
  const std::string bridgeless =
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" "
      "sm=\"80\" rank=\"0\" nvlinks_able=\"12\"/></pci>";
  CHECK(marks(chip(bridgeless)) == Marks{});
}

TEST_CASE("ports without a link, and ports slower than their equals") {
  CHECK(marks(chip(one("01", "", "<nic ports_down=\"mlx5_1:1\"/>"))) == Marks{"down: mlx5_1:1"});
  const auto odd = look(chip(one("01", "", port("n0", 400000)) + one("02", "", port("n1", 100000)) +
                             one("03", "", port("n2", 400000))));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].net == "n1");
  CHECK(odd[0].mark == "others 400 Gb/s");
  CHECK(odd[0].finding.what == "n1 runs at 100 Gb/s, others of its kind at 400 Gb/s");
  // With two nobody knows which is right.
  CHECK(marks(chip(one("01", "", port("n0", 400000)) + one("02", "", port("n1", 100000)))) ==
        Marks{});
}

TEST_CASE("processors have names where family and model are known") {
  const auto name = [](const char* attributes) {
    const auto read =
        read_xml(std::string("<system version=\"1\"><cpu ") + attributes + "/></system>", "f");
    REQUIRE(read.ok());
    return processor_name(read->system.cpus[0]);
  };
  CHECK(name("arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"") ==
        "Intel Sapphire Rapids");
  // Family 23 (17h), model 49 (31h), as the kernel says it and as NCCL writes it (15 + 8 *
  // 16).
  CHECK(name("arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"23\" modelid=\"49\"") ==
        "AMD EPYC Rome");
  CHECK(name("arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"143\" modelid=\"49\"") ==
        "AMD EPYC Rome");
  CHECK(name("arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"1\"") ==
        "Intel family 6 model 1");
  CHECK(name("arch=\"arm64\"") == "ARM");
  CHECK(name("") == "");
}

}  // namespace detect_inspect_tests
