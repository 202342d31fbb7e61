#include "cmd/measure/observer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "cmd/measure/gpu_clocks.h"

namespace collctl::cmd {
namespace {

constexpr uint64_t kMostOfRow = 200'000;  // operations and waits, of all ranks

int64_t middle(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// --stragglers. Before a block all is done that was started.
class Waits : public Observer {
 public:
  explicit Waits(const runtime::Communicator& communicator) : communicator_(communicator) {}
  Status before(Block&) override {
    COLL_ASSIGN(before_, communicator_.wait_sums());
    began_ns_ = now_ns();
    return {};
  }
  Status after() override;
  Status closing(RankClosing& mine, BenchClosing&) override {
    mine.waits = std::move(sum_);
    return {};
  }

 private:
  const runtime::Communicator& communicator_;
  runtime::WaitSums before_;
  int64_t began_ns_ = 0;
  RankWaits sum_;
};

Status Waits::after() {
  const double elapsed = double(now_ns() - began_ns_) / 1e3;
  COLL_ASSIGN(const runtime::WaitSums after, communicator_.wait_sums());
  // Channels wait side by side: the mean of them.
  const double channels = std::max(after.channels, 1);
  sum_.elapsed_us += elapsed;
  sum_.away_us += double(after.away_ns - before_.away_ns) / 1e3 / channels;
  for (const auto& now : after.peers) {
    runtime::WaitSums::Peer old;
    for (const auto& peer : before_.peers)
      if (peer.peer == now.peer) old = peer;
    auto at = std::ranges::find_if(sum_.peers,
                                   [&](const PeerWaits& peer) { return peer.peer == now.peer; });
    if (at == sum_.peers.end()) at = sum_.peers.insert(at, PeerWaits{.peer = now.peer});
    const double recv = double(now.recv_ns - old.recv_ns) / 1e3 / channels;
    const double send = double(now.send_ns - old.send_ns) / 1e3 / channels;
    at->recv_us += recv;
    at->send_us += send;
    at->carrying_us += double(now.carrying_ns - old.carrying_ns) / 1e3;
    at->waits += now.waits - old.waits;
    sum_.waited_us += recv + send;
  }
  return {};
}

// --trace. The ranks' notes of a row become one record.
class Traces : public Observer {
 public:
  explicit Traces(Everyone& everyone) : everyone_(everyone) {}
  Status before(Block& block) override;
  Status row_over() override;

 private:
  class Noting;
  void note(TracedOperation operation);

  Everyone& everyone_;
  std::unique_ptr<Timed> noting_;
  RankTrace row_;
  uint64_t held_ = 0;      // entries of it
  int64_t origin_ns_ = 0;  // rank 0's first operation
};

// CPU ranks run an operation in the caller's thread: it begins and ends within enqueue().
class Traces::Noting : public Timed {
 public:
  Noting(Traces& traces, const Block& block) : traces_(traces), block_(block) {}

  Status enqueue() override {
    if (queued_++ < block_.warmup) return block_.timed->enqueue();
    COLL_ASSIGN(const runtime::WaitSums before, traces_.everyone_.own().wait_sums());
    TracedOperation noted;
    noted.in_place = block_.in_place;
    noted.iteration = uint32_t(block_.first + queued_ - 1 - block_.warmup);
    noted.start_ns = now_ns();
    COLL_TRY(block_.timed->enqueue());
    noted.end_ns = now_ns();
    COLL_ASSIGN(const runtime::WaitSums after, traces_.everyone_.own().wait_sums());
    const int64_t channels = std::max(after.channels, 1);
    for (const auto& now : after.peers) {
      runtime::WaitSums::Peer old;
      for (const auto& peer : before.peers)
        if (peer.peer == now.peer) old = peer;
      const TracedOperation::Wait wait{now.peer, int64_t(now.recv_ns - old.recv_ns) / channels,
                                       int64_t(now.send_ns - old.send_ns) / channels};
      if (wait.recv_ns > 0 || wait.send_ns > 0) noted.waits.push_back(wait);
    }
    traces_.note(std::move(noted));
    return {};
  }
  Status wait() override { return block_.timed->wait(); }

 private:
  Traces& traces_;
  const Block block_;
  int64_t queued_ = 0;
};

Status Traces::before(Block& block) {
  noting_ = std::make_unique<Noting>(*this, block);
  block.timed = noting_.get();
  return {};
}

void Traces::note(TracedOperation operation) {
  if (row_.operations.empty()) held_ = 0;
  const uint64_t room = std::max<uint64_t>(kMostOfRow / uint64_t(everyone_.own().size()), 2);
  held_ += 1 + operation.waits.size();
  if (held_ > room && !row_.operations.empty())
    ++row_.left_out;
  else
    row_.operations.push_back(std::move(operation));
}

Status Traces::row_over() {
  runtime::Communicator& own = everyone_.own();
  COLL_ASSIGN(const std::vector<Bytes> all,
              own.gather_blobs(encoded(std::exchange(row_, {})), everyone_.deadline()));
  if (own.rank() != 0) return {};
  std::vector<RankTrace> ranks;
  std::vector<uint64_t> hosts;
  for (const Bytes& blob : all) {
    auto trace = decoded<RankTrace>(blob);
    if (!trace) return Error{ErrorCode::defect, "a rank's trace has the wrong length"};
    ranks.push_back(std::move(*trace));
  }
  for (const transport::PeerInfo& peer : own.peers()) hosts.push_back(peer.host_hash);
  if (origin_ns_ == 0 && !ranks[0].operations.empty()) origin_ns_ = ranks[0].operations[0].start_ns;
  return everyone_.row_out().on(merged_trace(ranks, hosts, origin_ns_));
}

}  // namespace

static void fields(Record& io, TracedOperation::Wait& wait) {
  io.field("peer", wait.peer);
  io.field("recv_ns", wait.recv_ns);
  io.field("send_ns", wait.send_ns);
}

static void fields(Record& io, TracedOperation& operation) {
  io.field("in_place", operation.in_place);
  io.field("iteration", operation.iteration);
  io.field("start_ns", operation.start_ns);
  io.field("end_ns", operation.end_ns);
  io.field("waits", operation.waits);
}

void fields(Record& io, RankTrace& trace) {
  io.field("left_out", trace.left_out);
  io.field("operations", trace.operations);
}

Observers observers_of(const BenchSpec& spec, Everyone& everyone) {
  Observers list;
  runtime::Communicator& own = everyone.own();
  if (const auto device = own.device())
    list.push_back(std::make_unique<ClockWatch>(device->facts().bus_id));
  if (spec.stragglers) list.push_back(std::make_unique<Waits>(own));
  if (spec.trace) list.push_back(std::make_unique<Traces>(everyone));
  return list;
}

std::vector<int64_t> clocks_ahead(std::span<const int64_t> starts,
                                  std::span<const uint64_t> hosts) {
  std::map<uint64_t, std::vector<int64_t>> of_host;
  for (size_t r = 0; r < starts.size(); ++r) of_host[hosts[r]].push_back(starts[r]);
  std::vector<int64_t> ahead;
  for (size_t r = 0; r < starts.size(); ++r)
    ahead.push_back(hosts[r] == hosts[0] ? 0
                                         : middle(of_host[hosts[r]]) - middle(of_host[hosts[0]]));
  return ahead;
}

BenchTrace merged_trace(std::span<const RankTrace> ranks, std::span<const uint64_t> hosts,
                        int64_t origin_ns) {
  BenchTrace merged;
  for (const RankTrace& rank : ranks) merged.left_out += rank.left_out;
  for (const bool in_place : {false, true}) {
    std::vector<int64_t> starts;  // of the first after the barrier
    for (const RankTrace& rank : ranks)
      for (const TracedOperation& each : rank.operations)
        if (each.in_place == in_place && each.iteration == 0) starts.push_back(each.start_ns);
    if (starts.size() != ranks.size()) continue;  // not measured
    const std::vector<int64_t> ahead = clocks_ahead(starts, hosts);
    for (size_t r = 0; r < ranks.size(); ++r)
      for (const TracedOperation& each : ranks[r].operations) {
        if (each.in_place != in_place) continue;
        TraceEvent event{.rank = int(r),
                         .in_place = in_place,
                         .iteration = each.iteration,
                         .start_us = double(each.start_ns - ahead[r] - origin_ns) / 1e3,
                         .elapsed_us = double(each.end_ns - each.start_ns) / 1e3};
        for (const auto& wait : each.waits)
          event.waits.push_back(
              {wait.peer, double(wait.recv_ns) / 1e3, double(wait.send_ns) / 1e3});
        merged.events.push_back(std::move(event));
      }
  }
  return merged;
}

}  // namespace collctl::cmd
