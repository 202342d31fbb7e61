#include "runtime/communicator/collnet.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "kernels/cpu/reduce.h"
#include "runtime/plan/network_reduction.h"

namespace collctl::runtime {

using transport::PluginHandle;
using transport::ReducerHalf;
using transport::ReducerLink;

namespace {

// Where other algorithms are left, a head that cannot connect must not cost the others all of their
// time: they cannot know of it while they wait in their plugins.
constexpr int64_t kConnectMs = 10'000;

void divide(kernels::DataType type, void* elements, uint64_t count, uint32_t divisor) {
  kernels::reduce_function(type, kernels::RedOp::avg)(&elements, 1, &elements, 1, count, divisor);
}

// This rank's ends, by channel, where it is the head.
struct Heads {
  std::vector<std::unique_ptr<ReducerHalf>> halves;
  std::vector<std::unique_ptr<ReducerLink>> links;
  Status failure;
};

// This rank's handles, in the order of channels.
Bytes listen(const CollNetGroup& g, const std::vector<Chains>& groups, Heads& heads) {
  ByteWriter w;
  for (size_t c = 0; c < groups.size(); ++c) {
    heads.halves.emplace_back();
    heads.links.emplace_back();
    const auto ranks = chain_heads(groups[c]);
    const auto place = std::find(ranks.begin(), ranks.end(), g.rank);
    if (place == ranks.end() || !heads.failure) continue;
    transport::ReducerSpec spec;
    spec.channel = int(c);
    if (g.nics != nullptr) spec.nic = g.nics->choice(g.nics->wiring.channels[c].collnet).name;
    spec.self = g.peers[size_t(g.rank)];
    spec.geometry = {g.settings.slot_bytes[int(kernels::Protocol::simple)], g.settings.slot_count};
    spec.heads = int(ranks.size());
    spec.index = int(place - ranks.begin());
    spec.ranks = uint32_t(g.peers.size());
    spec.divide = &divide;
    auto half = ReducerHalf::listen(spec, g.wire.services());
    if (!half) {
      heads.failure = std::move(half.error());
      continue;
    }
    w.put(int32_t(c)).put((*half)->handle());
    heads.halves.back() = std::move(*half);
  }
  return w.take();
}

// The handles of a channel's heads, by place. Error: a rank sent something else.
Result<std::vector<PluginHandle>> handles_of(const CollNetGroup& g, const Chains& chains,
                                             int channel, std::span<const Bytes> blobs) {
  std::vector<PluginHandle> handles;
  for (const int32_t head : chain_heads(chains)) {
    ByteReader r(blobs[size_t(head)]);
    while (r.ok() && r.get<int32_t>() != channel) (void)r.get<PluginHandle>();
    handles.push_back(r.get<PluginHandle>());
    if (!r.ok())
      return Error(ErrorCode::unavailable, format("rank {} (host {}) provided no CollNet handle",
                                                  head, g.peers[size_t(head)].host))
          .blame(head);
  }
  return handles;
}

Status connect(const CollNetGroup& g, const std::vector<Chains>& groups, Heads& heads,
               std::span<const Bytes> blobs, Deadline deadline) {
  for (size_t c = 0; c < heads.halves.size(); ++c) {
    if (heads.halves[c] == nullptr) continue;
    COLL_ASSIGN(const auto handles, handles_of(g, groups[c], int(c), blobs));
    COLL_ASSIGN(heads.links[c], heads.halves[c]->connect(handles, deadline));
  }
  return {};
}

}  // namespace

Status connect_collnet(const CollNetGroup& g, NetworkReduction& network, bool alone,
                       Deadline deadline) {
  Heads heads;
  const Bytes mine = listen(g, network.groups, heads);
  COLL_ASSIGN(const auto blobs, g.bootstrap.all_gather_blobs(mine, deadline));
  if (heads.failure) {
    const Deadline here = Deadline::after_ms(int64_t(g.settings.start_timeout_s * 500));
    heads.failure = connect(g, network.groups, heads, blobs,
                            here.earlier(alone ? deadline : Deadline::after_ms(kConnectMs)));
  }
  if (!heads.failure && heads.failure.error().rank < 0) heads.failure.error().rank = g.rank;
  // Lets the others go that wait in their plugins for this one.
  if (!heads.failure && alone) g.errors.fail(heads.failure.error(), true);
  const std::string text = heads.failure ? "" : heads.failure.error().chain();
  COLL_ASSIGN(const auto outcomes, g.bootstrap.all_gather_blobs(base::bytes_of(text), deadline));
  const auto failed_one = std::find_if(outcomes.begin(), outcomes.end(),
                                       [](const Bytes& outcome) { return !outcome.empty(); });
  if (failed_one == outcomes.end()) {
    for (size_t c = 0; c < heads.links.size(); ++c)
      if (heads.links[c] != nullptr) g.wire.add_reducer(int(c), std::move(heads.links[c]));
    g.wire.note_reducers();
    return {};
  }
  const auto at = size_t(failed_one - outcomes.begin());
  network = {};
  network.why_not = format("rank {} (host {}): {}", at, g.peers[at].host,
                           std::string(failed_one->begin(), failed_one->end()));
  if (alone) {
    if (!heads.failure) return std::move(heads.failure);
    return Error(ErrorCode::unavailable, network.why_not).blame(int(at));
  }
  if (g.rank == 0)
    COLL_WARN("no in-network reduction, other algorithms are used instead: {}", network.why_not);
  return {};
}

}  // namespace collctl::runtime
