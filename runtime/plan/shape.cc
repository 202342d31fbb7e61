#include "runtime/plan/shape.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace collctl::runtime {
namespace {

struct Where {
  size_t host = 0;
  size_t index = 0;
};

Where find(const HostGroups& hosts, int32_t rank) {
  for (size_t h = 0; h < hosts.size(); ++h) {
    const auto it = std::find(hosts[h].begin(), hosts[h].end(), rank);
    if (it != hosts[h].end()) return {h, size_t(it - hosts[h].begin())};
  }
  COLL_CHECK_NOTE(false, "a rank without a host");
  return {};
}

// The rank at distance `place` from the host's leader; tree 1 is led from the other end.
int32_t local_rank(const std::vector<int32_t>& host, size_t place, int tree) {
  return tree == 0 ? host[place] : host[host.size() - 1 - place];
}

class Links {
 public:
  Links() { std::fill(std::begin(links_.down), std::end(links_.down), -1); }
  void up(int32_t rank) { links_.up = rank; }
  void down(int32_t rank) {
    COLL_CHECK(count_ < kernels::kMaxFanIn);
    links_.down[count_++] = rank;
  }
  kernels::TreeLinks take() const { return links_; }

 private:
  kernels::TreeLinks links_{.up = -1, .down = {}};
  int count_ = 0;
};

}  // namespace

HostGroups group_by_host(std::span<const uint64_t> hashes) {
  HostGroups hosts;
  std::unordered_map<uint64_t, size_t> index;
  for (size_t r = 0; r < hashes.size(); ++r) {
    const auto [it, fresh] = index.try_emplace(hashes[r], hosts.size());
    if (fresh) hosts.emplace_back();
    hosts[it->second].push_back(int32_t(r));
  }
  return hosts;
}

kernels::TreeLinks tree_links(const HostGroups& hosts, int32_t rank, int tree, LocalTree local) {
  const auto [host, index] = find(hosts, rank);
  const auto& mine = hosts[host];
  Links links;
  const auto place_in = [&](int n, int position, auto rank_at) {
    const BinaryPlace place = double_binary_tree(tree, n, position);
    if (place.up >= 0) links.up(rank_at(place.up));
    for (int d : place.down)
      if (d >= 0) links.down(rank_at(d));
  };
  if (hosts.size() == 1 && local == LocalTree::binary) {
    place_in(int(mine.size()), int(index), [&](int p) { return mine[size_t(p)]; });
    return links.take();
  }
  const size_t place = tree == 0 ? index : mine.size() - 1 - index;
  if (place == 0)
    place_in(int(hosts.size()), int(host),
             [&](int h) { return local_rank(hosts[size_t(h)], 0, tree); });
  if (local == LocalTree::chain) {
    if (place > 0) links.up(local_rank(mine, place - 1, tree));
    if (place + 1 < mine.size()) links.down(local_rank(mine, place + 1, tree));
    return links.take();
  }
  // The leader's third child is the root of a binary tree over the host's other ranks.
  if (place == 0) {
    if (mine.size() > 1) links.down(local_rank(mine, 1, tree));
    return links.take();
  }
  if (place == 1) links.up(local_rank(mine, 0, tree));
  const BinaryPlace inner = double_binary_tree(0, int(mine.size()) - 1, int(place) - 1);
  if (inner.up >= 0) links.up(local_rank(mine, size_t(inner.up) + 1, tree));
  for (int d : inner.down)
    if (d >= 0) links.down(local_rank(mine, size_t(d) + 1, tree));
  return links.take();
}

int tree_depth(const HostGroups& hosts, LocalTree local) {
  size_t largest = 0;
  for (const auto& host : hosts) largest = std::max(largest, host.size());
  const int n = int(largest);
  const int between = topology::double_tree_depth(int(hosts.size()));
  if (local == LocalTree::chain) return between + std::max(0, n - 1);
  if (hosts.size() == 1) return topology::double_tree_depth(n);
  return between + (n > 1 ? 1 + topology::double_tree_depth(n - 1) : 0);
}

std::vector<int32_t> ring_order(const HostGroups& hosts) {
  std::vector<int32_t> order;
  for (const auto& host : hosts) order.insert(order.end(), host.begin(), host.end());
  return order;
}

std::vector<ChannelShape> make_channels(const HostGroups& hosts, int32_t rank, int channels,
                                        LocalTree local) {
  std::vector<ChannelShape> shapes;
  const std::vector<int32_t> order = ring_order(hosts);
  for (int c = 0; c < channels; ++c)
    shapes.push_back({.ring = order, .tree = tree_links(hosts, rank, c % 2, local)});
  return shapes;
}

}  // namespace collctl::runtime
