// The network devices that `plan` shows against what the links of a job get: for every topology
// file with a network, by the JSON alone on one side, and by the ranks' own shapes on the other.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "cmd/plan/plan.h"
#include "runtime/links/edges.h"
#include "runtime/plan/network_reduction.h"
#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_job.h"

namespace plan_plan_nics_tests {

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;

namespace {

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("")))
    if (entry.path().extension() == ".xml") names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Result<JobPlan> plan_of(const std::string& file, int nodes) {
  COLL_ASSIGN(auto view, view_of(machine_of(file), file, {}));
  PlanSpec spec;
  spec.nodes = nodes;
  spec.sizes = {1 << 20};
  return make_job_plan(std::move(view), std::move(spec));
}

// One job: what its ranks connect, held against the plan's JSON.
class Compared {
 public:
  Compared(const JobPlan& plan, const GpuPlanJob& job)
      : plan_(plan), job_(job), shapes_(job.shapes()) {
    const json all = json::parse(plan_json(plan));
    for (const json& nic : all["cluster"]["nics"])
      planned_[{nic["channel"].get<int>(), nic["node"].get<int>()}] = nic;
    check();
    for (const json& link : all["cluster"]["relays"]) check_relay(link);
    for (size_t rank = 0; rank < shapes_.size(); ++rank)
      for (const topology::RelayedLink& link : shapes_[rank].nics->relayed)
        relays += link.from == int(rank) ? 1 : 0;
    CHECK(relays == all["cluster"]["relays"].size());
    if (counts_alike()) check_pairs(all["cluster"]["pairs"]);
  }
  std::set<std::string> ring, tree, pairs;  // devices of node 0 in use
  size_t relays = 0;                        // links that leave through another GPU
  // Messages from node 0 to node 1, by channel: all, those through another GPU, those between the
  // same devices of both.
  int messages = 0, relayed = 0, on_rail = 0;
  std::map<std::string, std::set<int>> senders;  // by device, of messages on their rail

 private:
  // The name of a device by its number in the file.
  std::string name(int node, const json& dev) const {
    if (dev.get<int>() < 0) return "";
    const topology::Graph& graph = plan_.part(node).graph;
    for (const int net : graph.nets)
      if (graph.nodes[size_t(net)].dev == dev.get<int>()) return graph.nodes[size_t(net)].name;
    return "not in the graph";
  }
  std::string used(int rank, const runtime::Edge& edge) const {
    return nic_of(rank, edge, shapes_[size_t(rank)]).name;
  }
  int node_of(int rank) const { return plan_.cluster.node_of(rank); }

  void check() {
    const topology::Cluster& cluster = plan_.cluster;
    REQUIRE(int(shapes_.size()) == cluster.ranks());
    REQUIRE(int(shapes_[0].channels.size()) == cluster.channels());
    for (int c = 0; c < cluster.channels(); ++c) {
      const auto& order = shapes_[0].channels[size_t(c)].ring;
      for (size_t i = 0; i < order.size(); ++i)
        check_ring(c, order[i], order[(i + 1) % order.size()]);
      for (int rank = 0; rank < cluster.ranks(); ++rank) check_tree(c, rank);
      if (c < runtime::kMostReductionGroups) check_collnet(c);
    }
    for (int from = 0; from < cluster.ranks() && node_of(from) == 0; ++from)
      for (int c = 0; c < shapes_[0].pair_channels; ++c) {
        const int far = cluster.channels();  // no ring's and no tree's
        for (int to = cluster.first_rank[size_t(cluster.nodes()) - 1]; to < cluster.ranks(); ++to)
          pairs.insert(used(from, {far + c, from, to}));
      }
  }
  void check_ring(int c, int from, int to) {
    if (node_of(from) == node_of(to)) return;
    INFO("ring " << c << ": " << from << " -> " << to);
    const std::string out = name(node_of(from), planned_.at({c, node_of(from)})["ring_out"]);
    CHECK(used(from, {c, from, to}) == out);
    CHECK(used(to, {c, from, to}) == name(node_of(to), planned_.at({c, node_of(to)})["ring_in"]));
    if (node_of(from) == 0) ring.insert(out);
    ++crossings_;
  }
  // Every rank has the same chains, each through one node, and each head the plan's device, which
  // is nearer to no other GPU of the node.
  void check_collnet(int c) {
    const auto& chains = shapes_[0].channels[size_t(c)].collnet;
    REQUIRE(int(chains.size()) == plan_.cluster.nodes());
    for (const runtime::CommShape& shape : shapes_)
      REQUIRE(shape.channels[size_t(c)].collnet == chains);
    for (int node = 0; node < plan_.cluster.nodes(); ++node) {
      INFO("collnet " << c << ", node " << node);
      std::vector<int32_t> chain = chains[size_t(node)];
      const int head = chain[0];
      const json& planned = planned_.at({c, node});
      const std::string device = name(node, planned["collnet"]);
      CHECK_FALSE(device.empty());
      std::sort(chain.begin(), chain.end());
      for (int i = 0; i < int(chain.size()); ++i) {
        REQUIRE(chain[size_t(i)] == plan_.cluster.first_rank[size_t(node)] + i);
        const runtime::RankNics& nics = *shapes_[size_t(chain[size_t(i)])].nics;
        const int own = nics.wiring.channels[size_t(c)].collnet;
        CHECK(nics.choice(own).name == (chain[size_t(i)] == head ? device : ""));
      }
      const topology::Graph& graph = plan_.part(node).graph;
      const auto paths = topology::base_paths(graph, {.through_gpus = false});
      const auto distance = [&](int gpu) {
        for (const int net : graph.nets)
          if (graph.nodes[size_t(net)].name == device) return paths.at(gpu, net).type;
        return topology::PathType::dis;
      };
      topology::PathType own{}, least = topology::PathType::dis;
      for (const int gpu : graph.gpus) {
        least = std::min(least, distance(gpu));
        const topology::Node& at = graph.nodes[size_t(gpu)];
        if (at.id != job_.bus_ids[size_t(head)]) continue;
        own = distance(gpu);
        // The plan counts by the file's numbers, the job by its order.
        CHECK(planned["collnet_head"] == plan_.cluster.first_rank[size_t(node)] + at.rank);
      }
      CHECK(own == least);
    }
  }
  void check_tree(int c, int rank) {
    const kernels::TreeLinks& links = shapes_[size_t(rank)].channels[size_t(c)].tree;
    const int node = node_of(rank);
    const json& planned = planned_.at({c, node});
    const auto& order = shapes_[size_t(rank)].channels[size_t(c)].ring;
    const auto is_ring_edge = [&](int a, int b) {
      for (size_t i = 0; i < order.size(); ++i)
        if (order[i] == a && order[(i + 1) % order.size()] == b) return true;
      return false;
    };
    if (links.up >= 0 && node_of(links.up) != node && !is_ring_edge(rank, links.up)) {
      const std::string device = used(rank, {c, rank, links.up});
      INFO("tree " << c << ": " << rank << " up to " << links.up);
      CHECK(device == name(node, planned["tree_up"]));
      if (node == 0) tree.insert(device);
    }
    for (const int child : links.down) {
      if (child < 0 || node_of(child) == node || is_ring_edge(rank, child)) continue;
      INFO("tree " << c << ": " << rank << " down to " << child);
      const std::string device = used(rank, {c, rank, child});
      const std::set<std::string> either{name(node, planned["tree_down_lower"]),
                                         name(node, planned["tree_down_upper"])};
      CHECK(either.contains(device));
      if (node == 0) tree.insert(device);
    }
  }

  void check_relay(const json& link) {
    const runtime::Edge edge{link["channel"], link["from"], link["to"]};
    const int by = link["by"];
    INFO("channel " << edge.channel << ": " << edge.from << " -> " << edge.to << " by " << by);
    for (const int rank : {edge.from, edge.to, by})
      CHECK(relay_of(rank, edge, shapes_[size_t(rank)]).by == by);
    CHECK(used(by, edge) == name(node_of(edge.from), link["net"]));
    CHECK(used(edge.from, edge) == used(by, edge));
  }

  // The plan counts GPUs by the file's numbers, the job by its order.
  bool counts_alike() const {
    const topology::Graph& graph = plan_.part(0).graph;
    return std::ranges::all_of(graph.gpus, [&](int at) {
      const topology::Node& gpu = graph.nodes[size_t(at)];
      return job_.bus_ids[size_t(gpu.rank)] == gpu.id;
    });
  }
  void check_pairs(const json& planned) {
    const topology::Cluster& cluster = plan_.cluster;
    const int second = cluster.first_rank[1];
    REQUIRE(int(planned.size()) == second * second);
    for (const json& pair : planned) {
      const int from = pair["from"], to = second + pair["to_place"].get<int>();
      const json &nets = pair["nets"], &by = pair["by"];
      REQUIRE((!nets.empty() && nets.size() == by.size()));
      for (int c = 0; c < shapes_[0].pair_channels; ++c) {
        const runtime::Edge edge{cluster.channels() + c, from, to};  // no ring's and no tree's
        const size_t turn = size_t(edge.channel) % nets.size();
        const std::string device = name(0, nets[turn]);
        const int relay = by[turn];
        INFO("message " << from << " -> " << to << ", channel " << edge.channel);
        CHECK(used(from, edge) == device);
        for (const int rank : {from, to})
          CHECK(relay_of(rank, edge, shapes_[size_t(rank)]).by == relay);
        ++messages;
        relayed += relay >= 0 ? 1 : 0;
        if (used(to, edge) != device) continue;
        ++on_rail;
        senders[device].insert(relay >= 0 ? relay : from);
      }
    }
  }

  const JobPlan& plan_;
  const GpuPlanJob& job_;
  std::vector<runtime::CommShape> shapes_;
  std::map<std::pair<int, int>, json> planned_;
  int crossings_ = 0;
};

}  // namespace

TEST_CASE("the network devices of a job's links are those that its plan shows", "[plan][nics]") {
  int compared = 0, with_relays = 0;
  for (const std::string& file : files())
    for (const int level : {0, 1, 2})
      for (const int nodes : {2, 3, 4, 16}) {
        if (level < 2 && nodes > 3) continue;
        // Many ranks are many times as dear.
        if (!test::nightly() && (nodes > 2 || (level < 2 && file != kH100))) continue;
        const base::ScopedVariable wanted("COLLCTL_P2P_PXN_LEVEL", std::to_string(level).c_str());
        const auto plan = plan_of(file, nodes);
        if (!plan || plan->cluster.nodes() != nodes) continue;  // no network, or parts of a machine
        INFO(file << ", " << nodes << " nodes, level " << level);
        GpuPlanJob job = gpu_job(plan->cluster.ranks(), file);
        // Ranks as the plan counts them, and paths as they are when the NICs reach the GPUs'
        // memory.
        job.gdr = true;
        const auto rules = topology::read_rules();
        REQUIRE(rules.ok());
        job.search.rules.p2p_pxn_level = rules->p2p_pxn_level;
        job.search.rules.p2p_pxn_asked = rules->p2p_pxn_asked;
        const Compared found(*plan, job);
        CHECK_FALSE(found.ring.contains(""));
        CHECK_FALSE(found.pairs.contains(""));
        // In this machine each GPU has two of the 16 devices, and rings use all of them.
        CHECK((found.relays > 0) == (file == kH100));
        CHECK((level > 0 || found.relayed == 0));
        if (file == kH100) {
          CHECK((found.on_rail == found.messages) == (level > 0));
          CHECK((found.relayed > 0) == (level > 0));
          // To one rail of a node by one GPU, which alone sends there itself.
          if (level == 2) CHECK(found.relayed == found.messages / 8 * 7);
          for (const auto& [device, by] : found.senders)
            if (level == 2) CHECK(by.size() == 1);
        }
        with_relays += found.relayed > 0 ? 1 : 0;
        ++compared;
      }
  CHECK(compared >= (test::nightly() ? 20 : 8));
  CHECK(with_relays >= (test::nightly() ? 6 : 3));
}

TEST_CASE("messages use all network devices that are near some GPU", "[plan][nics]") {
  // 8 GPUs with two of 16 devices each.
  const auto plan = plan_of(kH100, 2);
  REQUIRE(plan.ok());
  GpuPlanJob job = gpu_job(16);
  job.gdr = true;
  CHECK(Compared(*plan, job).pairs.size() == 16);
}

}  // namespace plan_plan_nics_tests
