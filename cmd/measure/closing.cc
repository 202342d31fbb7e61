#include "cmd/measure/fields.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "runtime/plan/job_hosts.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostText = 256;

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

void load_fields(Record& io, base::HostLoad& load) {
  io.field("at_ns", load.at_ns);
  io.field("processors", load.processors);
  io.field("busy_s", load.busy_s);
  io.field("stolen_s", load.stolen_s);
  io.field("own_s", load.own_s);
  io.field("throttled_times", load.throttled_times);
  io.field("throttled_s", load.throttled_s);
}

// The ranks of one host: any of them saw all of it; each process knows what it took itself.
struct HostWatch {
  base::HostLoad before, after;
  std::map<int, double> own_s;  // by process: ranks may be threads of one
  int ranks = 0;
  Host host;
};

}  // namespace

static void fields(Record& io, RankClosing& rank) {
  io.field("clocks", rank.clocks, kMostText);
  io.field("bus_id", rank.bus_id, kMostText);
  io.unless_empty("own_cost", rank.own_cost);
  io.unless_empty("other_cost", rank.other_cost);
  load_fields(io, rank.before);
  load_fields(io, rank.after);
  io.unless_empty("waits", rank.waits);
}

std::string busy_reason(const base::HostLoad& before, const base::HostLoad& after, int ranks,
                        double ranks_s) {
  // The kernel counts in hundredths of a second: what is shorter says nothing.
  constexpr double kShortest = 0.2, kLeastCores = 0.25, kLeastPart = 0.05;
  const double seconds = double(after.at_ns - before.at_ns) * 1e-9;
  if (seconds < kShortest || after.processors < 1) return "";
  std::string why;
  const auto add = [&](const std::string& what) { why += (why.empty() ? "" : "; ") + what; };
  const double cores = after.processors;
  const double others = (after.busy_s - before.busy_s - ranks_s) / seconds;
  // Where there are free cores for them, other processes hold no rank up.
  if (others > std::max(kLeastCores, kLeastPart * cores) && others + ranks > cores)
    add(format("other processes took {:.1f} of {} cores beside {} {}", others, after.processors,
               ranks, ranks == 1 ? "rank" : "ranks"));
  if (const double part = (after.stolen_s - before.stolen_s) / (seconds * cores); part > kLeastPart)
    add(format("the hypervisor took {:.0f} % of the cores' time (steal)", part * 100));
  const uint64_t times = after.throttled_times - before.throttled_times;
  const double throttled_s = after.throttled_s - before.throttled_s;
  if (times > 0 && times < uint64_t{1} << 40 && throttled_s > kLeastPart * seconds)
    add(format("its cgroup was throttled {} times, {:.2f} s in {:.2f} s", times, throttled_s,
               seconds));
  return why;
}

std::string busy_reason(const base::HostLoad& before, int threads) {
  base::HostLoad after = base::host_load();
  after.throttled_times = before.throttled_times;
  return busy_reason(before, after, threads, after.own_s - before.own_s);
}

Status send_closing(RankClosing mine, BenchClosing closing, runtime::Communicator& communicator,
                    BenchOut& out, Deadline deadline) {
  const auto device = communicator.device();
  mine.clocks.resize(std::min(mine.clocks.size(), kMostText));
  if (device) mine.bus_id = device->facts().bus_id;
  COLL_ASSIGN(const std::vector<Bytes> all, communicator.gather_blobs(encoded(mine), deadline));
  if (communicator.rank() != 0 && !out.every_rank) return {};
  const auto& peers = communicator.peers();
  closing.costs = true;
  std::map<uint64_t, HostWatch> watches;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    auto one = decoded<RankClosing>(all[rank]);
    if (!one || one->waits.has_value() != mine.waits.has_value())
      return Error{ErrorCode::defect, format("what rank {} says at the end is cut short", rank)};
    if (one->waits) {
      closing.waits.push_back(std::move(*one->waits));
      closing.waits.back().rank = peers[rank].rank;
      closing.waits.back().host = runtime::host_of(peers[rank]);
    }
    if (!one->clocks.empty())
      closing.throttled.push_back({runtime::host_of(peers[rank]), std::move(one->bus_id),
                                   peers[rank].rank, peers[rank].device, std::move(one->clocks)});
    HostWatch& watch = watches[peers[rank].host_hash];
    if (watch.ranks++ == 0) {
      watch.before = one->before;
      watch.after = one->after;
      watch.host = runtime::host_of(peers[rank]);
    }
    watch.own_s[peers[rank].pid] = one->after.own_s - one->before.own_s;
    closing.costs = closing.costs && one->own_cost && one->other_cost;
    take_largest(closing.own_cost, one->own_cost.value_or(StartCost{}), rank == 0);
    take_largest(closing.other_cost, one->other_cost.value_or(StartCost{}), rank == 0);
  }
  if (gpus_are_shared(peers))
    for (StartCost* cost : {&closing.own_cost, &closing.other_cost})
      cost->taken_bytes = cost->buffer_bytes = 0;
  for (const auto& [hash, watch] : watches) {
    double own_s = 0;
    for (const auto& [pid, seconds] : watch.own_s) own_s += seconds;
    const std::string why = busy_reason(watch.before, watch.after, watch.ranks, own_s);
    base::HostLoad unlimited = watch.after;
    unlimited.throttled_times = watch.before.throttled_times;
    if (!why.empty())
      closing.busy.push_back(
          {watch.host, why, busy_reason(watch.before, unlimited, watch.ranks, own_s).empty()});
  }
  if (device || !closing.busy.empty() || !closing.waits.empty() || !closing.left_out.empty())
    return out.on(closing);
  return {};
}

}  // namespace collctl::cmd
