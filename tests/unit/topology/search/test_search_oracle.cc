// The search against brute force: every set of channels of small machines, with links counted by
// the recount of channels.h. Shares nothing with the search but the order of speeds, which is the
// field's and stands here once more.
#include <algorithm>
#include <set>

#include "tests/how_much.h"
#include "tests/unit/topology/random_machine.h"
#include "tests/unit/topology/search/channels.h"

namespace search_search_oracle_tests {

using namespace collctl::topology;

namespace {

// Each is searched by brute force.
const int kMachines = collctl::test::how_much(collctl::test::Sweep::search_oracle);

const std::vector<double>& speeds(int sm, bool network) {
  static const std::vector<double> kOld{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  static const std::vector<double> kOldNet{48, 30, 28, 24, 20, 18,  15,  12,   10,  9,
                                           7,  6,  5,  4,  3,  2.4, 1.2, 0.24, 0.12};
  static const std::vector<double> k90{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static const std::vector<double> k90Net{48, 45, 42, 40, 30,  24,  22,   20,  17.5,
                                          15, 12, 6,  3,  2.4, 1.2, 0.24, 0.12};
  static const std::vector<double> k100{90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
  static const std::vector<double> k100Net{96, 86,   80, 48, 45.1, 42, 40,  30,  24,   22,
                                           20, 17.5, 15, 12, 6,    3,  2.4, 1.2, 0.24, 0.12};
  if (sm >= 100) return network ? k100Net : k100;
  if (sm >= 90) return network ? k90Net : k90;
  return network ? kOldNet : kOld;
}

class Oracle {
 public:
  // `cross`: rings may enter and leave by different ports. `near`: they start at the GPUs nearest
  // to their port, as the search does but for one probe. Paths of at most these types.
  Oracle(const Graph& graph, const Paths& paths, bool network, Pattern pattern, int most,
         bool cross = false, bool near = false, PathType intra = PathType::sys,
         PathType inter = PathType::sys)
      : graph_(graph), paths_(paths), network_(network), pattern_(pattern), most_(most) {
    std::vector<int> order = graph.gpus;
    std::sort(order.begin(), order.end());
    do {
      // A ring inside the node is the same whichever GPU it begins with.
      if (!network && pattern == Pattern::ring && order.front() != graph.gpus.front()) continue;
      if (!network) all_.push_back({order, -1, -1});
      if (network)
        for (const int in : graph.nets)
          for (const int out : graph.nets)
            if ((!near || is_near(in, order.front())) &&
                (cross || Recount{graph, paths}.is_same_port(in, out)))
              all_.push_back({order, in, out});
    } while (std::next_permutation(order.begin(), order.end()));
    std::erase_if(all_, [&](const GraphChannel& c) { return !is_within(c, intra, inter); });
  }

  // The most channels of that speed that fit together, up to the most allowed.
  int channels_at(double gbps) {
    best_ = 0;
    chosen_.clear();
    add(0, gbps);
    return best_;
  }

  int sm() const {
    int least = 10000;
    for (const int gpu : graph_.gpus) {
      const int sm = graph_.nodes[size_t(gpu)].sm;
      least = std::min(least, sm == 0 ? 80 : sm);
    }
    return least;
  }
  double best_path() const {
    double best = 0;
    for (const int gpu : graph_.gpus)
      for (const int end : network_ ? graph_.nets : graph_.gpus)
        if (end != gpu) best = std::max(best, paths_.at(gpu, end).gbps);
    return best;
  }
  double gpu_total() const {
    double best = 0;
    for (const int gpu : graph_.gpus) {
      double nvlink = 0, pci = 0;
      for (const GraphLink& link : graph_.nodes[size_t(gpu)].links) {
        if (link.kind == LinkKind::nvl) nvlink += link.gbps;
        if (link.kind == LinkKind::pci) pci = std::max(pci, link.gbps);
      }
      best = std::max({best, nvlink, pci});
    }
    return best;
  }

 private:
  bool is_within(const GraphChannel& c, PathType intra, PathType inter) const {
    for (size_t i = 0; i + 1 < c.gpus.size(); ++i)
      if (paths_.at(c.gpus[i], c.gpus[i + 1]).type > intra) return false;
    if (c.net_in < 0)
      return pattern_ != Pattern::ring || c.gpus.size() < 2 ||
             paths_.at(c.gpus.back(), c.gpus.front()).type <= intra;
    return paths_.at(c.net_in, c.gpus.front()).type <= inter &&
           paths_.at(c.gpus.back(), c.net_out).type <= inter;
  }
  // By the rules a channel goes from its port to a GPU that no other is nearer than: by bandwidth,
  // then by type.
  bool is_near(int net, int gpu) const {
    const Path& own = paths_.at(net, gpu);
    return std::none_of(graph_.gpus.begin(), graph_.gpus.end(), [&](int other) {
      const Path& path = paths_.at(net, other);
      return path.gbps > own.gbps || (path.gbps == own.gbps && path.type < own.type);
    });
  }
  bool fits(double gbps) const {
    Recount count{graph_, paths_};
    ChannelGraph as_found;
    as_found.bw_inter = gbps;
    for (const size_t i : chosen_) {
      count.channel(pattern_, all_[i], gbps, gbps);
      as_found.channels.push_back(all_[i]);
    }
    count.check_links();
    if (network_) count.check_ports(as_found);
    return count.faults.empty();
  }
  void add(size_t from, double gbps) {
    best_ = std::max(best_, int(chosen_.size()));
    if (best_ >= most_) return;
    for (size_t i = from; i < all_.size() && best_ < most_; ++i) {
      chosen_.push_back(i);
      if (fits(gbps)) add(i, gbps);
      chosen_.pop_back();
    }
  }

  const Graph& graph_;
  const Paths& paths_;
  const bool network_;
  const Pattern pattern_;
  const int most_;
  std::vector<GraphChannel> all_;
  std::vector<size_t> chosen_;
  int best_ = 0;
};

bool has_nvswitch(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.kind == NodeKind::nvs; });
}
bool is_amd(const Graph& graph) {
  return graph.nodes[size_t(graph.cpus.front())].vendor == "AuthenticAMD";
}

// GPUs joined by NVLink in exactly two groups: rings then come in twos if they can.
bool is_two_islands(const Graph& graph, const Paths& paths) {
  std::set<std::set<int>> islands;
  for (const int gpu : graph.gpus) {
    std::set<int> island{gpu};
    for (const int other : graph.gpus)
      if (other != gpu && paths.at(gpu, other).type == PathType::nvl) island.insert(other);
    if (island.size() > 1) islands.insert(island);
  }
  return islands.size() == 2;
}

// The best total by NCCL's order of the speeds: downwards from the fastest that a path
// carries, while a speed is more than 0.49 of what was found, until a GPU's whole bandwidth is
// used.
struct Best {
  double total = 0, gbps = 0;
  int channels = 0;
};
Best best_of(Oracle& oracle, bool network, int least) {
  Best best;
  const std::vector<double>& list = speeds(oracle.sm(), network);
  size_t at = 0;
  while (at + 1 < list.size() &&
         (list[at] > oracle.best_path() || list[at] * least > oracle.gpu_total()))
    ++at;
  for (; at < list.size(); ++at) {
    if (best.channels > 0 && list[at] / best.gbps <= 0.49) break;
    const int channels = oracle.channels_at(list[at]);
    if (channels >= least && channels * list[at] > best.total + 1e-9)
      best = {channels * list[at], list[at], channels};
    if (best.total >= oracle.gpu_total()) break;
  }
  return best;
}

}  // namespace

TEST_CASE("inside a node no set of rings gives more than the one found") {
  int compared = 0, several = 0, spent = 0;
  for (int seed = 0; seed < kMachines; ++seed) {
    RandomMachine made(unsigned(seed) + 7000, 5, 0);
    const Machine machine = parse(made.xml());
    const Graph& graph = machine.graph;
    // Behind NVSwitches only neighbours are tried, and on AMD one order only across NUMA nodes.
    if (graph.gpus.size() < 2 || has_nvswitch(graph) || is_amd(graph)) continue;
    INFO("seed " << seed);
    const Paths paths = effective_paths(graph, machine.paths, {});
    const ChannelGraph found = search_node(graph, paths, {.max_channels = 4}).ring;
    Oracle oracle(graph, paths, false, Pattern::ring, 4);
    const bool pairs = is_two_islands(graph, paths) && best_of(oracle, false, 2).channels > 0;
    const Best best = best_of(oracle, false, pairs ? 2 : 1);
    if (best.channels == 0) {
      CHECK(found.fallback);
      continue;
    }
    REQUIRE_FALSE(found.fallback);
    const double total = double(found.channels.size()) * found.bw_intra;
    ++compared;
    several += best.channels > 1;
    INFO(found.channels.size() << " x " << found.bw_intra << ", best " << best.channels << " x "
                               << best.gbps);
    CHECK(total <= best.total + 1e-6);
    // Once channels are found, worse types of paths are not tried any more.
    Oracle near(graph, paths, false, Pattern::ring, 4, false, false, found.type_intra);
    const Best within = best_of(near, false, pairs ? 2 : 1);
    // The sum that a GPU sends by its best kind of links is enough.
    const double enough = std::min(within.total, oracle.gpu_total());
    // An attempt ends after 2^14 visits: only then may less come out.
    if (total + 1e-6 < enough && found.visits >= 1 << 14)
      ++spent;
    else
      CHECK(total >= enough - 1e-6);
  }
  CHECK(compared > kMachines * 3 / 14);
  CHECK(several > kMachines * 2 / 35);
  CHECK(spent * 20 < compared);
}

TEST_CASE("a tree inside a node runs at the highest speed at which so many fit") {
  int compared = 0;
  for (int seed = 0; seed < kMachines; ++seed) {
    RandomMachine made(unsigned(seed) + 9000, 4, 0);
    const Machine machine = parse(made.xml());
    const Graph& graph = machine.graph;
    if (graph.gpus.size() < 2 || has_nvswitch(graph) || is_amd(graph)) continue;
    INFO("seed " << seed);
    const Paths paths = effective_paths(graph, machine.paths, {});
    const NodeGraphs found = search_node(graph, paths, {.max_channels = 3});
    if (found.ring.fallback || found.tree.fallback) continue;
    const int count = int(found.ring.channels.size());
    Oracle oracle(graph, paths, false, Pattern::balanced_tree, count);
    double best = 0;
    for (const double gbps : speeds(oracle.sm(), false))
      if (best == 0 && oracle.channels_at(gbps) == count) best = gbps;
    // Faster ones are tried up to twice the speed outside, which is the speed of the first pass.
    if (found.tree.visits >= 1 << 14 && found.tree.bw_intra < best) continue;
    CHECK(found.tree.bw_intra == best);
    ++compared;
  }
  CHECK(compared > kMachines / 7);
}

TEST_CASE("with the network no set of rings gives more than the one found") {
  int compared = 0, several = 0, spent = 0;
  for (int seed = 0; seed < kMachines; ++seed) {
    RandomMachine made(unsigned(seed) + 11000, 3, 2);
    const Machine machine = parse(made.xml());
    const Graph& graph = machine.graph;
    if (graph.nets.empty() || has_nvswitch(graph) || is_amd(graph)) continue;
    const Paths paths = effective_paths(graph, machine.paths, {});
    for (const bool cross : {false, true}) {
      INFO("seed " << seed << " cross " << cross);
      const ChannelGraph found =
          search_node(graph, paths, {.nodes = 2, .max_channels = 3, .cross_nic = cross}).ring;
      Oracle oracle(graph, paths, true, Pattern::ring, 3, cross);
      const Best best = best_of(oracle, true, 1);
      CHECK(found.fallback == (best.channels == 0));
      if (found.fallback || best.channels == 0) continue;
      const double total = double(found.channels.size()) * found.bw_intra;
      ++compared;
      several += best.channels > 1;
      INFO(found.channels.size() << " x " << found.bw_intra << ", best " << best.channels << " x "
                                 << best.gbps);
      CHECK(total <= best.total + 1e-6);
      Oracle near(graph, paths, true, Pattern::ring, 3, cross, true, found.type_intra,
                  found.type_inter);
      const Best within = best_of(near, true, 1);
      if (total + 1e-6 < within.total && found.visits >= 1 << 14)
        ++spent;
      else
        CHECK(total >= within.total - 1e-6);
    }
  }
  CHECK(compared > kMachines * 4 / 7);
  CHECK(several > kMachines * 4 / 35);
  CHECK(spent * 20 < compared);
}

}  // namespace search_search_oracle_tests
