// Rings closed, trees reach every rank once, depth by the formula: for n = 1..256 and several host
// layouts.
#include "runtime/plan/shape.h"

#include <bit>
#include <string>

#include "base/format.h"
#include "base/processors.h"
#include "runtime/plan/comm_shape.h"
#include "tests/catch.h"

namespace plan_shape_tests {

using namespace collctl;
using namespace collctl::runtime;

namespace {

HostGroups hosts_of(std::vector<int> sizes, bool interleaved) {
  std::vector<uint64_t> hashes;
  if (!interleaved) {
    for (size_t h = 0; h < sizes.size(); ++h)
      for (int i = 0; i < sizes[h]; ++i) hashes.push_back(h + 100);
    return group_by_host(hashes);
  }
  for (bool any = true; any;) {
    any = false;
    for (size_t h = 0; h < sizes.size(); ++h)
      if (sizes[h]-- > 0) hashes.push_back(h + 100), any = true;
  }
  return group_by_host(hashes);
}

size_t rank_count(const HostGroups& hosts) {
  size_t n = 0;
  for (const auto& host : hosts) n += host.size();
  return n;
}

// Empty when every rank hangs below the one root exactly once, both ends agree and no rank is
// deeper than `depth` (and one is exactly so deep when `tight`).
std::string check_tree(const HostGroups& hosts, int tree, LocalTree local, bool tight) {
  const int n = int(rank_count(hosts));
  std::vector<kernels::TreeLinks> links;
  for (int r = 0; r < n; ++r) links.push_back(tree_links(hosts, r, tree, local));
  int root = -1;
  for (int r = 0; r < n; ++r)
    if (links[size_t(r)].up < 0) {
      if (root >= 0) return format("two roots: {} and {}", root, r);
      root = r;
    }
  if (root < 0) return "no root";
  std::vector<int> depth(size_t(n), -1), queue{root};
  depth[size_t(root)] = 0;
  int deepest = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    const int r = queue[i];
    deepest = std::max(deepest, depth[size_t(r)]);
    bool ended = false;
    for (int d : links[size_t(r)].down) {
      if (d < 0) {
        ended = true;
        continue;
      }
      if (ended) return format("rank {}: children not filled from the front", r);
      if (links[size_t(d)].up != r) return format("{} is not the parent of {}", r, d);
      if (depth[size_t(d)] >= 0) return format("rank {} reached twice", d);
      depth[size_t(d)] = depth[size_t(r)] + 1;
      queue.push_back(d);
    }
  }
  if (int(queue.size()) != n) return format("{} of {} ranks reached", queue.size(), n);
  const int formula = tree_depth(hosts, local);
  if (deepest > formula) return format("depth {} above {}", deepest, formula);
  if (tight && deepest != formula) return format("depth {} is not {}", deepest, formula);
  return "";
}

}  // namespace

TEST_CASE("the double binary tree reaches every place once, log2 n deep", "[shape]") {
  for (int n = 1; n <= 256; ++n)
    for (int tree : {0, 1}) {
      INFO("n = " << n << " tree " << tree);
      REQUIRE(check_tree(hosts_of({n}, false), tree, LocalTree::binary, true) == "");
      REQUIRE(check_tree(hosts_of(std::vector<int>(size_t(n), 1), false), tree, LocalTree::chain,
                         true) == "");
    }
}

TEST_CASE("NCCL's example: eight places", "[shape]") {
  CHECK(double_binary_tree(0, 8, 0).down[0] == 4);
  CHECK(double_binary_tree(0, 8, 4).up == 0);
  CHECK(double_binary_tree(0, 8, 6).up == 4);
  CHECK(double_binary_tree(0, 8, 3).up == 2);
  CHECK(double_binary_tree(1, 8, 7).down[0] == 3);
  CHECK(double_binary_tree(1, 7, 1).up == -1);
}

TEST_CASE("inner places of one tree are leaves of the other", "[shape]") {
  for (int n = 2; n <= 256; n += 2)
    for (int p = 0; p < n; ++p) {
      const bool inner0 = double_binary_tree(0, n, p).down[0] >= 0;
      const bool inner1 = double_binary_tree(1, n, p).down[0] >= 0;
      REQUIRE_FALSE((inner0 && inner1));
    }
}

TEST_CASE("trees over hosts, chain and binary inside", "[shape]") {
  for (int hosts = 1; hosts <= 17; ++hosts)
    for (int each = 1; each <= 9; ++each)
      for (int tree : {0, 1})
        for (bool interleaved : {false, true})
          for (LocalTree local : {LocalTree::chain, LocalTree::binary}) {
            INFO(hosts << " hosts of " << each << " tree " << tree);
            const HostGroups groups = hosts_of(std::vector<int>(size_t(hosts), each), interleaved);
            // Only the deepest host carries the whole local depth, and in these equal layouts it
            // does.
            REQUIRE(check_tree(groups, tree, local, true) == "");
          }
  for (auto sizes : {std::vector<int>{7, 8}, {1, 5, 2}, {3, 1, 1, 9}, {16, 1}})
    for (int tree : {0, 1})
      for (LocalTree local : {LocalTree::chain, LocalTree::binary})
        REQUIRE(check_tree(hosts_of(sizes, true), tree, local, false) == "");
}

TEST_CASE("a ring is one closed loop, hosts in one piece", "[shape]") {
  for (int n = 1; n <= 256; ++n) {
    const HostGroups hosts = hosts_of(std::vector<int>(size_t(std::min(n, 5)), (n + 4) / 5), true);
    const auto order = ring_order(hosts);
    std::vector<bool> seen(order.size());
    for (int32_t r : order) {
      REQUIRE(size_t(r) < order.size());
      REQUIRE_FALSE(seen[size_t(r)]);
      seen[size_t(r)] = true;
    }
    REQUIRE(order.size() == rank_count(hosts));
    size_t at = 0;
    for (const auto& host : hosts)
      for (int32_t r : host) REQUIRE(order[at++] == r);
  }
}

TEST_CASE("a host's memory window has room for a rank on each of many cores", "[shape]") {
  base::Processors processors;
  for (int id = 0; id < 4; ++id) processors.online.push_back({.id = id, .core = id});
  processors.nodes.resize(1);
  Settings settings;
  settings.window_bytes = 32768;
  CHECK(hypothetical_shape(processors, 1, 512, settings).window_bytes == 32768);
  const CommShape more = hypothetical_shape(processors, 1, 513, settings);
  CHECK(more.window_bytes == 0);
  CHECK(more.no_window == "513 ranks are more than 512");
  settings.window_bytes = 4096;
  CHECK(hypothetical_shape(processors, 1, 64, settings).no_window.empty());
  CHECK(hypothetical_shape(processors, 1, 65, settings).no_window ==
        "WINDOW_BYTES=4096 has less than 64 bytes for each of 65 ranks");
}

TEST_CASE("links between all ranks of a host fit into its memory", "[shape]") {
  base::Processors processors;
  processors.online.push_back({.id = 0, .core = 0});
  processors.nodes.resize(1);
  Settings settings;
  settings.slot_bytes[0] = 128 << 10;
  settings.slot_bytes[1] = 16 << 10;
  const auto slots = [&](int ranks) {
    const CommShape shape = hypothetical_shape(processors, 2, ranks, settings);
    return std::pair(shape.slot_bytes[0], shape.slot_bytes[1]);
  };
  CHECK(slots(32) == std::pair(512u << 10, 16u << 10));  // a network's are larger where they fit
  CHECK(slots(60) == std::pair(128u << 10, 16u << 10));
  for (const int ranks : {64, 128, 256, 1024}) {
    const auto [simple, ll] = slots(ranks);
    CAPTURE(ranks, simple, ll);
    CHECK(simple % 64 == 0);
    CHECK(ll >= 1024);
    if (ranks <= 256) CHECK(8.0 * ranks * (ranks - 1) * (simple + ll) <= 4.5 * (1 << 30));
  }
  CHECK(slots(256).first > 6000);
  settings.plans_slots = false;  // whoever asks for a size gets it
  CHECK(slots(256) == std::pair(128u << 10, 16u << 10));
}

TEST_CASE("channels alternate between the two trees", "[shape]") {
  const HostGroups hosts = hosts_of({8}, false);
  const auto channels = make_channels(hosts, 3, 4, LocalTree::binary);
  REQUIRE(channels.size() == 4);
  CHECK(channels[0].tree.up == channels[2].tree.up);
  CHECK(channels[1].tree.up == channels[3].tree.up);
  CHECK(channels[0].tree.up != channels[1].tree.up);
}

}  // namespace plan_shape_tests
