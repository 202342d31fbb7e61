#include "tests/sim/scene.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "tests/sim/hosts.h"

namespace collctl::sim {
namespace {

// Before it says who waits for whom.
std::set<std::string> named(const std::string& text) {
  std::set<std::string> hosts;
  const std::string first = text.substr(0, std::min(text.find("; rank"), text.find('\n')));
  for (size_t at = first.find("node"); at != std::string::npos; at = first.find("node", at + 1))
    hosts.insert(first.substr(at, 6));
  return hosts;
}

}  // namespace

Ran expect_end(Findings& findings, Plan plan, uint64_t seed, const Expected& expected,
               const RunOptions& options) {
  plan.seed = seed;
  const Ran ran = run_plan(plan, options);
  const std::string sketch = plan.text() + "\n  ";
  const auto expect = [&](bool holds, const std::string& what) {
    findings.expect(holds, sketch + what);
  };
  expect(!ran.spins, "somebody goes on and on");
  expect(ran.agents_left == 0, format("{} agents stay", ran.agents_left));
  expect(ran.ranks_left == 0, format("{} ranks stay", ran.ranks_left));
  if (!ran.outcome) {
    expect(expected.code == 137, "the launcher has no outcome");
    return ran;
  }
  const Error none(ErrorCode::failed, "");
  const Error& e = ran.outcome->error ? *ran.outcome->error : none;
  const std::string text = e.chain() + "; " + e.hint;
  const std::string told =
      format("code {}, rank {}, host {}: {}", ran.outcome->exit_code, e.rank, e.host, text);
  expect(ran.outcome->exit_code == expected.code, format("not code {}: {}", expected.code, told));
  for (const std::string& words : expected.says)
    expect(text.find(words) != std::string::npos, format("does not say '{}': {}", words, told));
  for (const std::string& words : expected.lacks)
    expect(text.find(words) == std::string::npos, format("says '{}': {}", words, told));
  expect(expected.rank < 0 || e.rank == expected.rank,
         format("not rank {}: {}", expected.rank, told));
  std::set<std::string> hosts;
  for (const int host : expected.hosts) hosts.insert(Hosts::name(host));
  expect(hosts.empty() || named(e.chain()) == hosts, "other hosts are named: " + told);
  const double last_s = plan.faults.empty() ? 0 : plan.faults.back().at_s;
  expect(expected.within_s <= 0 || ran.ended_s - last_s <= expected.within_s,
         format("{:.2f} s after the fault, not {:.2f}: {}", ran.ended_s - last_s, expected.within_s,
                told));
  return ran;
}

}  // namespace collctl::sim
