// The traffic of inference over all hosts: tokens to experts and back, and blocks of a cache.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/cluster.h"
#include "cmd/check/node.h"
#include "cmd/measure/timing.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr uint64_t kToken = 7 << 10, kMostTokens = 4096;  // of a rank, to all experts together
constexpr uint64_t kLeastBlock = 64 << 10, kMostBlock = 16 << 20;
constexpr double kLong = 2;  // times what an even exchange lets expect

// Sizes as their users have them. The even exchange is there for the times of the others.
struct Traffic {
  BenchOp op;
  uint64_t least, most;
};
constexpr Traffic kTraffic[] = {
    {kernels::Collective::all_to_all, kToken, kMostTokens* kToken},
    {kDispatch, kToken, kMostTokens* kToken},
    {kCombine, kToken, kMostTokens* kToken},
    {kHotExpert, kToken, kMostTokens* kToken},
    {kernels::Collective::send_recv, kLeastBlock, kMostBlock},  // to the next
    {kernels::Collective::gather, kLeastBlock, kMostBlock},     // many to one
    {kernels::Collective::scatter, kLeastBlock, kMostBlock},    // one to many
};

std::vector<BenchSpec> traffic_specs(const CheckRun& run, bool own_sizes) {
  std::vector<BenchSpec> specs;
  for (const Traffic& traffic : kTraffic) {
    BenchSpec& spec = specs.emplace_back(cluster_spec(run.options, traffic.op));
    spec.plateau = false;
    // The steps that the uneven ones are made of: else it is no measure for them.
    if (traffic.op == kernels::Collective::all_to_all) spec.algorithms = {"pairwise"};
    if (!own_sizes) continue;
    spec.min_bytes = traffic.least;
    spec.max_bytes = traffic.most;
    spec.step_factor = 4;
  }
  return specs;
}

std::string size_words(uint64_t bytes, bool tokens) {
  if (!tokens) return human_bytes(bytes);
  return counted((bytes + kToken / 2) / kToken, "token");
}

}  // namespace

std::vector<Finding> exchange_times(const BenchReport& uneven, const BenchReport* even,
                                    bool tokens) {
  std::vector<Finding> found;
  const BenchOp& op = uneven.spec.collective;
  const int ranks = uneven.header ? uneven.header->ranks : 0;
  const bool busy = uneven.closing && !uneven.closing->busy.empty();
  for (const BenchRow& row : uneven.rows) {
    const double us = row.first_timing().time_us;
    if (us <= 0) continue;
    Finding& time = found.emplace_back();
    time.name = format("traffic/{} of {}", name_of(op), size_words(row.bytes, tokens));
    time.measured = four_digits(us);
    time.unit = "us";
    if (busy) time.reason = kBusyHost;
    if (even == nullptr || ranks < 2) continue;
    const auto like = std::ranges::find(even->rows, row.bytes, &BenchRow::bytes);
    if (like == even->rows.end() || like->first_timing().time_us <= 0) continue;
    const double share = std::max(
        1.0, bus_factor(op, ranks) / bus_factor(BenchOp(kernels::Collective::all_to_all), ranks));
    const double most = kLong * share * like->first_timing().time_us;
    time.expected = four_digits(most);
    const std::string usual = four_digits(like->first_timing().time_us);
    time.basis =
        format("{:g} times {:.3g} times the {} us of an even exchange", kLong, share, usual);
    if (busy || us <= most) continue;
    time.warn(format("{} of {} takes {} us, an even exchange of such blocks {} us", name_of(op),
                     size_words(row.bytes, tokens), time.measured, usual),
              "look at what the ports of one host take from many (drops, pauses): collctl "
              "check --only pairs,counters");
  }
  return found;
}

Status check_traffic(CheckRun& run) {
  const bool own_sizes = !run.line.has("max-bytes") && !run.line.has("min-bytes");
  COLL_ASSIGN(const std::vector<Host> hosts, partners_of(run, "traffic"));
  const size_t before = run.measured.size();
  COLL_TRY(measure_all(run, "traffic", hosts, traffic_specs(run, own_sizes)));
  const BenchReport* even = nullptr;
  for (size_t i = before; i < run.measured.size(); ++i) {
    const BenchReport& report = run.measured[i];
    if (report.spec.collective == kernels::Collective::all_to_all) even = &report;
    if (!is_uneven(report.spec.collective)) continue;
    for (Finding& time : exchange_times(report, even, own_sizes))
      run.findings.push_back(std::move(time));
  }
  return {};
}

}  // namespace collctl::cmd
