// `collctl topo` by the real binary: tree, matrix, JSON, XML, findings and mistakes.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/pair_machine.h"

namespace topo_tests {

using nlohmann::json;

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
  CHECK(matrix.out ==
        expected +
            "\n"
            "GB/s   GPU/0    GPU/1    NET/0\n"
            "GPU/0  -        NVL 371  PIX 48\n"
            "GPU/1  NVL 371  -        PXN 48\n"
            "\n"
            "NVL  NVLink or xGMI, also through NVSwitches\n"
            "PIX  at most one PCI switch\n"
            "PXN  NVLink to the GPU next to the NIC, then PCI\n"
            "GB/s less protocol, by NCCL: 18 NVLinks 370.8 of 450; PCIe gen5 x16 48 of 63\n");
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
  CHECK(path("GPU/0", "GPU/1")["way"] == "P2P");
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
  CHECK(file_content(to) == kPair);  // the input is written as NCCL writes
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
  CHECK(ran.out.find(" 10 Gb/s (assumed)") != std::string::npos);
  CHECK(ran.err.find("collctl: note: a network device has no speed; 10 Gb/s is assumed (") !=
        std::string::npos);
  CHECK(ran.err.find("collctl: warning: a switch has an uplink of 12 GB/s (gen3 x16), slower "
                     "than the 48 GB/s of a device below it (") != std::string::npos);
  CHECK(run_collctl("topo --quiet --from " + write(folder, text)).err.empty());
  // A mere warning is an exit code with --strict, whatever is printed.
  for (const char* form : {"", "--quiet", "--json"}) {
    INFO(form);
    const std::string strict = std::string("topo --strict ") + form + " --from ";
    CHECK(run_collctl(strict + write(folder, text)).code == 1);
    CHECK(run_collctl(strict + write(folder, kPair)).code == 0);
  }
}

TEST_CASE("topo refuses what is no topology with the position") {
  const TemporaryFolder folder;
  const std::string path = write(folder, "<system version=\"1\">\n  <cpu>\n    <gpu/>\n");
  const Ran bad = run_collctl("topo --json --from " + path);
  CHECK(bad.code == 2);
  CHECK(json::parse(bad.out)["schema"] == "collctl.error/1");
  CHECK(bad.err == "collctl: error: " + path + ":3:11: not XML: Start-end tags mismatch\n");
  CHECK(run_collctl("topo --from " + path + ".absent").code == 2);
  CHECK(run_collctl("topo --from /dev/zero").code == 2);
}

TEST_CASE("topo --graph adds the channels of the search, in text and JSON") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const Ran text = run_collctl("topo --graph --from " + path);
  CHECK(text.code == 0);
  // Two GPUs on one node: the ring has no network, and both directions are used.
  CHECK(text.out.find("\nchannels of the node by the search, 1 node:\nring: ") !=
        std::string::npos);
  CHECK(text.out.find("\n 0 : GPU/0 GPU/1") != std::string::npos);
  const Ran two = run_collctl("topo --graph --nodes 2 --from " + path);
  CHECK(two.out.find("\n 0 : NET/0 GPU/0 GPU/1 NET/0") != std::string::npos);
  const json all = json::parse(run_collctl("topo --graph --nodes 2 --json --from " + path).out);
  REQUIRE(all["graphs"].size() >= 2);
  const json& ring = all["graphs"][0];
  CHECK(ring["pattern"] == "ring");
  CHECK(ring["nchannels"] == ring["channels"].size());
  for (const json& channel : ring["channels"]) {
    std::vector<int> ranks = channel["gpus"];
    std::sort(ranks.begin(), ranks.end());
    CHECK(ranks == std::vector<int>{0, 1});
    CHECK(channel["nets"] == json{0, 0});
  }
  // In JSON without being asked for.
  json unasked = json::parse(run_collctl("topo --nodes 2 --json --from " + path).out);
  for (const char* made : {"date", "command"}) unasked[made] = all[made];
  CHECK(unasked == all);
}

TEST_CASE("topo -o draws a picture and leaves standard output alone") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair), picture = folder / "node.svg";
  const Ran ran = run_collctl("topo --graph --quiet --from " + path + " -o " + picture);
  CHECK(ran.code == 0);
  CHECK(ran.out.find("ring: ") != std::string::npos);
  const std::string svg = file_content(picture);
  CHECK(svg.rfind("<?xml", 0) == 0);
  CHECK(svg.find("GPU 1 H100") != std::string::npos);
  CHECK(svg.find("ring of channel 0") != std::string::npos);
  const Ran only = run_collctl("topo --from " + path + " -o " + picture);
  CHECK(only.out.empty());
  CHECK(file_content(picture).find("ring of channel 0") == std::string::npos);
  CHECK(run_collctl("topo --from " + path + " -o " + folder.path() + "/no/x.svg").code == 3);
  const Ran wrong = run_collctl("topo --from " + path + " -o x.png");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("x.png: expected a name that ends in .json, .jsonl, .csv, .html or .svg") !=
        std::string::npos);
}

TEST_CASE("topo -o writes a page, the JSON and the paths as rows, as the ending says") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const std::string page = folder / "m.html", whole = folder / "m.json", rows = folder / "m.csv";
  const Ran ran =
      run_collctl("topo --quiet --from " + path + " -o " + page + " -o " + whole + " -o " + rows);
  CHECK(ran.code == 0);
  CHECK(ran.out.empty());
  const std::string html = file_content(page);
  CHECK(html.find("<svg") != std::string::npos);
  CHECK(html.find("GPU 1 H100") != std::string::npos);
  CHECK(html.find("passed") == std::string::npos);
  CHECK(json::parse(file_content(whole))["gpus"].size() == 2);
  CHECK(file_content(rows).rfind("from,to,type,bw_GBps", 0) == 0);
}

TEST_CASE("topo --diff: 0 when equal, 1 with the edit named") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair), edited = folder / "edited.xml";
  std::string text = kPair;
  text.replace(text.find("speed=\"400000\""), 14, "speed=\"200000\"");
  std::ofstream(edited) << text;
  const Ran equal = run_collctl("topo --from " + path + " --diff " + path);
  CHECK(equal.code == 0);
  CHECK(equal.out == "no differences from " + path + " to " + path + "\n");
  const Ran changed = run_collctl("topo --from " + edited + " --diff " + path);
  CHECK(changed.code == 1);
  CHECK(changed.out ==
        "~ network device mlx5_0: speed 400 Gb/s -> 200 Gb/s\n"
        "1 difference from " +
            path + " to " + edited + "\n");
  const Ran as_json = run_collctl("topo --json --from " + edited + " --diff " + path);
  CHECK(as_json.code == 1);
  const json all = json::parse(as_json.out);
  CHECK(all["equal"] == false);
  CHECK(all["differences"].size() == 1);
  CHECK(run_collctl("topo --from " + path + " --diff " + path + ".absent").code == 2);
}

TEST_CASE("topo refuses options that exclude each other") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const auto refusal = [](const std::string& arguments) {
    const Ran ran = run_collctl(arguments);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK(refusal("topo --diff a.xml --matrix --from " + path) ==
        "collctl: error: topo: --diff excludes --matrix\n");
  CHECK(refusal("topo --nodes 2 --from " + path) ==
        "collctl: error: topo: --nodes is about --graph and --json\n");
  CHECK(refusal("topo -H node01 --from " + path) == "collctl: error: topo: -H excludes --from\n");
  CHECK(refusal("topo --ssh-port 22 --from " + path).find("-H LIST or --hostfile FILE") !=
        std::string::npos);
}

TEST_CASE("topo of this very host by -H is a machine, without SSH") {
  const Ran ran = run_collctl("topo --json -H localhost");
  CHECK(ran.code == 0);
  const json all = json::parse(ran.out);
  CHECK(all["schema"] == "collctl.topo-hosts/1");
  REQUIRE(all["hosts"].size() == 1);
  CHECK(all["hosts"][0]["topo"]["source"] == "live");
  CHECK(all["hosts"][0]["topo"]["cpus"].size() >= 1);
  for (const char* key : {"gpus", "nics", "paths", "graphs", "findings"})
    CHECK(all["hosts"][0]["topo"][key].is_array());
}

}  // namespace topo_tests
