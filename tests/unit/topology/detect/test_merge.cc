// A topology file completed by a detected machine: what the file lacks is filled in, what it says
// counts, and contradictions are findings. Expected machines are written by hand.
#include <functional>
#include <map>

#include "tests/unit/topology/data_files.h"
#include "tests/unit/topology/detect/sysfs.h"
#include "topology/detect/merge.h"

namespace detect_merge_tests {

using namespace collctl::topology;

namespace {

System system_of(const std::string& inner) {
  const auto read = read_xml("<system version=\"1\">" + inner + "</system>", "f.xml");
  if (!read.ok()) FAIL(read.error().message);
  return read->system;
}

Merged merged(const std::string& file, const std::string& machine) {
  return merge(system_of(file), system_of(machine), "f.xml");
}

void check_merge(const std::string& file, const std::string& machine, const std::string& expected) {
  const System result = merged(file, machine).system;
  INFO("merged:\n" << write_xml(result));
  CHECK(result == system_of(expected));
}

const std::string kGpu = R"(<gpu dev="0" sm="80" rank="0" gdr="1"/>)";
const std::string kNet =
    R"(<nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic>)";

}  // namespace

TEST_CASE("a skeleton gets its GPUs and NICs, and keeps its switches") {
  // As on Hyper-V: the machine shows every device alone, the file knows the switch.
  check_merge(
      R"(<cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
           <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
             <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
             <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
           </pci></cpu>)",
      R"(<cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
           <pci busid="0001:00:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="" link_width="0">)" +
          kGpu +
          R"(</pci><pci busid="0101:00:00.0" class="0x020700" link_speed="" link_width="0">)" +
          kNet + "</pci></cpu>",
      R"(<cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
           <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
             <pci busid="0001:00:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="16 GT/s" link_width="16">)" +
          kGpu +
          R"(</pci><pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16">)" +
          kNet + "</pci></pci></cpu>");
}

TEST_CASE("attributes that the file lacks are filled in, those it has stay") {
  check_merge(
      R"(<cpu numaid="0"><pci busid="0000:01:00.0" class="0x030200" link_speed="8.0 GT/s PCIe">
           <gpu dev="5" rank="5"/></pci></cpu>)",
      R"(<cpu numaid="0" affinity="f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
           <pci busid="0000:01:00.0" class="0x030000" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="8">
             <gpu dev="0" sm="86" rank="0" gdr="0"><nvlink target="0000:02:00.0" count="4"/></gpu></pci></cpu>)",
      R"(<cpu numaid="0" affinity="f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
           <pci busid="0000:01:00.0" class="0x030200" vendor="0x10de" link_speed="8.0 GT/s PCIe" link_width="8">
             <gpu dev="0" sm="86" rank="0" gdr="0"><nvlink target="0000:02:00.0" count="4"/></gpu></pci></cpu>)");
}

TEST_CASE("a NIC gets the port, the GUID and what else the file lacks") {
  const auto machine = [](const std::string& net) {
    return R"(<cpu numaid="0"><pci busid="0000:01:00.0" class="0x020000" link_speed="16.0 GT/s PCIe"
              link_width="16"><nic><net name="mlx5_0" speed="100000" )" +
           net + "/></nic></pci></cpu>";
  };
  const std::string all = R"(dev="3" port="2" guid="0x7" maxconn="9" gdr="1")";
  check_merge(machine(""), machine(all), machine(all));
}

TEST_CASE("devices that the file lacks come in at their place") {
  const std::string gpu1 =
      R"(<pci busid="0000:04:00.0" class="0x030200"><gpu dev="1" rank="1" sm="80"/></pci>)";
  const std::string gpu0 =
      R"(<pci busid="0000:03:00.0" class="0x030200"><gpu dev="0" rank="0" sm="80"/></pci>)";
  const std::string gpu2 =
      R"(<pci busid="0000:91:00.0" class="0x030200"><gpu dev="2" rank="2" sm="80"/></pci>)";
  const std::string above = R"(<pci busid="0000:01:00.0" class="0x060400">)";
  const std::string far = R"(<pci busid="0000:90:00.0" class="0x060400">)";
  // One below a switch that the file has, one below a switch and a CPU that it has not.
  check_merge("<cpu numaid=\"0\">" + above + gpu0 + "</pci></cpu>",
              "<cpu numaid=\"0\">" + above + gpu0 + gpu1 +
                  "</pci></cpu><cpu numaid=\"1\" affinity=\"f0\">" + far + gpu2 + "</pci></cpu>",
              "<cpu numaid=\"0\">" + above + gpu0 + gpu1 +
                  "</pci></cpu><cpu numaid=\"1\" affinity=\"f0\">" + far + gpu2 + "</pci></cpu>");
  const Merged result = merged("<cpu numaid=\"0\"/>", "<cpu numaid=\"0\">" + gpu0 + "</cpu>");
  CHECK(has_finding(result.findings, "missing in the file; it is added (0000:03:00.0)"));
}

TEST_CASE("an empty file is the machine") {
  const std::string machine =
      "<cpu numaid=\"0\"><pci busid=\"0000:03:00.0\">" + kGpu + "</pci>" + kNet + "</cpu>";
  check_merge("<cpu numaid=\"0\"/>", machine, machine);
}

TEST_CASE("what is only in the file is left out of the job") {
  const Merged result = merged("<cpu numaid=\"0\"><pci busid=\"0000:03:00.0\">" + kGpu +
                                   "</pci><pci busid=\"0000:04:00.0\">" + kNet +
                                   "</pci><nic><net name=\"eth0\" dev=\"1\"/></nic></cpu>",
                               "<cpu numaid=\"0\"><pci busid=\"0000:05:00.0\"><gpu dev=\"0\" "
                               "rank=\"0\" sm=\"80\"/></pci></cpu>");
  CHECK(has_finding(result.findings,
                    "a GPU in the file is not on this machine; it is ignored (0000:03:00.0)"));
  CHECK(has_finding(result.findings,
                    "a NIC in the file is not on this machine; it is ignored (0000:04:00.0)"));
  CHECK(has_finding(result.findings, "it is ignored (eth0 of no PCI device)"));
  const Cpu& cpu = result.system.cpus.at(0);
  REQUIRE(cpu.children.size() == 3);
  CHECK(!cpu.children[0].gpu);
  CHECK(cpu.children[1].nics.empty());
  CHECK(cpu.children[2].gpu->dev == 0);
}

TEST_CASE("contradictions: the file's links count, the machine's GPUs") {
  const Merged result = merged(
      R"(<cpu numaid="0"><pci busid="0000:03:00.0" link_speed="16.0 GT/s PCIe" link_width="16">
           <gpu dev="0" rank="0" sm="80"/></pci>
         <pci busid="0000:04:00.0"><nic><net name="mlx5_0" dev="3" speed="200000"/></nic></pci></cpu>)",
      R"(<cpu numaid="0"><pci busid="0000:03:00.0" link_speed="16.0 GT/s PCIe" link_width="8">
           <gpu dev="0" rank="0" sm="90"/></pci>
         <pci busid="0000:04:00.0"><nic><net name="mlx5_0" dev="0" speed="100000"/><net name="mlx5_1" dev="3"/></nic></pci></cpu>)");
  const auto& children = result.system.cpus.at(0).children;
  CHECK(children[0].link_width == 16);
  CHECK(children[0].gpu->sm == 90);
  const auto& nets = children[1].nics.at(0).nets;
  REQUIRE(nets.size() == 2);
  CHECK(nets[0].speed_mbps == 200000);
  CHECK(nets[0].dev == 3);
  CHECK(nets[1].dev == 0);  // 3 is taken by the file's
  CHECK(has_finding(result.findings,
                    "has 16.0 GT/s PCIe x16 for a link, the machine 16.0 GT/s PCIe x8"));
  CHECK(has_finding(result.findings, "a GPU of sm 80, the machine sm 90"));
  CHECK(has_finding(result.findings, "200000 Mb/s for mlx5_0, the machine 100000"));
}

TEST_CASE("a file of a machine with another CPU is told") {
  const Merged result = merged(R"(<cpu numaid="0" familyid="6" modelid="85"/>)",
                               R"(<cpu numaid="0" familyid="6" modelid="143"/>)");
  CHECK(result.system.cpus.at(0).model == 85);
  CHECK(has_finding(result.findings, "a machine with another CPU (f.xml)"));
}

TEST_CASE("a machine of one node is the file's one CPU, whatever its number") {
  check_merge(
      "<cpu numaid=\"-1\"><pci busid=\"0000:03:00.0\"/></cpu>",
      "<cpu numaid=\"0\" affinity=\"f\"><pci busid=\"0000:03:00.0\">" + kGpu + "</pci></cpu>",
      "<cpu numaid=\"-1\" affinity=\"f\"><pci busid=\"0000:03:00.0\">" + kGpu + "</pci></cpu>");
}

TEST_CASE("merging a machine with itself changes nothing") {
  for (const std::string& path : data_files()) {
    const auto read = read_xml_file(path);
    REQUIRE(read.ok());
    // A device that stands twice, or a net without a PCI device below several CPUs, is one device
    // on a machine: those files are no machine's.
    std::map<BusId, int> devices;
    std::map<std::string, int> nets;
    bool plain = true;
    const std::function<void(const Pci&)> visit = [&](const Pci& pci) {
      plain = plain && ++devices[pci.bus_id] == 1;
      for (const Nic& nic : pci.nics)
        for (const Net& net : nic.nets) plain = plain && ++nets[net.name] == 1;
      for (const Pci& child : pci.children) visit(child);
    };
    for (const Cpu& cpu : read->system.cpus) {
      for (const Pci& pci : cpu.children) visit(pci);
      for (const Nic& nic : cpu.nics)
        for (const Net& net : nic.nets) plain = plain && ++nets[net.name] == 1;
    }
    if (!plain) continue;
    const Merged result = merge(read->system, read->system, path);
    INFO(path);
    CHECK(result.system == read->system);
    for (const Finding& finding : result.findings) {
      INFO(finding.what);
      CHECK(finding.severity == Severity::note);
    }
  }
}

TEST_CASE("a device that the machine has, but does not show where, is where the file has it") {
  const std::string file =
      R"(<cpu numaid="0"><pci busid="0000:07:00.0" class="0x020700">)" + kNet + "</pci></cpu>";
  const Merged known = merged(file, R"(<cpu numaid="0">)" + kNet + "</cpu>");
  CHECK(known.system == system_of(file));
  CHECK(known.findings.empty());
  // Another one is not: the file's is ignored, and the machine's is at no place.
  const std::string other = R"(<nic><net name="mlx5_9" dev="0"/></nic>)";
  const Merged unknown = merged(file, R"(<cpu numaid="0">)" + other + "</cpu>");
  CHECK(unknown.system.cpus.at(0).children.at(0).nics.empty());
  CHECK(unknown.system.cpus.at(0).nics.at(0).nets.at(0).name == "mlx5_9");
  CHECK(unknown.findings.size() == 1);
}

}  // namespace detect_merge_tests
