#include "cmd/measure/trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"

namespace collctl::cmd {

namespace {

constexpr uint64_t kMostOfRow = 200'000;  // operations and waits, of all ranks

int64_t middle(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
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

// CPU ranks run an operation in the caller's thread: it begins and ends within enqueue().
class TraceWatch::Noting : public Timed {
 public:
  Noting(TraceWatch& watch, Timed& timed, int warmup, int first, bool in_place)
      : watch_(watch), timed_(timed), warmup_(warmup), first_(first), in_place_(in_place) {}

  Status enqueue() override {
    if (queued_++ < warmup_) return timed_.enqueue();
    COLL_ASSIGN(const runtime::WaitSums before, watch_.communicator_.wait_sums());
    TracedOperation noted;
    noted.in_place = in_place_;
    noted.iteration = uint32_t(first_ + queued_ - 1 - warmup_);
    noted.start_ns = now_ns();
    COLL_TRY(timed_.enqueue());
    noted.end_ns = now_ns();
    COLL_ASSIGN(const runtime::WaitSums after, watch_.communicator_.wait_sums());
    const int64_t channels = std::max(after.channels, 1);
    for (const auto& now : after.peers) {
      runtime::WaitSums::Peer old;
      for (const auto& peer : before.peers)
        if (peer.peer == now.peer) old = peer;
      const TracedOperation::Wait wait{now.peer, int64_t(now.recv_ns - old.recv_ns) / channels,
                                       int64_t(now.send_ns - old.send_ns) / channels};
      if (wait.recv_ns > 0 || wait.send_ns > 0) noted.waits.push_back(wait);
    }
    watch_.note(std::move(noted));
    return {};
  }
  Status wait() override { return timed_.wait(); }

 private:
  TraceWatch& watch_;
  Timed& timed_;
  int64_t queued_ = 0;
  const int64_t warmup_, first_;
  const bool in_place_;
};

std::unique_ptr<Timed> TraceWatch::around(Timed& timed, int warmup, int first, bool in_place) {
  return std::make_unique<Noting>(*this, timed, warmup, first, in_place);
}

void TraceWatch::note(TracedOperation operation) {
  if (row_.operations.empty()) held_ = 0;
  const uint64_t room = std::max<uint64_t>(kMostOfRow / uint64_t(communicator_.size()), 2);
  held_ += 1 + operation.waits.size();
  if (held_ > room && !row_.operations.empty())
    ++row_.left_out;
  else
    row_.operations.push_back(std::move(operation));
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
                         .elapsed_us = double(each.end_ns - each.start_ns) / 1e3,
                         .waits = {}};
        for (const auto& wait : each.waits)
          event.waits.push_back(
              {wait.peer, double(wait.recv_ns) / 1e3, double(wait.send_ns) / 1e3});
        merged.events.push_back(std::move(event));
      }
  }
  return merged;
}

}  // namespace collctl::cmd
