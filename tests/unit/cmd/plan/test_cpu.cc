// `plan` for CPU ranks on hand-made machines.
#include <nlohmann/json.hpp>

#include "cmd/plan/cpu.h"
#include "tests/catch.h"

namespace collctl::cmd::plan_cpu_tests {
namespace {

// One socket of four cores with one cache, or two sockets with a slow link between them.
TopoView machine(int sockets) {
  TopoView view;
  view.source = "test";
  base::Processors processors;
  processors.model = {.vendor = "GenuineIntel", .name = "Test CPU", .family = 6, .model = 0x3F};
  processors.cache_bytes = uint64_t{32} << 20;
  processors.packages = sockets;
  processors.cores = 4 * sockets;
  for (int id = 0; id < 4 * sockets; ++id) {
    const int socket = id / 4;
    processors.online.push_back(
        {.id = id, .package = socket, .core = id, .numa = socket, .cache_domain = socket * 4});
    processors.nodes.resize(size_t(socket) + 1);
    processors.nodes.back().processors.push_back(id);
  }
  view.processors = std::move(processors);
  return view;
}

Result<CpuPlan> plan_of(int sockets, int nodes, std::vector<uint64_t> sizes) {
  PlanSpec spec;
  spec.nodes = nodes;
  spec.sizes = std::move(sizes);
  return make_cpu_plan(machine(sockets), std::move(spec));
}

}  // namespace

TEST_CASE("CPU ranks of several nodes stand in one ring, node by node, and in two trees") {
  const auto plan = plan_of(1, 2, {8, 1 << 20});
  REQUIRE(plan.ok());
  CHECK(plan->shape.nranks == 8);
  CHECK(plan->shape.channels[0].ring == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  for (const auto& tree : plan->trees) {
    int roots = 0;
    std::vector<int> parents(8);
    for (size_t rank = 0; rank < tree.size(); ++rank) {
      roots += tree[rank].up < 0;
      for (const int32_t down : tree[rank].down) {
        if (down < 0) continue;
        CHECK(tree[size_t(down)].up == int(rank));
        ++parents[size_t(down)];
      }
    }
    CHECK(roots == 1);
    for (size_t rank = 0; rank < tree.size(); ++rank)
      CHECK(parents[rank] == (tree[rank].up < 0 ? 0 : 1));
  }
  REQUIRE(plan->rows.size() == 2);
  CHECK(plan->rows[1].bytes == 1 << 20);
  CHECK(plan->rows[1].choice.expected.limited_by == "sockets between hosts");
  // bus bandwidth of an all-reduce: 2 (n - 1) / n of the algorithm's
  CHECK(plan->rows[1].busbw_gbps == Approx(plan->rows[1].algbw_gbps * 14 / 8));
  const std::string text = cpu_plan_text(*plan);
  CHECK(text.find("2 nodes of 4 CPU ranks, 8 ranks\n") != std::string::npos);
  CHECK(text.find("Test CPU, 4 cores in 1 socket, 1 NUMA node") != std::string::npos);
  CHECK(text.find(" : 0 1 2 3 4 5 6 7\n") != std::string::npos);
}

TEST_CASE("what limits CPU ranks follows from the machine") {
  // A large message is copies; a small one waits in the ranks' window for the arrival of each,
  // which takes longer between sockets.
  const auto one = plan_of(1, 1, {4 << 20});
  REQUIRE(one.ok());
  CHECK(one->rows[0].choice.expected.limited_by == "copies through shared memory");
  const auto small = plan_of(1, 1, {8});
  REQUIRE(small.ok());
  CHECK(small->rows[0].choice.expected.limited_by == "arrivals of all ranks");
  const auto far = plan_of(2, 1, {8});
  REQUIRE(far.ok());
  CHECK(far->rows[0].choice.expected.us > small->rows[0].choice.expected.us);
}

TEST_CASE("a plan for CPU ranks as JSON is complete") {
  const auto plan = plan_of(1, 3, {64});
  REQUIRE(plan.ok());
  const auto json = nlohmann::json::parse(cpu_plan_json(*plan));
  CHECK(json["schema"] == "collctl.topo/1");
  for (const char* key : {"cpus", "gpus", "nics", "paths", "graphs", "findings"})
    CHECK(json[key].is_array());
  CHECK(json["device"] == "cpu");
  CHECK(json["cluster"]["nodes"] == 3);
  CHECK(json["cluster"]["ranks"] == 12);
  CHECK(json["cluster"]["rings"][0].size() == 12);
  CHECK(json["cluster"]["trees"].size() == 12 * json["cluster"]["nchannels"].get<size_t>());
  CHECK(json["choices"][0]["bytes"] == 64);
  const auto& expected = json["choices"][0]["expected"];
  CHECK(expected["time_us"].get<double>() > 0);
  CHECK(expected["source"] == "assumed");
  CHECK(expected["unknown"] == "the speed of the network between hosts");
}

TEST_CASE("a plan for CPU ranks that cannot be says why") {
  TopoView unknown;
  unknown.source = "skeleton.xml";
  const auto none = make_cpu_plan(std::move(unknown), {});
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::unavailable);
  CHECK(none.error().hint.find("--assume") != std::string::npos);
  const auto many = plan_of(2, 4096 * 4, {8});
  REQUIRE_FALSE(many.ok());
  CHECK(many.error().code == ErrorCode::usage);
}

}  // namespace collctl::cmd::plan_cpu_tests
