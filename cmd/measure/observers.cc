#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "cmd/measure/gpu_clocks.h"
#include "cmd/measure/observer.h"
#include "cmd/measure/trace.h"

namespace collctl::cmd {
namespace {

// What throttles a rank's GPU.
class Clocks : public Observer {
 public:
  explicit Clocks(const std::string& bus_id) : watch_(bus_id) {}
  void tell(HeaderFacts& facts) const override { facts.clocks = watch_.at_first(); }
  void turn_over() override { watch_.look(); }  // while the GPU is still as it was
  Status closing(RankClosing& mine, BenchClosing&) override {
    mine.clocks = watch_.since();
    return {};
  }

 private:
  ClockWatch watch_;
};

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
    auto at = std::find_if(sum_.peers.begin(), sum_.peers.end(),
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
  explicit Traces(Everyone& everyone) : everyone_(everyone), watch_(everyone.own()) {}
  Status before(Block& block) override {
    noting_ = watch_.around(*block.timed, block.warmup, block.first, block.in_place);
    block.timed = noting_.get();
    return {};
  }
  Status row_over() override;

 private:
  Everyone& everyone_;
  TraceWatch watch_;
  std::unique_ptr<Timed> noting_;
  int64_t origin_ns_ = 0;  // rank 0's first operation
};

Status Traces::row_over() {
  runtime::Communicator& own = everyone_.own();
  COLL_ASSIGN(const std::vector<Bytes> all,
              own.gather_blobs(encoded(watch_.take()), everyone_.deadline()));
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

Observers observers_of(const BenchSpec& spec, Everyone& everyone) {
  Observers list;
  runtime::Communicator& own = everyone.own();
  if (const auto device = own.device())
    list.push_back(std::make_unique<Clocks>(device->facts().bus_id));
  if (spec.stragglers) list.push_back(std::make_unique<Waits>(own));
  if (spec.trace) list.push_back(std::make_unique<Traces>(everyone));
  return list;
}

}  // namespace collctl::cmd
