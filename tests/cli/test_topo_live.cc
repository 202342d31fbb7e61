// `collctl topo` on this machine, with drivers of our own in place of NVIDIA's and libibverbs: what
// they say must come out. And snapshots, TOPO_FILE and --assume by the real binary.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run_binary.h"
#include "tests/places.h"

namespace topo_live_tests {

using nlohmann::json;

namespace {

const std::string kFakes = "LD_LIBRARY_PATH=" + collctl::test::fake_drivers() + " ";

bool has_finding(const json& topo, const std::string& part) {
  for (const json& finding : topo["findings"])
    if (finding["what"].get<std::string>().find(part) != std::string::npos) return true;
  return false;
}

json live(const std::string& variables) {
  const Ran ran = run_collctl("topo --json", kFakes + variables);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  return json::parse(ran.out);
}

json path(const json& topo, const std::string& from, const std::string& to) {
  for (const json& one : topo["paths"])
    if (one["from"] == from && one["to"] == to) return one;
  FAIL("no path " << from << " to " << to);
  return {};
}

}  // namespace

TEST_CASE("topo shows this machine, whatever it is") {
  const Ran ran = run_collctl("topo");
  CHECK(ran.code == 0);
  CHECK(ran.out.find("NUMA node") != std::string::npos);
  const Ran as_json = run_collctl("topo --json");
  const json all = json::parse(as_json.out);
  CHECK(all["schema"] == "collctl.topo/1");
  CHECK(all["source"] == "live");
  CHECK(!all["cpus"].empty());
}

TEST_CASE("eight GPUs of NVML on NVSwitches; a link that is down; DMA-BUF by CUDA") {
  const json all = live("FAKE_NVML=8:90:18:switch FAKE_CUDA=8");
  REQUIRE(all["gpus"].size() == 8);
  CHECK(all["gpus"][3]["busid"] == "0000:13:00.0");
  CHECK(all["gpus"][3]["sm"] == 90);
  CHECK(all["gpus"][3]["gdr"] == true);
  CHECK(all["gpus"][0]["nvlinks"] == 18);
  CHECK(all["gpus"][1]["nvlinks"] == 17);
  CHECK(path(all, "GPU/2", "GPU/5")["type"] == "NVL");
  CHECK(path(all, "GPU/2", "GPU/5")["bw_GBps"] == 370.8);  // 18 x 20.6
  CHECK(path(all, "GPU/1", "GPU/5")["bw_GBps"] == 350.2);  // 17 x 20.6
  CHECK(has_finding(all, "does not let some GPUs access each other's memory"));
}

TEST_CASE("older GPUs: at most 12 links, asked by their state; direct to each other") {
  const json all = live("FAKE_NVML=2:86:30:pair FAKE_CUDA=2");
  REQUIRE(all["gpus"].size() == 2);
  CHECK(all["gpus"][0]["nvlinks"] == 12);
  CHECK(path(all, "GPU/0", "GPU/1")["bw_GBps"] == 144);  // 12 x 12
}

TEST_CASE("NVLinks whose end a virtual machine does not show lead to an NVSwitch; C2C") {
  const TemporaryFolder folder;
  const std::string file = folder / "node.xml";
  CHECK(run_collctl("topo --quiet --xml " + file, kFakes + "FAKE_NVML=1:100:18:hidden FAKE_CUDA=1")
            .code == 0);
  const std::string text = file_content(file);
  CHECK(text.find("<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>") !=
        std::string::npos);
  CHECK(text.find("<c2c bw=\"44712\" count=\"5\"/>") != std::string::npos);
}

TEST_CASE("no driver, no NVML, no CUDA: each says what is missing") {
  const json failed = live("FAKE_NVML=fails FAKE_CUDA=2");
  REQUIRE(failed["gpus"].size() == 2);
  // CUDA's order, which is the opposite of the fake NVML's.
  CHECK(failed["gpus"][0]["busid"] == "0000:11:00.0");
  CHECK(failed["gpus"][0]["sm"] == 86);
  CHECK(failed["gpus"][0]["nvlinks"] == 0);
  CHECK(has_finding(failed, "no NVML (nvmlInit: Driver Not Loaded): GPUs are taken from CUDA"));
  const json without_cuda = live("FAKE_NVML=2:90:18:switch FAKE_CUDA=0");
  CHECK(without_cuda["gpus"].size() == 2);
  CHECK(without_cuda["gpus"][0]["gdr"] == true);  // by its name: no GeForce
}

TEST_CASE("what libibverbs cannot open is said") {
  const json all = live("FAKE_NVML=0:0:0:none");
  CHECK(has_finding(all, "cannot open fake_1"));
}

TEST_CASE("a snapshot of this machine shows the same elsewhere") {
  const TemporaryFolder folder;
  const std::string drivers = kFakes + "FAKE_NVML=2:90:18:switch FAKE_CUDA=2";
  for (const std::string name : {"s.tar.gz", "s.tgz", "s.tar", "s"}) {
    INFO(name);
    const std::string to = folder / name;
    CHECK(run_collctl("topo --quiet --save " + to + " --xml " + (folder / "live.xml"), drivers)
              .code == 0);
    const Ran again = run_collctl("topo --quiet --from " + to + " --xml " + (folder / "again.xml"));
    CHECK(again.code == 0);
    CHECK(file_content(folder / "live.xml") == file_content(folder / "again.xml"));
    CHECK(file_content(folder / "live.xml").find("<gpu dev=\"1\"") != std::string::npos);
  }
  const json facts = json::parse(file_content(folder / "s/drivers.json"));
  CHECK(facts["gpus"][1]["nvlinks"].size() == 18);
  CHECK(facts["gpus"][0]["p2p"] == json::array({1, 0}));
  CHECK(facts["gpus"][0]["cuda_ordinal"] == 1);
  CHECK(facts["rdma"][0]["max_qp"] == 4096);
  CHECK(facts["rdma"][0]["system_guid"] == "1122334455667788");
  CHECK(facts["rdma"][0]["ports"][0]["Mbps"] == 400000);
  CHECK(json::parse(file_content(folder / "s/meta.json"))["schema"] == "collctl.snapshot/1");
  // Never over what is there.
  CHECK(run_collctl("topo --save " + (folder / "s")).code == 2);
  CHECK(run_collctl("topo --save " + (folder / "no/such/s.tgz")).code == 3);
}

TEST_CASE("TOPO_FILE completes what is detected") {
  const TemporaryFolder folder;
  const std::string file = folder / "node.xml";
  std::ofstream(file) << R"(<system version="1"><cpu numaid="0">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:10:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    </pci></cpu></system>)";
  // Two A100 without NVLinks: by the switch of the file.
  const json all = live("FAKE_NVML=2:80:0:none FAKE_CUDA=2 COLLCTL_TOPO_FILE=" + file);
  REQUIRE(all["gpus"].size() == 2);
  CHECK(path(all, "GPU/1", "GPU/0")["type"] == "PIX");
  CHECK(path(all, "GPU/1", "GPU/0")["bw_GBps"] == 24);
  const Ran absent = run_collctl("topo", "COLLCTL_TOPO_FILE=" + (folder / "absent.xml"));
  CHECK(absent.code == 2);
  CHECK(absent.err.find("COLLCTL_TOPO_FILE") != std::string::npos);
}

TEST_CASE("--assume makes a skeleton a machine") {
  const TemporaryFolder folder;
  const std::string file = folder / "skeleton.xml";
  std::ofstream(file) << R"(<system version="1"><cpu numaid="0">
    <pci busid="0000:10:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
    <pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
    <pci busid="0000:12:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </cpu></system>)";
  const Ran bare = run_collctl("topo --from " + file);
  CHECK(bare.code == 0);
  CHECK(bare.err.find("no GPU is listed") != std::string::npos);
  const Ran ran = run_collctl("topo --json --assume h100 --assume-nic 100 --from " + file);
  REQUIRE(ran.code == 0);
  const json all = json::parse(ran.out);
  CHECK(all["gpus"].size() == 2);
  CHECK(path(all, "GPU/0", "GPU/1")["bw_GBps"] == 370.8);
  CHECK(all["nics"][0]["rate_Gbps"] == 100);
  CHECK(has_finding(all, "assumed to be H100"));
  CHECK(run_collctl("topo --assume h101 --from " + file).code == 2);
  CHECK(run_collctl("topo --assume-nic 100 --from " + file).code == 2);
  CHECK(run_collctl("topo --save " + (folder / "x") + " --from " + file).code == 2);
}

}  // namespace topo_live_tests
