#include "cmd/bench_closing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/format.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostText = 256;

void put(ByteWriter& writer, const std::optional<StartCost>& cost) {
  writer.put(uint8_t(cost.has_value()));
  const StartCost value = cost.value_or(StartCost{});
  writer.put(value.seconds).put(value.taken_bytes).put(value.buffer_bytes);
}

std::optional<StartCost> get_cost(ByteReader& reader) {
  const bool there = reader.get<uint8_t>() != 0;
  StartCost cost;
  cost.seconds = reader.get<double>();
  cost.taken_bytes = reader.get<uint64_t>();
  cost.buffer_bytes = reader.get<uint64_t>();
  return there ? std::optional(cost) : std::nullopt;
}

// The largest of each, 0 where a rank does not know.
void take_largest(StartCost& of_all, const StartCost& cost, bool first) {
  const auto larger = [&](uint64_t& all, uint64_t one) {
    all = !first && (all == 0 || one == 0) ? 0 : std::max(all, one);
  };
  of_all.seconds = std::max(of_all.seconds, cost.seconds);
  larger(of_all.taken_bytes, cost.taken_bytes);
  larger(of_all.buffer_bytes, cost.buffer_bytes);
}

// Ranks on one GPU see each other's memory.
bool gpus_are_shared(const std::vector<transport::PeerInfo>& peers) {
  std::set<std::pair<uint64_t, int64_t>> seen;
  for (const transport::PeerInfo& peer : peers)
    if (!seen.emplace(peer.host_hash, peer.bus_id).second) return true;
  return false;
}

}  // namespace

Status send_closing(const ClosingFacts& mine, BenchClosing closing,
                    runtime::Communicator& communicator, BenchSink& sink, Deadline deadline) {
  ByteWriter writer;
  writer.put_string(mine.clocks.substr(0, kMostText));
  const auto device = communicator.device();
  writer.put_string(device ? device->facts().bus_id : "");
  put(writer, mine.own_cost);
  put(writer, mine.other_cost);
  COLL_ASSIGN(const std::vector<Bytes> all, communicator.gather_blobs(writer.bytes(), deadline));
  if (communicator.rank() != 0 && !sink.every_rank()) return {};
  const auto& peers = communicator.peers();
  closing.costs = true;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader reader(all[rank]);
    std::string clocks = reader.get_string(kMostText), bus_id = reader.get_string(kMostText);
    const auto own = get_cost(reader), other = get_cost(reader);
    if (!reader.ok() || !reader.at_end())
      return Error{ErrorCode::defect, format("what rank {} says at the end is cut short", rank)};
    if (!clocks.empty())
      closing.throttled.push_back({peers[rank].host, std::move(bus_id), peers[rank].rank,
                                   peers[rank].device, std::move(clocks)});
    closing.costs = closing.costs && own && other;
    take_largest(closing.own_cost, own.value_or(StartCost{}), rank == 0);
    take_largest(closing.other_cost, other.value_or(StartCost{}), rank == 0);
  }
  if (gpus_are_shared(peers))
    for (StartCost* cost : {&closing.own_cost, &closing.other_cost})
      cost->taken_bytes = cost->buffer_bytes = 0;
  sink.closing(closing);
  return {};
}

}  // namespace collctl::cmd
