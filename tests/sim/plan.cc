#include "tests/sim/plan.h"

#include <algorithm>
#include <random>

#include "base/format.h"

namespace collctl::sim {
namespace {

constexpr const char* kNames[] = {"kill rank",     "stop rank",
                                  "kill agent",    "stop agent",
                                  "kill launcher", "stop launcher",
                                  "cut off host",  "deafen host",
                                  "mute host",     "cut way between hosts",
                                  "slow host",     "Ctrl-C",
                                  "Ctrl-Z",        "repeat a message of host"};

class Draws {
 public:
  explicit Draws(uint64_t seed) : draw_(seed * 0x9e3779b97f4a7c15u + 1) {}
  int below(int n) { return int(draw_() % uint64_t(n)); }
  double between(double from, double to) {
    return from + (to - from) * double(draw_() % 1'000'000) / 1e6;
  }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + below(int(list.size())));
  }

 private:
  std::mt19937_64 draw_;
};

Fault draw_fault(Draws& draw, const Plan& plan) {
  Fault f;
  do f.kind = FaultKind(draw.below(kFaultKinds));
  while (f.kind == FaultKind::cut_way && plan.hosts < 2);
  const bool of_rank = f.kind == FaultKind::kill_rank || f.kind == FaultKind::stop_rank;
  f.what = draw.below(of_rank ? plan.ranks() : plan.hosts);
  if (f.kind == FaultKind::cut_way)
    f.other = (f.what + 1 + draw.below(plan.hosts - 1)) % plan.hosts;
  // While hosts come up, while ranks find each other, while they work, when they end.
  f.at_s =
      draw.of({draw.between(0, 0.4), draw.between(0.1, 1), draw.between(0.5, plan.works_s + 0.5),
               draw.between(plan.works_s, plan.works_s + 0.6)});
  if (f.kind == FaultKind::slow_host) f.at_s = 0;
  const bool goes_over =
      f.kind == FaultKind::stop_launcher || f.kind == FaultKind::suspend ||
      f.kind == FaultKind::slow_host ||
      (f.kind != FaultKind::kill_rank && f.kind != FaultKind::kill_agent && draw.below(3) == 0);
  if (goes_over)
    f.lasts_s = draw.of({draw.between(0.05, 1), draw.between(0.5, plan.heartbeat_s),
                         draw.between(plan.heartbeat_s, 2.5 * plan.heartbeat_s)});
  return f;
}

}  // namespace

std::string Fault::text() const {
  std::string line = format("at {:.6f} s: {}", at_s, kNames[int(kind)]);
  switch (kind) {
    case FaultKind::kill_launcher:
    case FaultKind::stop_launcher:
    case FaultKind::interrupt:
    case FaultKind::suspend:
      break;
    case FaultKind::cut_way:
      line += format(" {} and {}", what, other);
      break;
    default:
      line += format(" {}", what);
  }
  if (lasts_s > 0) line += format(" for {:.6f} s", lasts_s);
  return line;
}

std::string Plan::text() const {
  std::string all = format(
      "seed {}: {} hosts of {} ranks, tree width {}, heartbeat {} s, operations {} s, start {} s, "
      "timeout {} s, grace {} s, works {:.3f} s, latency up to {} ms, {}{}",
      seed, hosts, per_host, tree_width, heartbeat_s, op_timeout_s, start_timeout_s, timeout_s,
      grace_s, works_s, latency_ms, ring ? "ring" : "direct", shrink ? ", shrinks" : "");
  for (const Fault& fault : faults) all += "\n  " + fault.text();
  return all;
}

Plan draw_plan(uint64_t seed, int hosts) {
  Draws draw(seed);
  Plan p;
  p.seed = seed;
  p.hosts = hosts > 0 ? hosts : draw.of({1, 2, 2, 3, 3, 4, 1 + draw.below(16)});
  p.per_host = draw.of({1, 2, 1 + draw.below(4)});
  if (p.ranks() < 2) p.per_host = 2;
  if (p.hosts > 2 && draw.below(2) == 0) p.tree_width = 2 + draw.below(3);
  p.heartbeat_s = draw.of({2.0, 4.0, 15.0});
  p.op_timeout_s = draw.of({3.0, 5.0, 30.0});
  p.start_timeout_s = draw.of({8.0, 16.0, 60.0});
  p.timeout_s = 200;
  p.grace_s = draw.of({1.0, 5.0});
  p.works_s = draw.between(0.5, 12);
  p.latency_ms = draw.of({0.5, 2.0, 20.0, 150.0});
  p.ring = draw.below(2) == 0;
  p.shrink = draw.below(4) == 0;
  constexpr int kHowMany[] = {0, 1, 1, 1, 1, 2, 2, 2, 3, 4};
  for (int k = kHowMany[draw.below(10)]; k > 0; --k) p.faults.push_back(draw_fault(draw, p));
  std::stable_sort(p.faults.begin(), p.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_s < b.at_s; });
  return p;
}

}  // namespace collctl::sim
