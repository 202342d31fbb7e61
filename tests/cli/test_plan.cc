// `collctl plan` by the real binary: exact text, JSON, mistakes. Expected values by hand from the
// rules, shown where they stand.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/cli/pair_machine.h"

namespace plan_tests {

using nlohmann::json;

namespace {

std::string without(std::string text, const std::string& part) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.erase(at, part.size());
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Without the note that builds without nvcc give.
std::string other_notes(const std::string& err) {
  std::string text;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);)
    if (!has(line, "note: this build has no GPU kernels")) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("plan of two nodes, by hand") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const Ran ran = run_collctl("plan --nodes 2 --bytes 1M --wide --from " + path);
  CHECK(ran.code == 0);
  CHECK(other_notes(ran.err).empty());
  // Search: 48 GB/s per channel (the best path to the network) fits once below the switch, and is
  // halved into two of 24. Used twice: 4; no more, for 24 is below 45. GPU 1 sends through GPU 0
  // (PXN). Trees: both GPUs' chain may have twice the network's 24.
  // Two hosts map no memory together: no window kernels. Ring ll128, whose lines go by RDMA: 14 + 4
  // x 1.9 + 2 x 4 = 29.6; 0.92 of 48 x 4/6 = 29.44 GB/s: 35.62 us for 1 MiB. Ring ll: 6.6 + 4 x 1
  // (the host's step) + 2 x 2.7 = 16; half of 32 = 16 GB/s: 65.54 us. Ring simple: 1.4 (between
  // nodes) x (8.4 + 4 x 3.4 + 2 x 14 = 50) = 70; 32 GB/s: 32.77 us.
  CHECK(
      ran.out ==
      "# plan for allreduce: 2 nodes of 2 GPUs, 4 ranks\n"
      "# node: " +
          path +
          ": 2 NUMA nodes, 2 GPUs (H100), 1 network device\n"
          "# network of a node: 1 x 400 Gb/s\n"
          "# rings: 2 channels of 24 GB/s between GPUs (NVL), 24 GB/s to the network (PXN); fills "
          "most PCI/0000:10:00.0 -> GPU/0 (PCI, 48 GB/s, 48 used)\n"
          "# trees (tree): 2 channels of 48 GB/s between GPUs (NVL), 24 GB/s to the network (PIX); "
          "fills most PCI/0000:10:00.0 -> GPU/0 (PCI, 48 GB/s, 48 used)\n"
          "# channels: 2 in every node, used twice (once with each tree): 4\n"
          "# rails: every link joins the same network device of both nodes\n"
          "# GB/s less protocol, by NCCL: 18 NVLinks 370.8 of 450; PCIe gen5 x16 48 of 63\n"
          "# below: the ranks of the first two nodes, between the devices by which a ring enters "
          "and "
          "leaves; all of them in --json\n"
          "#\n"
          "Channel 00/04 : NET/0 > 0 1 > through 0 > NET/0 -> NET/0 > 2 3 > through 2 > NET/0   "
          "(also 1-3)\n"
          "Tree    00/04 : 0-1   parent at 0 by NET/0, lower child at 0 by NET/0, upper child at 0 "
          "by "
          "NET/0   (also 1-3)\n"
          "Nodes of tree 0 (channels 0-1): root 0 > 1\n"
          "Nodes of tree 1 (channels 2-3): root 1 > 0\n"
          "#\n"
          "#   size  algo  proto  channels  threads   time   algbw   busbw  limited by\n"
          "#    (B)                                   (us)  (GB/s)  (GB/s)\n"
          " 1048576  ring  ll128         4      640  65.22   16.08   24.12  bandwidth: 2 x 24 "
          "GB/s, by PCI/0000:10:00.0 -> GPU/0 (PCI, 48 GB/s, 48 used), x 0.92 by ll128\n"
          "#\n"
          "# why: 1 MiB: ring ll128; next ring ll: 81.54 us (+25 %)\n");
}

TEST_CASE("the table of plan fits COLUMNS, and says what it left out") {
  const TemporaryFolder folder;
  const std::string plan = "plan --nodes 2 --from " + write(folder, kPair);
  for (const size_t width : {60, 80, 100, 300}) {
    INFO(width);
    const Ran ran = run_collctl(plan, "COLUMNS=" + std::to_string(width));
    std::istringstream lines(ran.out.substr(ran.out.rfind("\n#", ran.out.find("size  algo")) + 1));
    bool leaves_out = false;
    for (std::string line; std::getline(lines, line) && line != "#";) {
      const bool footer = line.starts_with("# Columns left out: threads, ");
      leaves_out = leaves_out || footer;
      CHECK((footer || line.size() <= width));
    }
    CHECK(leaves_out == (width < 300));
    CHECK(has(ran.out, "  limited by\n") == (width > 60));
  }
  CHECK(!has(run_collctl(plan + " --wide", "COLUMNS=60").out, "left out"));
}

TEST_CASE("plan of one node says with -v what was tried and weighed") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const Ran plain = run_collctl("plan --algo ring,tree -b 8 -e 64M -f 1024 --from " + path);
  REQUIRE(plain.code == 0);
  CHECK(has(plain.out, "Channel 00/24 : 0 1   (also 1-23)\n"));
  CHECK(!has(plain.out, "NET/0"));
  CHECK(!has(plain.out, "# search"));
  // Two hops of 0.6 us: ring 6.6 + 1.2.
  CHECK(has(plain.out, "\n       8  ring  ll             1  7.800"));
  const Ran ran = run_collctl("plan --algo ring,tree -b 8 -e 64M -f 1024 -v --from " + path);
  CHECK(has(ran.out, "# search, ring: "));
  // Two GPUs: channel 0's chain is 0-1.
  CHECK(has(ran.out, "# rank 0 as NCCL's log has it: Trees [0] 1/-1/-1->0->-1 [1] "));
  CHECK(has(ran.out, "\n# 8 B: ring simple 15.20, ring ll 7.800, "));
  CHECK(has(run_collctl("plan --algo ring --proto ll128 --bytes 1M -v --from " + path,
                        "NCCL_P2P_DISABLE=1")
                .err,
            "ll128 needs NVLink between GPUs"));
}

TEST_CASE("plan --json has every rank of every ring and tree") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const Ran ran =
      run_collctl("plan allgather --nodes 3 --bytes 1M --bytes 10 --json --from " + path);
  REQUIRE(ran.code == 0);
  CHECK(ran.err.empty());
  const json all = json::parse(ran.out);
  // The plan has all that topo reports of the machine, and more.
  json machine = json::parse(run_collctl("topo --json --nodes 3 --from " + path).out);
  for (const char* key : {"schema", "source", "file", "cpus", "gpus", "nics", "paths", "graphs"})
    CHECK(all[key] == machine[key]);
  CHECK(all["schema"] == "collctl.topo/1");
  CHECK(all["file"] == path);
  CHECK(all["graphs"][0]["pattern"] == "ring");
  CHECK(all["graphs"][0]["bw_inter_GBps"] == 24);
  CHECK(all["graphs"][0]["channels"][0]["gpus"] == json({0, 1}));
  CHECK(all["graphs"][0]["channels"][0]["nets"] == json({0, 0}));
  CHECK_FALSE(all["search"][0]["steps"].empty());
  const json& cluster = all["cluster"];
  CHECK(cluster["nodes"] == 3);
  CHECK(cluster["ranks"] == 6);
  // GPU 1 is not near to the device: GPU 0 sends for it.
  CHECK(cluster["nchannels"] == 4);
  CHECK(cluster["rings"] == json(std::vector<std::vector<int>>(4, {0, 1, 2, 3, 4, 5})));
  CHECK(cluster["relays"].size() == 4 * 3);
  CHECK(cluster["relays"][1] ==
        json({{"channel", 0}, {"from", 3}, {"to", 4}, {"by", 2}, {"net", 0}}));
  CHECK(cluster["trees"].size() == 4 * 6);
  // Tree 0 of three nodes: 2 below 0, 1 below 2; all links at the first GPU.
  CHECK(cluster["trees"][0] == json({{"channel", 0}, {"rank", 0}, {"up", -1}, {"down", {1, 4}}}));
  CHECK(cluster["trees"][2] == json({{"channel", 0}, {"rank", 2}, {"up", 4}, {"down", {3}}}));
  CHECK(cluster["trees"][4] == json({{"channel", 0}, {"rank", 4}, {"up", 0}, {"down", {5, 2}}}));
  CHECK(cluster["nics"].size() == 4 * 3);
  CHECK(cluster["nics"][1]["ring_in"] == 0);
  CHECK(cluster["nics"][1]["tree_up"] == 0);
  CHECK(cluster["nics"][1]["tree_down_lower"] == -1);
  CHECK(cluster["rails"]["ring_crossings"] == 0);
  REQUIRE(all["choices"].size() == 2);
  const json& choice = all["choices"][0];
  CHECK(choice["op"] == "allgather");
  // Whole floats of six ranks: 1048576 / 24 x 24.
  CHECK(choice["bytes"] == 1048560);
  CHECK(choice["algorithm"] == "ring");
  CHECK(choice["channels"].is_number_integer());
  const json& expected = choice["expected"];
  const double algbw = 1048560 / expected["time_us"].get<double>() / 1e3;
  CHECK(std::abs(expected["algbw_GBps"].get<double>() / algbw - 1) < 1e-4);
  CHECK(std::abs(expected["busbw_GBps"].get<double>() / (algbw * 5 / 6) - 1) < 1e-4);
  CHECK(choice["why"].get<std::string>().find("; next ring ") != std::string::npos);
  // Each protocol of the ring, of Bruck's and of one-shot, which needs memory that all ranks map.
  CHECK(choice["candidates"].size() == 9);
  for (const json& way : choice["candidates"])
    CHECK(way.contains("unavailable") ==
          (way["algorithm"] == "one-shot" ||
           (way["protocol"] == "ll128" && way["algorithm"] != "ring")));
  CHECK(all["choices"][1]["bytes"] == 0);  // less than a float for each rank
  for (const json& finding : all["findings"])
    CHECK(has(finding["what"], "this build has no GPU kernels"));
}

TEST_CASE("plan honours choices of channels, algorithms and protocols") {
  const TemporaryFolder folder;
  const std::string from = " --bytes 64M --json --nodes 2 --from " + write(folder, kPair);
  const auto plan = [&](const std::string& options, const std::string& variables = "") {
    const Ran ran = run_collctl("plan " + options + from, variables);
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return json::parse(ran.out);
  };
  CHECK(plan("--channels 7")["cluster"]["nchannels"] == 7);
  CHECK(plan("--channels 7")["choices"][0]["channels"] == 7);
  CHECK(plan("", "NCCL_MAX_NCHANNELS=3")["cluster"]["nchannels"] == 3);
  CHECK(plan("", "COLLCTL_MIN_NCHANNELS=9")["cluster"]["nchannels"] == 9);
  const json tree = plan("--algo tree --proto simple")["choices"][0];
  CHECK(tree["algorithm"] == "tree");
  CHECK(tree["protocol"] == "simple");
  // The model's 640 threads, without the warp that keeps counters.
  CHECK(tree["threads"] == 608);
  CHECK(plan("", "NCCL_ALGO=tree")["choices"][0]["algorithm"] == "tree");
  CHECK(plan("alltoall")["choices"][0]["algorithm"] == "pairwise");
  CHECK(plan("barrier")["choices"].size() == 1);
  // A quarter of the channels has a quarter of the bandwidth.
  const auto time = [&](const char* options) {
    return plan(options)["choices"][0]["expected"]["time_us"].get<double>();
  };
  CHECK(time("--algo ring --proto simple --channels 1") >
        3 * time("--algo ring --proto simple --channels 4"));
}

TEST_CASE("plan of alltoallv and hypercube has their times") {
  const TemporaryFolder folder;
  const std::string from = " --bytes 1M --nodes 2 --from " + write(folder, kPair);
  const auto plan = [&](const std::string& options) {
    const Ran ran = run_collctl("plan " + options + from + " --json");
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return json::parse(ran.out)["choices"][0];
  };
  const auto time = [](const json& choice) { return choice["expected"]["time_us"].get<double>(); };
  const json even = plan("alltoall --algo pairwise"), uneven = plan("alltoallv"),
             cube = plan("hypercube");
  CHECK(uneven["op"] == "alltoallv");
  CHECK(uneven["algorithm"] == "pairwise");
  CHECK(uneven["steps"] == 1);
  CHECK(time(uneven) > 0);
  CHECK(cube["op"] == "hypercube");
  CHECK(cube["steps"] == 2);
  CHECK(cube["expected"]["source"] == "model");
  CHECK(cube["candidates"].size() == 1);
  // Each of the two steps takes at least as long as one hop.
  CHECK(time(cube) > 2 * 2.7);
  CHECK_FALSE(even.contains("steps"));
  const Ran text = run_collctl("plan hypercube --wide" + from);
  CHECK(has(text.out, "# plan for hypercube: 2 nodes of 2 GPUs, 4 ranks\n"));
  CHECK(has(text.out, "; 2 steps, each after the one before\n"));
  const Ran three = run_collctl("plan hypercube --nodes 3 --from " + write(folder, kPair));
  CHECK(three.code == 2);
  CHECK(has(three.err, "hypercube of 6 ranks: "));
}

TEST_CASE("plan of several nodes says that its network has no PCI device") {
  const TemporaryFolder folder;
  std::string text = kPair;
  const std::string under_pci = "        <nic>";
  // The device leaves its PCI slot for the CPU, as bridges hang there.
  const size_t begin = text.find(under_pci), end = text.find("</nic>", begin) + 7;
  const std::string nic = text.substr(begin, end - begin);
  text.erase(begin, end - begin);
  text.insert(text.rfind("  </cpu>"), nic);
  const std::string path = write(folder, text);
  const char* note = "note: 1 of the 1 network devices in use have no PCI device";
  CHECK(has(run_collctl("plan --nodes 2 --bytes 8 --from " + path).err, note));
  CHECK_FALSE(has(run_collctl("plan --bytes 8 --from " + path).err, note));
  write(folder, kPair);
  CHECK_FALSE(has(run_collctl("plan --nodes 2 --bytes 8 --from " + path).err, note));
}

TEST_CASE("plan says what it cannot plan") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const auto fails = [&](const std::string& options, int code, const std::string& message) {
    const Ran ran = run_collctl("plan " + options);
    CHECK(ran.code == code);
    CHECK(ran.out.empty());
    CHECK(has(ran.err, message));
  };
  fails("--nodes 0 --from " + path, 2, "--nodes 0: expected");
  fails("--nodes 4097 --from " + path, 2, "--nodes 4097: expected");
  fails("--algo two-shot --nodes 2 --from " + path, 2, "the ranks are on several hosts");
  std::string far = kPair;
  for (size_t at; (at = far.find("gdr=\"1\"")) != std::string::npos;)
    far.replace(at, 7, "gdr=\"0\"");
  CHECK(run_collctl("plan --proto ll128 --nodes 2 --bytes 1M --from " + path).code == 0);
  fails("--proto ll128 --nodes 2 --from " + write(folder, far), 2,
        "ll128 between hosts goes by RDMA between GPUs: data is staged in host memory on the way");
  write(folder, kPair);
  fails("--op sum --from " + path, 2, "--op sum: expected");
  fails("--bytes 8 -e 16 --from " + path, 2, "--bytes and --max-bytes exclude each other");
  fails("allgather --algo tree --from " + path, 2,
        "allgather cannot run with algorithm 'tree', protocol 'all': tree does not support "
        "allgather");
  // GPU ranks and CPU ranks have it.
  CHECK(run_collctl("plan --algo doubling --bytes 8 --from " + path).code == 0);
  CHECK(run_collctl("plan --algo doubling --bytes 8").code == 0);
  CHECK(run_collctl("plan broadcast --algo rooted-tree --bytes 8 --from " + path).code == 0);
  CHECK(run_collctl("plan allgather --algo bruck --bytes 8 --from " + path).code == 0);
  CHECK(run_collctl("plan reducescatter --algo halving --bytes 8 --from " + path).code == 0);
  fails("--assume H100 --from " + path, 2, "did you mean h100?");
  fails("--assume h100 --assume-nic 0 --from " + path, 2, "expected a number 0.001..100000");
  fails("--from " + path + ".absent", 2, path + ".absent");
  const std::string blind = folder / "blind.xml";
  std::ofstream(blind) << without(
      kPair,
      "        <nic>\n          <net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" "
      "guid=\"0x1\" gdr=\"1\"/>\n        </nic>\n");
  CHECK(run_collctl("plan --bytes 8 --from " + blind).code == 0);
  fails("--nodes 2 --from " + blind, 3,
        blind + ": no network device, so 2 such nodes cannot reach each other\n");
  std::string skeleton = kPair;
  for (int gpu = 0; gpu < 2; ++gpu) {
    const size_t from = skeleton.find("<gpu"), to = skeleton.find("</gpu>") + 6;
    skeleton.erase(from, to - from);
  }
  const std::string bare = folder / "bare.xml";
  std::ofstream(bare) << skeleton;
  // The hint leads to a plan.
  CHECK(run_collctl("plan --bytes 8 --assume h100 --from " + bare).code == 0);
}

TEST_CASE("a thousand nodes of eight GPUs are planned at once") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair);
  const Ran ran = run_collctl("plan --nodes 4096 --bytes 1G --json --from " + path);
  REQUIRE(ran.code == 0);
  const json all = json::parse(ran.out);
  CHECK(all["cluster"]["ranks"] == 8192);
  CHECK(all["cluster"]["rings"][3].size() == 8192);
  CHECK(all["cluster"]["trees"].size() == 4 * 8192);
  // The text stays short.
  const Ran text = run_collctl("plan --nodes 4096 --bytes 1G --from " + path);
  CHECK(text.out.size() < 4000);
  CHECK(has(text.out, "-> ... 4096 nodes"));
  CHECK(has(text.out, "root 0 > 2048 > 1024 3072 > ... 12 levels below\n"));
}

TEST_CASE("channels that topo writes are those that plan takes from the file") {
  const TemporaryFolder folder;
  const std::string path = write(folder, kPair), graphs = folder / "graphs.xml";
  CHECK(
      run_collctl("topo --graph --nodes 2 --from " + path, "NCCL_GRAPH_DUMP_FILE=" + graphs).code ==
      0);
  const auto rings = [&](const std::string& variables) {
    const Ran ran = run_collctl("plan --nodes 2 --bytes 8 --json --from " + path, variables);
    REQUIRE(ran.code == 0);
    return json::parse(ran.out)["cluster"];
  };
  CHECK(rings("NCCL_GRAPH_FILE=" + graphs) == rings(""));
  // One ring taken out of the file is one ring less in the plan: 2 found, each used twice.
  std::ifstream in(graphs);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t from = text.find("<channel>"), to = text.find("</channel>") + 10;
  REQUIRE(to < text.size());
  text.erase(from, to - from);
  const size_t count = text.find("nchannels=\"2\"");
  REQUIRE(count < from);
  text.replace(count, 13, "nchannels=\"1\"");
  std::ofstream(graphs) << text;
  CHECK(rings("NCCL_GRAPH_FILE=" + graphs)["ring"]["nchannels"] == 1);
  const Ran refused =
      run_collctl("topo --graph --from " + path, "COLLCTL_GRAPH_DUMP_FILE=/nowhere/graphs.xml");
  CHECK(refused.code == 3);
  CHECK(has(refused.err, "/nowhere/graphs.xml"));
}

}  // namespace plan_tests
