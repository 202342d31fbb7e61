#include "runtime/links/edges.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "runtime/plan/model.h"

namespace collctl::runtime {
namespace {

using kernels::Over;

// The links of the rounds of a pairwise work.
void add_pair_edges(const kernels::Work& w, std::vector<Edge>& edges) {
  for (uint32_t i = 0; i < w.pair_count; ++i) {
    const kernels::PairStep& step = w.pairs[i];
    if (step.send_peer >= 0 && step.send_peer != w.rank && step.send_count > 0)
      edges.push_back({w.channel, w.rank, step.send_peer});
    if (step.recv_peer >= 0 && step.recv_peer != w.rank && step.recv_count > 0)
      edges.push_back({w.channel, step.recv_peer, w.rank});
  }
}

// The links that the algorithm has by itself. (GPU ranks connect rings and trees at the first use,
// too.)
void add_collective_edges(const kernels::Work& w, std::vector<Edge>& edges) {
  const auto add = [&](int from, int to) {
    if (from >= 0 && to >= 0 && from != to) edges.push_back({w.channel, from, to});
  };
  const auto both_ways = [&](int other) {
    add(w.rank, other);
    add(other, w.rank);
  };
  const kernels::AlgorithmRow& row = kernels::algorithm(w.algorithm);
  if (row.over == Over::partners) {
    row.partners(w.rank, w.nranks, w.root, both_ways);
  } else if (row.over == Over::ring) {
    add(w.rank, w.ring.next);
    add(w.ring.prev, w.rank);
  } else if (row.over == Over::tree || row.over == Over::network) {
    for (const int other : {w.tree.up, w.tree.down[0], w.tree.down[1], w.tree.down[2]})
      both_ways(other);
  }
}

bool has_partners(const PlannedOp& op) {
  return kernels::algorithm(op.algorithm).over == Over::partners;
}

// Edges of a channel: both ways, each once.
std::vector<Edge> neighbour_edges(int rank, int channel, const ChannelShape& shape) {
  std::set<Edge> edges;
  const auto& ring = shape.ring;
  const size_t n = ring.size();
  const auto at = size_t(std::find(ring.begin(), ring.end(), rank) - ring.begin());
  edges.insert({channel, rank, ring[(at + 1) % n]});
  edges.insert({channel, ring[(at + n - 1) % n], rank});
  for (const int other :
       {shape.tree.up, shape.tree.down[0], shape.tree.down[1], shape.tree.down[2]}) {
    if (other < 0) continue;
    edges.insert({channel, rank, other});
    edges.insert({channel, other, rank});
  }
  return {edges.begin(), edges.end()};
}

}  // namespace

std::vector<std::vector<Edge>> line_tests(int rank, const CommShape& shape,
                                          const HostGroups& hosts) {
  const size_t channels = shape.channels.size();
  // The search's are there twice, with the other tree; more of them are the same again.
  const size_t distinct = std::min(channels, 2 * size_t(shape.model->ring.channels));
  const auto at_once = size_t(std::clamp(shape.model->largest_node / 2, 1, 4));
  std::vector<std::vector<Edge>> tests(1 + (distinct + at_once - 1) / at_once);
  std::set<std::pair<int, int>> pairs;
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
  for (size_t c = 0; c < channels; ++c)
    for (const Edge& edge : neighbour_edges(rank, int(c), shape.channels[c])) {
      const int peer = edge.from == rank ? edge.to : edge.from;
      if (std::find(host->begin(), host->end(), peer) == host->end()) {
        if (c < distinct) tests[1 + c / at_once].push_back(edge);
      } else if (pairs.emplace(edge.from, edge.to).second) {
        tests[0].push_back(edge);
      }
    }
  return tests;
}

std::vector<Edge> collective_edges(int rank, const CommShape& shape, const Choices& choices,
                                   bool gpu, bool has_reducers) {
  const auto any_over = [&](Over what) {
    return std::ranges::any_of(kernels::algorithms(), [&](const kernels::AlgorithmRow& row) {
      return row.over == what && choices.allows(row.id);
    });
  };
  const bool ring = any_over(Over::ring), tree = any_over(Over::tree);
  const bool chains = any_over(Over::network) && has_reducers;
  std::vector<Edge> edges;
  if (shape.nranks == 1) return edges;
  const int channels = gpu ? 1 : int(shape.channels.size());
  for (int c = 0; c < channels; ++c) {
    const ChannelShape& channel = shape.channels[size_t(c)];
    if (ring) {
      const auto& order = channel.ring;
      const size_t n = order.size();
      const auto at = size_t(std::find(order.begin(), order.end(), rank) - order.begin());
      edges.push_back({c, rank, order[(at + 1) % n]});
      edges.push_back({c, order[(at + n - 1) % n], rank});
    }
    if (ring && gpu) continue;
    const auto both_ways = [&](int other) {
      if (other < 0 || other == rank) return;
      edges.push_back({c, rank, other});
      edges.push_back({c, other, rank});
    };
    const auto all_of = [&](const kernels::TreeLinks& links) {
      both_ways(links.up);
      for (const int d : links.down) both_ways(d);
    };
    if (tree) all_of(channel.tree);
    if (chains && size_t(c) < shape.network.chains.size()) all_of(shape.network.chains[size_t(c)]);
  }
  return edges;
}

bool needs_links(const Plan& plan, int nranks, bool gpu) {
  if (gpu)
    return nranks > 1 && std::any_of(plan.ops.begin(), plan.ops.end(),
                                     [](const PlannedOp& op) { return !op.by_window_kernel; });
  return !plan.pairs.empty() || std::any_of(plan.ops.begin(), plan.ops.end(), has_partners);
}

PlanEdges plan_edges(const Plan& plan, const CommShape& shape, bool gpu) {
  PlanEdges edges;
  const int message_channels = std::max(int(shape.channels.size()), shape.pair_channels);
  for (const PlannedOp& op : plan.ops)
    for (const kernels::Work& w : op.works) {
      if (op.by_window_kernel) continue;
      if (gpu || has_partners(op)) add_collective_edges(w, edges.collective);
      std::vector<Edge> pairs;
      add_pair_edges(w, pairs);
      if (op.collective != kernels::Collective::send_recv) {
        edges.collective.insert(edges.collective.end(), pairs.begin(), pairs.end());
        continue;
      }
      // Only the two ends know of a message, and the other end may send its answer in a later
      // group: so a pair is connected at once, both ways and on every channel.
      for (const Edge& edge : pairs)
        for (int c = 0; c < message_channels; ++c) {
          edges.messages.push_back({c, edge.from, edge.to});
          edges.messages.push_back({c, edge.to, edge.from});
        }
    }
  return edges;
}

bool are_neighbours(int rank, const Edge& edge, const CommShape& shape) {
  if (edge.channel >= int(shape.channels.size())) return false;
  const ChannelShape& channel = shape.channels[size_t(edge.channel)];
  const auto& ring = channel.ring;
  const auto from = std::find(ring.begin(), ring.end(), edge.from);
  if (from != ring.end()) {
    const auto next = from + 1 == ring.end() ? ring.begin() : from + 1;
    if (*next == edge.to) return true;
  }
  const int other = edge.from == rank ? edge.to : edge.from;
  const kernels::TreeLinks& tree = channel.tree;
  return tree.up == other || std::count(std::begin(tree.down), std::end(tree.down), other) > 0;
}

RelayChoice relay_of(int rank, const Edge& edge, const CommShape& shape) {
  if (shape.nics == nullptr) return {};
  const RankNics& nics = *shape.nics;
  if (const auto* relayed = nics.relay_of(edge.channel, edge.from, edge.to))
    return {.by = relayed->by};
  if (are_neighbours(rank, edge, shape)) return {};
  const bool sends = edge.from == rank;
  const auto pair = nics.pair(edge.channel, sends, sends ? edge.to : edge.from);
  RelayChoice choice{.by = pair.by, .asked = pair.asked};
  if (const auto no = nics.no_relay.find({edge.from, pair.by}); no != nics.no_relay.end())
    choice.refused = no->second;
  return choice;
}

transport::NicChoice nic_of(int rank, const Edge& edge, const CommShape& shape) {
  if (shape.nics == nullptr) return {};
  const RankNics& nics = *shape.nics;
  const bool sends = edge.from == rank;
  const int peer = sends ? edge.to : edge.from;
  if (const auto* relayed = nics.relay_of(edge.channel, edge.from, edge.to))
    if (rank != edge.to) return nics.choice(relayed->device);
  if (!are_neighbours(rank, edge, shape)) {
    const int device = sends ? nics.pair(edge.channel, true, peer).device : -1;
    return device < 0 ? nics.near(edge.channel) : nics.choice(device);
  }
  // Channels beyond those that were found repeat them.
  const topology::RankWiring::Channel& own =
      nics.wiring.channels[size_t(edge.channel) % nics.wiring.channels.size()];
  const auto& ring = shape.channels[size_t(edge.channel)].ring;
  const auto me = std::find(ring.begin(), ring.end(), rank);
  const auto next = me + 1 == ring.end() ? ring.begin() : me + 1;
  const auto previous = me == ring.begin() ? ring.end() - 1 : me - 1;
  if (sends && *next == peer && own.ring_out >= 0) return nics.choice(own.ring_out);
  if (!sends && *previous == peer && own.ring_in >= 0) return nics.choice(own.ring_in);
  const kernels::TreeLinks& tree = shape.channels[size_t(edge.channel)].tree;
  if (tree.up == peer && own.tree_up >= 0) return nics.choice(own.tree_up);
  for (size_t i = 0; i < std::size(own.tree_down); ++i)
    if (tree.down[i] == peer && own.tree_down[i] >= 0) return nics.choice(own.tree_down[i]);
  return nics.near(edge.channel);
}

Status check_protocols(const Plan& plan, const Wire& wire) {
  for (const PlannedOp& op : plan.ops)
    for (const kernels::Work& w : op.works) {
      if (op.by_window_kernel) continue;
      std::vector<Edge> edges;
      add_collective_edges(w, edges);
      add_pair_edges(w, edges);
      for (const Edge& edge : edges)
        if (!wire.has(edge, w.protocol))
          return Error(ErrorCode::unavailable,
                       format("channel {} of rank {} -> rank {} was connected for send/recv, which "
                              "does not use {}",
                              edge.channel, edge.from, edge.to, kernels::name_of(w.protocol)),
                       "use another --proto, or set the number of channels at the start");
    }
  return {};
}

}  // namespace collctl::runtime
