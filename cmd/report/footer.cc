// The lines below the rows of a measurement: averages, what others had of the hosts, the verdict.
#include <algorithm>
#include <map>
#include "base/format.h"
#include "cmd/judge/stragglers.h"
#include "cmd/report/report.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {

namespace {

// Never all zeros, which would be no figure.
std::string rate_digits(double GBps) {
  return GBps < 0.001 ? format("{:.4g}", GBps) : four_digits(GBps);
}

// Costs of the two sides' communicators.
std::string cost_lines(const BenchClosing& closing) {
  if (!closing.costs) return "";
  const StartCost &own = closing.own_cost, &other = closing.other_cost;
  std::string text = format("# First result after   : {:.3f} s, {} {:.3f} s\n", own.seconds,
                            closing.other, other.seconds);
  if (own.buffer_bytes != 0 && other.buffer_bytes != 0)
    text += format("# Buffers on a GPU     : {}, {} {}", human_bytes(own.buffer_bytes),
                   closing.other, human_bytes(other.buffer_bytes));
  else
    text += format("# Buffers on a GPU     : not known");
  if (own.taken_bytes != 0 && other.taken_bytes != 0)
    text += format(" (taken at the start, with the kernels' code: {}, {} {})",
                   human_bytes(own.taken_bytes), closing.other, human_bytes(other.taken_bytes));
  return text + "\n";
}

// --stragglers: who was late, then how the ranks' time went, those first that waited least.
std::string waits_lines(std::vector<RankWaits> waits) {
  if (waits.empty()) return "";
  constexpr size_t kMostNamed = 16;
  const auto late = stragglers(waits);
  std::string text = late.empty() ? "# Late                 : nobody stands out\n" : "";
  for (const Straggler& one : late)
    text += format("# Late                 : {}: {}\n", straggler_name(one), one.why);
  std::ranges::stable_sort(waits, [](const RankWaits& a, const RankWaits& b) {
    return a.own_us() * b.elapsed_us > b.own_us() * a.elapsed_us;
  });
  for (size_t i = 0; i < std::min(waits.size(), kMostNamed); ++i) {
    const RankWaits& rank = waits[i];
    const auto most =
        std::ranges::max_element(rank.peers, [](const PeerWaits& a, const PeerWaits& b) {
          return a.recv_us + a.send_us < b.recv_us + b.send_us;
        });
    const auto percent = [&](double us) {
      return rank.elapsed_us > 0 ? 100 * us / rank.elapsed_us : 0;
    };
    text +=
        format("#   rank {:<5} {}: waited {:.0f} %", rank.rank, rank.host, percent(rank.waited_us));
    if (most != rank.peers.end() && most->recv_us + most->send_us > 0)
      text += format(", most for rank {} ({:.0f} %)", most->peer,
                     percent(most->recv_us + most->send_us));
    text += "\n";
  }
  if (waits.size() > kMostNamed)
    text += format("#   and {} ranks that waited more\n", waits.size() - kMostNamed);
  return text;
}

// Where the times expected come from, and what limits the largest size.
std::string expected_line(const BenchReport& report) {
  const auto last = std::find_if(report.rows.rbegin(), report.rows.rend(),
                                 [](const BenchRow& row) { return row.expected.has_value(); });
  if (last == report.rows.rend())
    return has_expectation(report.spec.collective) || report.rows.empty()
               ? ""
               : "# Expected             : nothing; no model knows uneven exchanges\n";
  const RowExpected& expected = *last->expected;
  if (last->standard() == nullptr)
    return format("# Expected             : nothing, as {} is not known\n", expected.unknown);
  return format("# Expected             : {}; at {} limited by {}\n",
                expected.source == "model" ? "by the model"
                                           : "the bound of the paths, no model knows this machine",
                human_bytes(last->bytes), expected.limited_by);
}

std::string slowest_group_lines(const BenchReport& report) {
  const SlowestGroups slowest = slowest_groups(report);
  if (slowest.measured == 0) return "";
  const SlowestGroups::Group& most = slowest.groups[0];
  return format(
      "# Slowest group        : {} in {} of {} rows; at {} group {} took {:.2f} times as long as "
      "the fastest\n",
      most.group, most.times, slowest.measured, human_bytes(slowest.largest_bytes),
      slowest.at_largest, slowest.ratio);
}

std::string closing_lines(const BenchReport& report) {
  if (!report.closing) return "";
  std::string text = cost_lines(*report.closing);
  for (const LeftOut& out : report.closing->left_out)
    text += format("# Not measured         : {} ({}): {}\n", report.closing->other, out.variant,
                   out.reason);
  std::map<std::string, std::vector<std::string>> busy;  // by why
  for (const BusyHost& host : report.closing->busy) busy[host.why].push_back(host.host.name);
  for (const auto& [why, hosts] : busy)
    text += format("# During the run       : host{} {}: {}\n", hosts.size() == 1 ? "" : "s",
                   folded_hosts(hosts), why);
  text += waits_lines(report.closing->waits);
  for (const ThrottledGpu& gpu : report.closing->throttled)
    text += format("# During the run       : GPU {} ({}) of {}, rank {}: {}\n", gpu.device,
                   gpu.bus_id, gpu.host, gpu.rank, gpu.why);
  return text;
}

}  // namespace

std::string text_footer(const BenchReport& report, const Verdict& verdict, const Console& console,
                        const std::string& left_out) {
  constexpr size_t kMostReasons = 10;
  std::string text = "#\n";
  if (!left_out.empty()) text += format("# Columns left out     : {} (see --wide)\n", left_out);
  int64_t wrong = 0, checked = 0;
  for (const BenchRow& row : report.rows)
    for (const Timing* t : {&row.out_of_place, &row.in_place})
      if (t->measured && t->wrong >= 0) {
        wrong += t->wrong;
        ++checked;
      }
  const Average average = average_busbw(report);
  if (report.spec.soak && !verdict.error())
    text += format("# Random operations    : {} of seed {}, every element right\n",
                   report.spec.soak_operations, report.spec.soak_seed);
  if (checked == 0 && average.timings != 0)
    text += "# Out of bounds values : not checked\n";
  else if (average.timings != 0)
    text += format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  if (average.timings != 0 && report.spec.collective != kernels::Collective::barrier) {
    text += format("# Avg bus bandwidth    : {} GB/s\n", rate_digits(average.busbw_GBps));
    if (average.timings > 1 && average.best_GBps > 0)  // one rank sends nobody anything
      text +=
          format("#   (mean of all {} timings, small sizes included; the best was {} GB/s at {})\n",
                 average.timings, rate_digits(average.best_GBps), human_bytes(average.best_bytes));
  }
  text += slowest_group_lines(report);
  text += expected_line(report);
  if (std::ranges::any_of(report.rows, [](const BenchRow& row) {
        return row.out_of_place.unsteady || row.in_place.unsteady;
      }))
    text +=
        "# unsteady             : the medians of the first and the last half of the iterations "
        "differ "
        "by more than 30 %\n";
  if (const Comparison other = compared(report); other.timings != 0)
    text += format("# Ratio to {:<12}: {:.3f} (geometric mean of {}; lowest {:.3f} at {})\n",
                   other.name, other.ratio, other.timings, other.lowest,
                   human_bytes(other.lowest_bytes));
  text += closing_lines(report);
  Judgement judged;
  judged.verdict = verdict;
  text += format("# Verdict              : {}\n",
                 verdict_coloured(verdict, &console, verdict_words(judged)));
  size_t shown = 0;
  for (const Reason& reason : verdict.reasons())
    if (shown++ < kMostReasons) text += format("#   {}\n", reason.message);
  if (shown > kMostReasons) text += format("#   and {} more\n", shown - kMostReasons);
  return text;
}

}  // namespace collctl::cmd
