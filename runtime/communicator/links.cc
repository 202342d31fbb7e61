// Links that are made when a plan first needs them.
#include <algorithm>

#include "base/format.h"
#include "kernels/algo/doubling.h"
#include "runtime/communicator/state.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kPurposeMessages = 1;  // of LinkSpec; what is made at the start has 0
constexpr int64_t kAbortToldMs = 200;

// The links of an exchange by doubling, whose partners are no neighbours of a ring or tree.
void add_doubling_edges(const kernels::Work& w, std::vector<Edge>& edges) {
  const auto both_ways = [&](int partner) {
    edges.push_back({w.channel, w.rank, partner});
    edges.push_back({w.channel, partner, w.rank});
  };
  const int core = kernels::doubling_core(w.nranks);
  if (w.rank >= core) return both_ways(w.rank - core);
  for (int bit = 1; bit < core; bit *= 2) both_ways(w.rank ^ bit);
  if (w.rank + core < w.nranks) both_ways(w.rank + core);
}

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

// GPU ranks connect rings and trees at the first use, too.
void add_collective_edges(const kernels::Work& w, std::vector<Edge>& edges) {
  const auto add = [&](int from, int to) {
    if (from >= 0 && to >= 0 && from != to) edges.push_back({w.channel, from, to});
  };
  if (w.algorithm == kernels::AlgorithmId::ring) {
    add(w.rank, w.ring.next);
    add(w.ring.prev, w.rank);
  } else if (w.algorithm == kernels::AlgorithmId::tree ||
             w.algorithm == kernels::AlgorithmId::tree_split ||
             w.algorithm == kernels::AlgorithmId::collnet) {
    for (const int other : {w.tree.up, w.tree.down[0], w.tree.down[1], w.tree.down[2]}) {
      add(w.rank, other);
      add(other, w.rank);
    }
  }
}

bool needs_more_links(const Plan& plan) {
  return !plan.pairs.empty() || std::any_of(plan.ops.begin(), plan.ops.end(), [](const auto& op) {
    return op.algorithm == kernels::AlgorithmId::doubling;
  });
}

}  // namespace

Status Communicator::State::wire_plan(const Plan& plan) {
  std::vector<Edge> edges, messages;
  const int message_channels = std::max(int(shape.channels.size()), shape.pair_channels);
  for (const PlannedOp& op : plan.ops)
    for (const kernels::Work& w : op.works) {
      if (op.by_window_kernel) continue;
      if (op.algorithm == kernels::AlgorithmId::doubling) add_doubling_edges(w, edges);
      if (gpu != nullptr) add_collective_edges(w, edges);
      std::vector<Edge> pairs;
      add_pair_edges(w, pairs);
      if (op.collective != Collective::send_recv) {
        edges.insert(edges.end(), pairs.begin(), pairs.end());
        continue;
      }
      // Only the two ends know of a message, and the other end may send its answer in a later
      // group: so a pair is connected at once, both ways and on every channel.
      for (const Edge& edge : pairs)
        for (int c = 0; c < message_channels; ++c) {
          messages.push_back({c, edge.from, edge.to});
          messages.push_back({c, edge.to, edge.from});
        }
    }
  const Deadline deadline = Deadline::after_seconds(settings.start_timeout_s);
  const std::lock_guard lock(bootstrap_mutex);
  COLL_TRY(wire->connect(edges, kPurposeMessages, deadline));
  COLL_TRY(wire->connect(messages, kPurposeMessages, deadline));
  return gpu != nullptr ? check_links(plan) : Status();
}

// In a ring or tree of their channel: the only links that LL128 goes over.
bool Communicator::State::neighbours(const Edge& edge) const {
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

// A link that messages made on a channel which was no ring's then has no slots for LL128.
Status Communicator::State::check_links(const Plan& plan) const {
  for (const PlannedOp& op : plan.ops)
    for (const kernels::Work& w : op.works) {
      if (op.by_window_kernel) continue;
      std::vector<Edge> edges;
      add_collective_edges(w, edges);
      if (op.algorithm == kernels::AlgorithmId::doubling) add_doubling_edges(w, edges);
      add_pair_edges(w, edges);
      for (const Edge& edge : edges)
        if (!wire->has(edge, w.protocol))
          return Error(ErrorCode::unavailable,
                       format("channel {} of rank {} -> rank {} was connected for send/recv, which "
                              "does not use {}",
                              edge.channel, edge.from, edge.to, kernels::name_of(w.protocol)),
                       "use another --proto, or set the number of channels at the start");
    }
  return {};
}

bool Communicator::State::needs_links(const Plan& plan) const {
  if (gpu == nullptr) return needs_more_links(plan);
  return size > 1 && std::any_of(plan.ops.begin(), plan.ops.end(),
                                 [](const PlannedOp& op) { return !op.by_window_kernel; });
}

Status Communicator::State::ready(const Plan& plan, uint64_t first_op, bool& wired) {
  COLL_TRY(error());
  if (wired) return {};
  if (needs_links(plan)) {
    Status connected = wire_plan(plan);
    if (!connected) {
      // An abort that ended the exchange is told with its author by the bootstrap's own thread, and
      // so is the reason of a peer that has gone.
      const bool follows = connected.error().rank < 0 || connected.error().code == ErrorCode::lost;
      if (follows) wait_until_told(Deadline::after_ms(kAbortToldMs));
      note_short(connected.error(), first_op);
      fail(connected.error(), true);
      return error();
    }
  }
  wired = true;
  return {};
}

}  // namespace collctl::runtime
