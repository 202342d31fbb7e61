// `collctl topo` by the real binary: tree, matrix, JSON, XML, findings and mistakes.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run_binary.h"

using nlohmann::json;

namespace {

const char* const kPair = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:21:00.0" count="18" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:21:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:11:00.0" count="18" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

std::string write(const TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder / "node.xml";
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("topo prints the machine as a tree, and the matrix on demand") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const Ran tree = run_collctl("topo --from " + path);
  CHECK(tree.code == 0);
  CHECK(tree.err.empty());
  const std::string expected =
      path +
      ": 2 NUMA nodes, 2 GPUs (H100), 1 network device\n"
      "|- CPU 0  Intel Sapphire Rapids, 22 GB/s to other CPUs\n"
      "|  `- switch  10:00.0  gen5 x16 48 GB/s\n"
      "|     |- GPU 0 H100  11:00.0  gen5 x16 48 GB/s  rank 0  18 NVLinks to GPU 1\n"
      "|     `- NET 0 mlx5_0  400 Gb/s GDR  NIC  12:00.0  gen5 x16 48 GB/s\n"
      "`- CPU 1  Intel Sapphire Rapids, 22 GB/s to other CPUs\n"
      "   `- GPU 1 H100  21:00.0  gen5 x16 48 GB/s  rank 1  18 NVLinks to GPU 0\n";
  CHECK(tree.out == expected);
  const Ran matrix = run_collctl("topo --matrix --from " + path);
  // 18 x 20.6; GPU 1 sends through GPU 0, which is below one switch with the NIC.
  CHECK(matrix.out == expected +
                          "\n"
                          "GB/s   GPU/0    GPU/1    NET/0\n"
                          "GPU/0  -        NVL 371  PIX 48\n"
                          "GPU/1  NVL 371  -        PXN 48\n"
                          "\n"
                          "NVL  NVLink or xGMI, also through NVSwitches\n"
                          "PIX  at most one PCI switch\n"
                          "PXN  NVLink to the GPU next to the NIC, then PCI\n");
}

TEST_CASE("topo --json says everything, with reasons") {
  const TemporaryFolder folder;
  const Ran ran = run_collctl("topo --json --from " + write(folder, kPair));
  REQUIRE(ran.code == 0);
  const json all = json::parse(ran.out);
  CHECK(all["schema"] == "collctl.topo/1");
  CHECK(all["source"] == "file");
  CHECK(all["cpus"].size() == 2);
  CHECK(all["gpus"][1]["busid"] == "0000:21:00.0");
  CHECK(all["gpus"][1]["numa"] == 1);
  CHECK(all["gpus"][0]["nvlinks"] == 18);
  CHECK(all["nics"][0]["rate_Gbps"] == 400);
  CHECK(all["nics"][0]["busid"] == "0000:12:00.0");
  CHECK(all["findings"].empty());
  const auto path = [&](const char* from, const char* to) {
    for (const json& one : all["paths"])
      if (one["from"] == from && one["to"] == to) return one;
    return json();
  };
  CHECK(path("GPU/0", "GPU/1")["type"] == "NVL");
  CHECK(path("GPU/0", "GPU/1")["hops"] == 1);
  CHECK(path("GPU/0", "GPU/1")["p2p"] == true);
  CHECK(path("GPU/1", "NET/0")["relay"] == "GPU/0");
  CHECK(path("GPU/1", "NET/0")["gdr"] == true);
  CHECK(path("NET/0", "GPU/1")["gdr"] == false);
  CHECK(path("GPU/1", "NET/0")["bw_GBps"] == 48);
  CHECK(path("NET/0", "GPU/1")["type"] == "SYS");
  CHECK(path("NET/0", "GPU/1")["limited_by"] == "CPU/0 -> CPU/1 (SYS, 22 GB/s)");
  CHECK(path("GPU/0", "CPU/0")["type"] == "PHB");
}

TEST_CASE("topo --xml writes a file that reads the same") {
  const TemporaryFolder folder;
  const std::string from = write(folder, kPair), to = folder / "out.xml", again = folder / "b.xml";
  const Ran ran = run_collctl("topo --from " + from + " --xml " + to);
  CHECK(ran.code == 0);
  CHECK(ran.out.empty());
  CHECK(run_collctl("topo --from " + to + " --xml " + again).code == 0);
  CHECK(file_content(to) == file_content(again));
  CHECK(file_content(to) == kPair);  // the input is written as the field writes
  CHECK(run_collctl("topo --from " + from + " --xml " + folder.path() + "/no/x.xml").code == 3);
}

TEST_CASE("topo says on standard error what is odd and what was assumed") {
  const TemporaryFolder folder;
  std::string text = kPair;
  text.replace(text.find("32.0 GT/s PCIe"), 14, "8.0 GT/s PCIe");
  text.replace(text.find(" speed=\"400000\""), 15, "");
  const Ran ran = run_collctl("topo --from " + write(folder, text));
  CHECK(ran.code == 0);
  CHECK(ran.out.find("switch  10:00.0  gen3 x16 12 GB/s  ! slower than the 48 GB/s below\n") !=
        std::string::npos);
  CHECK(ran.err.find("collctl: note: a network device has no speed; 10 Gb/s is assumed (") !=
        std::string::npos);
  CHECK(ran.err.find("collctl: warning: a switch has an uplink of 12 GB/s (gen3 x16), slower "
                     "than the 48 GB/s of a device below it (") != std::string::npos);
  CHECK(run_collctl("topo --quiet --from " + write(folder, text)).err.empty());
}

TEST_CASE("topo refuses what is no topology with the position") {
  const TemporaryFolder folder;
  const std::string path = write(folder, "<system version=\"1\">\n  <cpu>\n    <gpu/>\n");
  const Ran bad = run_collctl("topo --json --from " + path);
  CHECK(bad.code == 2);
  CHECK(json::parse(bad.out)["schema"] == "collctl.error/1");
  CHECK(bad.err == "collctl: error: " + path + ":3:11: no XML: Start-end tags mismatch\n");
  CHECK(run_collctl("topo --from " + path + ".absent").code == 2);
  CHECK(run_collctl("topo --from /dev/zero").code == 2);
}
