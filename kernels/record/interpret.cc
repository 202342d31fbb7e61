#include "kernels/record/interpret.h"

#include "base/format.h"
#include "kernels/record/expect.h"
#include "kernels/record/machine.h"

namespace collctl::kernels {
namespace {

// The assumption of the machine that does not hold; empty: all do.
std::string unfit(std::span<const Schedule> schedules, const Wires& wires) {
  if (schedules.empty()) return "there is no schedule";
  const Work& first = schedules.front().work;
  if (first.nranks < 1 || first.nranks > 64)
    return format("{} ranks: between 1 and 64 can be proved", first.nranks);
  if (wires.slot_count == 0 || wires.slot_data_bytes < 16)
    return "a fifo needs a slot of 16 bytes at least";
  if (wires.window_banks < 1) return "a window needs a bank";
  for (const Schedule& s : schedules) {
    if (s.work.nranks != first.nranks || s.work.rank < 0 || s.work.rank >= first.nranks ||
        s.work.channel >= kMaxChannels)
      return format("rank {} of {}, channel {}: not of this job", s.work.rank, s.work.nranks,
                    s.work.channel);
    if (s.work.type != first.type) return "the ranks differ in the data type";
  }
  return {};
}

Proof fault(Proof::Outcome outcome, std::string what) {
  Proof proof;
  proof.outcome = outcome;
  proof.what = std::move(what);
  return proof;
}

}  // namespace

Proof interpret(std::span<const Schedule> schedules, const Wires& wires) {
  if (std::string bad = unfit(schedules, wires); !bad.empty())
    return fault(Proof::Outcome::wrong, std::move(bad));
  const int nranks = schedules.front().work.nranks;
  const uint64_t element_bytes = element_size(schedules.front().work.type);
  Machine machine(schedules, wires, nranks);
  machine.run();
  Proof proof;
  machine.measure(proof);
  const auto wrong = [&](std::string what) {
    proof.outcome = Proof::Outcome::wrong;
    proof.what = std::move(what);
    return proof;
  };
  if (!machine.wrong().empty()) return wrong(machine.wrong());
  if (!machine.finished()) {
    proof.outcome = Proof::Outcome::deadlock;
    machine.describe_deadlock(proof);
    return proof;
  }
  if (std::string left = machine.leftover(); !left.empty()) return wrong(left);
  machine.forget_scratch(schedules);
  const std::vector<Memory> wanted = outputs_of(schedules, nranks);
  for (int r = 0; r < nranks; ++r) {
    const size_t i = static_cast<size_t>(r);
    const std::string bad = machine.memories()[i].difference(wanted[i], element_bytes);
    if (!bad.empty()) return wrong(format("rank {} {}", r, bad));
  }
  return proof;
}

namespace {

struct Range {
  uint64_t begin, end;
};
bool overlap(const Range& a, const Range& b) {
  return a.begin < b.end && b.begin < a.end;
}

bool conflict(const Event& a, const Event& b, uint64_t element_bytes) {
  const VerbShape x = shape_of(a.verb), y = shape_of(b.verb);
  const auto range = [&](uint64_t at, uint64_t n) { return Range{at, at + n * element_bytes}; };
  return (x.writes && y.reads && overlap(range(a.to, a.n), range(b.from, b.n))) ||
         (x.reads && y.writes && overlap(range(a.from, a.n), range(b.to, b.n))) ||
         (x.writes && y.writes && overlap(range(a.to, a.n), range(b.to, b.n)));
}

// How far `other` can get while `held` waits before its event `at`.
size_t progress_without(std::span<const Schedule> schedules, const Wires& wires, int held,
                        size_t at, int other) {
  Machine machine(schedules, wires, schedules.front().work.nranks);
  machine.run(held, at);
  const Agent& agent = machine.agents()[static_cast<size_t>(other)];
  return agent.at + (agent.slice > 0 ? 1 : 0);  // begun counts: its first slice may touch the bytes
}

}  // namespace

std::string find_race(std::span<const Schedule> schedules, const Wires& wires) {
  if (std::string bad = unfit(schedules, wires); !bad.empty()) return bad;
  const Machine shape(schedules, wires, schedules.front().work.nranks);
  const std::vector<Agent>& agents = shape.agents();
  for (int a = 0; a < static_cast<int>(agents.size()); ++a) {
    for (int b = a + 1; b < static_cast<int>(agents.size()); ++b) {
      const Agent& x = agents[static_cast<size_t>(a)];
      const Agent& y = agents[static_cast<size_t>(b)];
      if (x.rank != y.rank) continue;
      for (size_t i = 0; i < x.events->size(); ++i) {
        for (size_t j = 0; j < y.events->size(); ++j) {
          if (!conflict((*x.events)[i], (*y.events)[j], x.element_bytes)) continue;
          // Ordered when one of them cannot begin before the other is past.
          if (progress_without(schedules, wires, a, i, b) <= j) continue;
          if (progress_without(schedules, wires, b, j, a) <= i) continue;
          return format(
              "rank {}: {} (event {} of part {}) and {} (event {} of part {}) touch the "
              "same elements in no fixed order",
              x.rank, name_of((*x.events)[i].verb), i, x.part, name_of((*y.events)[j].verb), j,
              y.part);
        }
      }
    }
  }
  return {};
}

}  // namespace collctl::kernels
