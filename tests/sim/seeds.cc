#include "tests/sim/seeds.h"

#include <cstdio>

#include "base/clock.h"
#include "base/format.h"
#include "tests/sim/judge.h"

namespace collctl::sim {
namespace {

constexpr uint64_t kAgainEvery = 16;  // seeds are run twice, and must be the same
constexpr int kMostShown = 5;         // failures told whole

bool fails(const Plan& plan) {
  return !judged(plan, run_plan(plan)).empty();
}

// One simpler plan after the other, as long as it fails.
Plan least(Plan plan) {
  const auto try_out = [&](auto change) {
    Plan simpler = plan;
    change(simpler);
    if (!fails(simpler)) return false;
    plan = simpler;
    return true;
  };
  for (bool again = true; again;) {
    again = false;
    for (size_t i = plan.faults.size(); i-- > 0;)
      again =
          try_out([&](Plan& p) { p.faults.erase(p.faults.begin() + std::ptrdiff_t(i)); }) || again;
    const auto fits = [](const Plan& p) {
      for (const Fault& f : p.faults) {
        const bool of_rank = f.kind == FaultKind::kill_rank || f.kind == FaultKind::stop_rank;
        if (f.what >= (of_rank ? p.ranks() : p.hosts) || f.other >= p.hosts) return false;
      }
      return p.ranks() > 1;
    };
    Plan fewer = plan;
    if (--fewer.hosts; fewer.hosts > 0 && fits(fewer))
      again = try_out([](Plan& p) { --p.hosts; }) || again;
    fewer = plan;
    if (--fewer.per_host; fewer.per_host > 0 && fits(fewer))
      again = try_out([](Plan& p) { --p.per_host; }) || again;
    if (plan.tree_width > 0) again = try_out([](Plan& p) { p.tree_width = 0; }) || again;
    if (plan.shrink) again = try_out([](Plan& p) { p.shrink = false; }) || again;
    if (plan.latency_ms > 0.5) again = try_out([](Plan& p) { p.latency_ms = 0.5; }) || again;
    if (!plan.ring) again = try_out([](Plan& p) { p.ring = true; }) || again;
  }
  return plan;
}

void show(const Plan& plan, const std::vector<std::string>& wrong, int hosts) {
  const std::string size = hosts > 0 ? format(" --hosts {}", hosts) : "";
  std::printf("FAILED: test_sim --seed %llu%s --trace\n  %s\n",
              static_cast<unsigned long long>(plan.seed), size.c_str(), plan.text().c_str());
  for (const std::string& what : wrong) std::printf("  wrong: %s\n", what.c_str());
  const Plan small = least(plan);
  const Ran ran = run_plan(small, {.trace = true});
  std::printf("the least that fails: %s\n", small.text().c_str());
  for (const std::string& what : judged(small, ran)) std::printf("  wrong: %s\n", what.c_str());
  std::printf("%s", ran.trace.c_str());
}

}  // namespace

int run_seeds(const SeedOptions& options) {
  int failed = 0;
  uint64_t turns = 0;
  double virtual_s = 0;
  const int64_t began = base::machine_ns();
  for (uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    const Plan plan = draw_plan(seed, options.hosts);
    const Ran ran = run_plan(plan, {.trace = options.trace});
    turns += ran.turns;
    virtual_s += ran.virtual_s;
    if (options.trace) std::printf("%s\n%s", plan.text().c_str(), ran.trace.c_str());
    std::vector<std::string> wrong = judged(plan, ran);
    if (seed % kAgainEvery == 0 && run_plan(plan).hash != ran.hash)
      wrong.push_back("a second run of the same seed is another");
    if (wrong.empty()) continue;
    if (++failed <= kMostShown)
      show(plan, wrong, options.hosts);
    else
      std::printf("FAILED: seed %llu: %s\n", static_cast<unsigned long long>(seed),
                  wrong.front().c_str());
  }
  const double wall = double(base::machine_ns() - began) / 1e9;
  std::printf("%llu seeds from %llu: %.0f s of jobs in %.1f s, %llu turns, %d failed\n",
              static_cast<unsigned long long>(options.count),
              static_cast<unsigned long long>(options.first), virtual_s, wall,
              static_cast<unsigned long long>(turns), failed);
  return failed;
}

}  // namespace collctl::sim
