// The groups of heads of CollNet: made at start-up, or when the choices first allow
// them. All ranks take part in every exchange, whatever became of them.
#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "kernels/cpu/reduce.h"
#include "runtime/communicator/state.h"
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

}  // namespace

struct Communicator::State::NetworkStart {
  std::vector<std::unique_ptr<ReducerHalf>> halves;  // by channel, where this rank is the head
  std::vector<std::unique_ptr<ReducerLink>> links;
  Status failure;
};

void Communicator::State::describe_networks(RankCard& card) const {
  card.info.nets = networks.kinds;
  if ((networks.kinds & transport::kNetCollNet) != 0)
    card.reducer = {hash_text(networks.plugin->reducer()->entry().name),
                    networks.plugin->reductions(), networks.plugin->most_reduced_bytes()};
}

// This rank's handles, in the order of channels.
Bytes Communicator::State::listen_to_network(NetworkStart& start) {
  ByteWriter w;
  for (size_t c = 0; c < shape.network.chains.size(); ++c) {
    start.halves.emplace_back();
    start.links.emplace_back();
    const auto heads = chain_heads(hosts, int(c));
    const auto place = std::find(heads.begin(), heads.end(), rank);
    if (place == heads.end() || !start.failure) continue;
    transport::ReducerSpec spec;
    spec.channel = int(c);
    spec.self = peers[size_t(rank)];
    spec.geometry = {settings.slot_bytes[int(kernels::Protocol::simple)], settings.slot_count};
    spec.heads = int(heads.size());
    spec.index = int(place - heads.begin());
    spec.ranks = uint32_t(size);
    spec.divide = &divide;
    auto half = ReducerHalf::listen(spec, wire->services());
    if (!half) {
      start.failure = std::move(half.error());
      continue;
    }
    w.put(int32_t(c)).put((*half)->handle());
    start.halves.back() = std::move(*half);
  }
  return w.take();
}

// The handles of a channel's heads, by place. Error lost: a rank sent something else.
Result<std::vector<PluginHandle>> Communicator::State::handles_of(
    int channel, std::span<const Bytes> blobs) const {
  std::vector<PluginHandle> handles;
  for (const int32_t head : chain_heads(hosts, channel)) {
    ByteReader r(blobs[size_t(head)]);
    while (r.ok() && r.get<int32_t>() != channel) (void)r.get<PluginHandle>();
    handles.push_back(r.get<PluginHandle>());
    if (!r.ok())
      return Error(ErrorCode::unavailable, format("rank {} (host {}) provided no CollNet handle",
                                                  head, peers[size_t(head)].host))
          .blame(head);
  }
  return handles;
}

Status Communicator::State::connect_to_network(NetworkStart& start, std::span<const Bytes> blobs,
                                               Deadline deadline) {
  for (size_t c = 0; c < start.halves.size(); ++c) {
    if (start.halves[c] == nullptr) continue;
    COLL_ASSIGN(const auto handles, handles_of(int(c), blobs));
    COLL_ASSIGN(start.links[c], start.halves[c]->connect(handles, deadline));
  }
  return {};
}

// Error: a rank could not, and nothing else is allowed; or the exchange itself failed.
Status Communicator::State::make_reducers(Deadline deadline) {
  if (shape.network.chains.empty() || !choices.allows(kernels::AlgorithmId::collnet) ||
      wire->has_reducers())
    return {};
  const bool alone = choices.algorithms == 1u << int(kernels::AlgorithmId::collnet);
  NetworkStart start;
  const Bytes mine = listen_to_network(start);
  COLL_ASSIGN(const auto blobs, bootstrap->all_gather_blobs(mine, deadline));
  if (start.failure) {
    const Deadline here = Deadline::after_ms(int64_t(settings.start_timeout_s * 500));
    start.failure = connect_to_network(
        start, blobs, here.earlier(alone ? deadline : Deadline::after_ms(kConnectMs)));
  }
  if (!start.failure && start.failure.error().rank < 0) start.failure.error().rank = rank;
  // Lets the others go that wait in their plugins for this one.
  if (!start.failure && alone) fail(start.failure.error(), true);
  const std::string text = start.failure ? "" : start.failure.error().chain();
  COLL_ASSIGN(const auto outcomes,
              bootstrap->all_gather_blobs(
                  {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, deadline));
  const auto failed_one = std::find_if(outcomes.begin(), outcomes.end(),
                                       [](const Bytes& outcome) { return !outcome.empty(); });
  if (failed_one == outcomes.end()) {
    for (size_t c = 0; c < start.links.size(); ++c)
      if (start.links[c] != nullptr) wire->add_reducer(int(c), std::move(start.links[c]));
    wire->note_reducers();
    return {};
  }
  const auto at = size_t(failed_one - outcomes.begin());
  shape.network = {};
  shape.network.why_not = format("rank {} (host {}): {}", at, peers[at].host,
                                 std::string(failed_one->begin(), failed_one->end()));
  if (alone) {
    if (!start.failure) return std::move(start.failure);
    return Error(ErrorCode::unavailable, shape.network.why_not).blame(int(at));
  }
  if (rank == 0)
    COLL_WARN("no in-network reduction, other algorithms are used instead: {}",
              shape.network.why_not);
  return {};
}

}  // namespace collctl::runtime
