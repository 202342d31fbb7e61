// Plans from machines written by hand: parts of one machine, graph files, and, for the licensed
// topology files, rings and trees walked through the JSON alone.
#include "cmd/plan/plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "cmd/topo/machine_search.h"
#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/places.h"
#include "topology/xml/xml.h"

namespace plan_plan_tests {

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

TopoView view_from(const std::string& text, const std::string& name) {
  auto read = topology::read_xml(text, name);
  if (!read.ok()) FAIL(read.error().message);
  auto view = view_of(std::move(read->system), name, {});
  if (!view.ok()) FAIL(view.error().message);
  return std::move(*view);
}

PlanSpec spec_of(int nodes) {
  PlanSpec spec;
  spec.nodes = nodes;
  spec.sizes = {1 << 20};
  return spec;
}

// One GPU of compute capability 8.0 on gen4 x16, or a NIC of 200 Gb/s.
std::string gpu(const std::string& bus, int rank) {
  const std::string number = std::to_string(rank);
  return "<pci busid=\"0000:" + bus +
         ":00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" +
         number + "\" rank=\"" + number + "\" sm=\"80\" gdr=\"1\"/></pci>";
}
std::string nic(const std::string& bus, int dev) {
  const std::string number = std::to_string(dev);
  return "<pci busid=\"0000:" + bus +
         ":00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic><net "
         "name=\"n" +
         number + "\" dev=\"" + number + "\" speed=\"200000\" port=\"1\" guid=\"0x" + number +
         "\" gdr=\"1\"/></nic></pci>";
}
std::string socket(int numa, const std::string& bus, const std::string& inner) {
  return "<cpu numaid=\"" + std::to_string(numa) +
         "\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\"><pci "
         "busid=\"0000:" +
         bus + ":00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" +
         inner + "</pci></cpu>";
}
// Two Skylake sockets (10 GB/s between them), each a switch with two GPUs and a NIC of 25 GB/s
// (24 by PCI): the way over the network is faster than the way between the sockets.
std::string two_islands() {
  return "<system version=\"1\">" + socket(0, "10", gpu("11", 0) + gpu("12", 2) + nic("13", 0)) +
         socket(1, "20", gpu("21", 1) + gpu("22", 3) + nic("23", 1)) + "</system>";
}

// Every ring is one loop of all ranks; every tree has one root and its ends agree.
void walk(const json& cluster) {
  const int ranks = cluster["ranks"];
  for (const json& ring : cluster["rings"]) {
    std::set<int> seen;
    for (const json& rank : ring) seen.insert(rank.get<int>());
    REQUIRE(int(ring.size()) == ranks);
    REQUIRE(int(seen.size()) == ranks);
    REQUIRE(*seen.begin() == 0);
    REQUIRE(*seen.rbegin() == ranks - 1);
    REQUIRE(ring[0] == 0);
  }
  std::map<int, std::map<int, int>> up_of;             // channel, rank
  std::map<int, std::multimap<int, int>> children_of;  // channel, rank
  for (const json& place : cluster["trees"]) {
    up_of[place["channel"]][place["rank"]] = place["up"];
    for (const json& down : place["down"])
      children_of[place["channel"]].insert({down.get<int>(), place["rank"].get<int>()});
  }
  REQUIRE(int(up_of.size()) == cluster["nchannels"]);
  for (const auto& [channel, ups] : up_of) {
    REQUIRE(int(ups.size()) == ranks);
    int roots = 0;
    for (const auto& [rank, up] : ups) {
      roots += up < 0;
      REQUIRE(children_of[channel].count(rank) == (up < 0 ? 0u : 1u));
      if (up >= 0) REQUIRE(children_of[channel].find(rank)->second == up);
      int hops = 0;
      for (int at = rank; at >= 0 && hops <= ranks; ++hops) at = ups.at(at);
      REQUIRE(hops <= ranks);
    }
    REQUIRE(roots == 1);
  }
}

}  // namespace

TEST_CASE("GPUs that reach each other by the network only are nodes of their own", "[cmd]") {
  for (const int machines : {1, 3}) {
    const auto plan = make_job_plan(view_from(two_islands(), "two.xml"), spec_of(machines));
    REQUIRE(plan.ok());
    REQUIRE(plan->parts.size() == 2);
    CHECK(plan->parts[0].ranks == std::vector<int>{0, 2});
    CHECK(plan->parts[1].ranks == std::vector<int>{1, 3});
    CHECK(plan->cluster.nodes() == 2 * machines);
    // Ranks count through the machines: the cluster's second node has 1 and 3, its third 4 and 6.
    CHECK(plan->world_rank(2) == 1);
    CHECK(plan->world_rank(3) == 3);
    if (machines > 1) CHECK(plan->world_rank(5) == 6);
    const json all = json::parse(plan_json(*plan));
    walk(all["cluster"]);
    CHECK(all["cluster"]["parts"] == json::array({{0, 2}, {1, 3}}));
    // Ranks of a part stand next to each other.
    for (const json& ring : all["cluster"]["rings"]) {
      int apart = 0;
      for (size_t i = 0; i < ring.size(); ++i) {
        const int a = ring[i], b = ring[(i + 1) % ring.size()];
        apart += a / 4 != b / 4 || a % 2 != b % 2;
      }
      CHECK(apart == 2 * machines);
    }
    CHECK(all["findings"].dump().find("2 groups") != std::string::npos);
    CHECK(plan_text(*plan, 0).find("# each counts as 2 nodes") != std::string::npos);
  }
}

TEST_CASE("a graph file stands in for the search", "[cmd]") {
  const fs::path folder = fs::temp_directory_path() / ("plan-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = folder / "graph.xml";
  const std::string one = "<system version=\"1\">" +
                          socket(0, "10", gpu("11", 0) + gpu("12", 1) + gpu("13", 2)) + "</system>";
  PlanSpec spec = spec_of(1);
  spec.search.graph_file = path;
  const auto plan_with = [&](const std::string& gpus) {
    std::ofstream(path) << "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" "
                           "nchannels=\"1\" speedintra=\"9\" speedinter=\"9\" latencyinter=\"0\" "
                           "typeintra=\"PIX\" typeinter=\"PIX\" samechannels=\"1\"><channel>"
                        << gpus << "</channel></graph></graphs>";
    return make_job_plan(view_from(one, "one.xml"), spec);
  };
  const auto plan = plan_with("<gpu dev=\"0\"/><gpu dev=\"2\"/><gpu dev=\"1\"/>");
  INFO((plan.ok() ? "" : plan.error().message));
  REQUIRE(plan.ok());
  CHECK(plan->cluster.rings[0] == std::vector<int>{0, 2, 1});
  CHECK(plan->cluster.ring.bw_intra == 9);
  const auto wrong = plan_with("<gpu dev=\"0\"/><gpu dev=\"2\"/><gpu dev=\"7\"/>");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().code == ErrorCode::usage);
  CHECK(wrong.error().message.find(path) == 0);
  // Two groups of GPUs are two graphs.
  const auto parts = make_job_plan(view_from(two_islands(), "two.xml"), spec);
  REQUIRE_FALSE(parts.ok());
  CHECK(parts.error().code == ErrorCode::usage);
  fs::remove_all(folder);
}

TEST_CASE("all licensed topology files: rings and trees hold for several numbers of nodes",
          "[cmd]") {
  const fs::path data = test::topology_data();
  test::Part part(test::Sweep::plan_files);
  int planned = 0;
  for (const auto& file : fs::recursive_directory_iterator(data)) {
    if (file.path().extension() != ".xml") continue;
    if (!part.takes()) continue;
    auto read = topology::read_xml_file(file.path());
    if (!read.ok()) continue;  // its own test says why
    auto view = view_of(std::move(read->system), "f.xml", {});
    if (!view.ok() || view->graph.gpus.empty()) continue;
    for (const int nodes : test::nightly() ? std::vector{1, 2, 5} : std::vector{2}) {
      INFO(file.path().filename() << ", " << nodes << " nodes");
      if (nodes > 1 && view->graph.nets.empty()) continue;
      const auto plan = make_job_plan(*view, spec_of(nodes));
      INFO((plan.ok() ? "" : plan.error().message));
      REQUIRE(plan.ok());
      walk(json::parse(plan_json(*plan))["cluster"]);
      CHECK(plan->rows[0].expected_us > 0);
      CHECK_FALSE(plan_text(*plan, 1).empty());
      ++planned;
    }
  }
  CHECK(planned > (test::nightly() ? 150 : 8));
}

// Each GPU shares a switch with a NIC, and the switches' uplinks are narrow: all GPUs are apart.
TEST_CASE("a machine of too many parts is refused, one part more than are searched") {
  const auto machine = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += format(
          "<pci busid=\"{0:04x}:00:00.0\" class=\"0x060400\" link_speed=\"8.0 GT/s PCIe\" "
          "link_width=\"1\"><pci busid=\"{0:04x}:01:00.0\" class=\"0x030200\" "
          "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{0}\" rank=\"{0}\" sm=\"80\" "
          "gdr=\"1\"/></pci><pci busid=\"{0:04x}:02:00.0\" class=\"0x020000\" "
          "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic><net name=\"m{0}\" dev=\"{0}\" "
          "speed=\"400000\" gdr=\"1\"/></nic></pci></pci>",
          i);
    return view_from(
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">" + text + "</cpu></system>",
        "f.xml");
  };
  const auto most = search_machine(machine(64), 1, {});
  REQUIRE(most.ok());
  CHECK(most->parts.size() == 64);
  const auto more = search_machine(machine(65), 1, {});
  REQUIRE(!more.ok());
  CHECK(more.error().message.find("65 groups") != std::string::npos);
}

}  // namespace plan_plan_tests
