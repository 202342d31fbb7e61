#include "tests/sim/team.h"

#include <algorithm>

#include "base/format.h"
#include "base/number_ranges.h"
#include "base/peer_closed.h"

namespace collctl::sim {
namespace {

constexpr int64_t kLook = 50 * kMs;  // how often what has to be together is looked at

}  // namespace

SimRank* Team::rank(int number) const {
  const auto found = ranks_.find(number);
  return found == ranks_.end() ? nullptr : found->second.get();
}

std::vector<int> Team::numbers() const {
  std::vector<int> list;
  for (const auto& [number, one] : ranks_) list.push_back(number);
  return list;
}

int Team::running() const {
  return int(std::count_if(ranks_.begin(), ranks_.end(),
                           [](const auto& entry) { return !entry.second->exited(); }));
}

bool Team::passes(const SimRank& a, const SimRank& b) const {
  return network_.passes(a.host(), b.host()) && network_.passes(b.host(), a.host());
}

void Team::begins(SimRank&, int generation, const std::vector<int>& members) {
  generations_[generation].members = members;
}

// At the first member's root, which must be reached for it.
void Team::check_in(SimRank& one) {
  const int generation = one.generation();
  Generation& g = of(one);
  SimRank* root = rank(g.members.front());
  if (&one == root) {
    one.later(one.start_by().remaining_ns(), [this, root, generation] {
      if (root->works(generation) && !generations_[generation].connecting) missing(*root);
    });
  } else if (!passes(one, *root)) {
    // It tries again and again, until a little before its time is up.
    if (one.connect_by().passed()) {
      Error e =
          base::cannot_connect(format("rank {}", one.number()), format("rank {}", root->number()),
                               root->host(), base::no_connection("10.0.0.1:4242"));
      e.rank = root->number();
      return one.fail(std::move(e), true);
    }
    return one.later(kLook, [this, &one, generation] {
      if (one.works(generation)) check_in(one);
    });
  }
  g.there.insert(one.number());
  if (g.there.size() < g.members.size() || g.connecting) return;
  g.connecting = true;
  for (const int member : g.members)
    rank(member)->later(world_.draw_ns(kMs, 10 * kMs), [this, member, generation] {
      if (rank(member)->works(generation)) rank(member)->say_phase("connect");
    });
  world_.after(15 * kMs, [this, generation] { connect(generation); });
}

void Team::missing(SimRank& root) {
  const Generation& g = of(root);
  std::vector<int> absent;
  for (const int member : g.members)
    if (!g.there.contains(member)) absent.push_back(member);
  Error e(ErrorCode::deadline, format("{}/{} ranks checked in; missing: ranks {}", g.there.size(),
                                      g.members.size(), base::number_ranges(absent, ", ")));
  if (absent.empty()) return;
  e.rank = absent.front();
  if (const SimRank* first = rank(absent.front())) e.host = first->host();
  root.fail(std::move(e.within("bootstrap: check-in")), true);
}

bool Team::stuck(int generation, int number) const {
  const SimRank* one = rank(number);
  return one == nullptr || one->stopped() || !one->works(generation);
}

// Also when the other has ended: no word of that gets through.
bool Team::no_way(const SimRank& one, int peer) const {
  const SimRank* other = rank(peer);
  return other != nullptr && !other->stopped() && !passes(one, *other);
}

// In a ring neighbours are, else all.
bool Team::are_linked(const Generation& g, int a, int b) const {
  const auto at = [&](int number) {
    return std::find(g.members.begin(), g.members.end(), number) - g.members.begin();
  };
  const auto apart = std::abs(at(a) - at(b));
  return !options_.ring || apart == 1 || apart + 1 == std::ssize(g.members);
}

bool Team::all_move(int generation) const {
  const Generation& g = generations_.at(generation);
  return std::none_of(g.members.begin(), g.members.end(), [&](int a) {
    return stuck(generation, a) || std::any_of(g.members.begin(), g.members.end(), [&](int b) {
             return a != b && are_linked(g, a, b) && !stuck(generation, b) &&
                    !passes(*rank(a), *rank(b));
           });
  });
}

int Team::unreached(const SimRank& one) const {
  const Generation& g = generations_.at(one.generation());
  const auto self = std::find(g.members.begin(), g.members.end(), one.number());
  const int next = self + 1 == g.members.end() ? g.members.front() : self[1];
  for (const int peer : g.members)
    if ((options_.ring ? peer == next : peer != one.number()) && no_way(one, peer)) return peer;
  return -1;
}

int Team::awaited(const SimRank& one) const {
  const auto found = generations_.find(one.generation());
  if (found == generations_.end() || all_move(one.generation())) return -1;
  const auto& members = found->second.members;
  const size_t self =
      size_t(std::find(members.begin(), members.end(), one.number()) - members.begin());
  // Its predecessor, or the first of them that does not move or is not reached.
  for (size_t back = 1; back < members.size(); ++back) {
    const int peer = members[(self + members.size() - back) % members.size()];
    if (options_.ring || stuck(one.generation(), peer) || !passes(one, *rank(peer))) return peer;
  }
  // All are there and reached: they wait for each other, and this one for the next call of one.
  return members[(self + 1) % members.size()] == one.number()
             ? -1
             : members[(self + members.size() - 1) % members.size()];
}

// Each to its successor, or to all, by the end of the start.
void Team::connect(int generation) {
  Generation& g = generations_[generation];
  if (g.working || g.over) return;
  if (all_move(generation)) return work(generation);
  for (size_t i = 0; i < g.members.size(); ++i) {
    SimRank* one = rank(g.members[i]);
    if (stuck(generation, one->number())) continue;
    const int peer = unreached(*one);
    if (peer >= 0 && one->connect_by().passed()) {
      Error e = base::cannot_connect(format("rank {}", one->number()), format("rank {}", peer),
                                     rank(peer)->host(), base::no_connection("10.0.0.1:4242"));
      e.rank = peer;
      one->fail(std::move(e), true);
    } else if (one->start_by().passed()) {
      const int late = awaited(*one);
      if (late < 0) continue;
      Error e(ErrorCode::deadline, format("rank {} waited until the deadline for {}", one->number(),
                                          rank(late)->name()));
      e.rank = late;
      e.host = rank(late)->host();
      e.cause = Cause::late;
      one->fail(std::move(e.within("connect")), true);
    }
  }
  const bool any = std::any_of(g.members.begin(), g.members.end(),
                               [&](int m) { return rank(m)->works(generation); });
  if (any) world_.after(kLook, [this, generation] { connect(generation); });
}

void Team::work(int generation) {
  generations_[generation].working = true;
  for (const int member : generations_[generation].members)
    rank(member)->later(world_.draw_ns(0, 2 * kMs), [this, member, generation] {
      if (rank(member)->works(generation)) rank(member)->say_phase("measure");
    });
  tick(generation, world_.now() + options_.works_ns);
}

void Team::tick(int generation, int64_t finish_at) {
  Generation& g = generations_[generation];
  const bool any = std::any_of(g.members.begin(), g.members.end(),
                               [&](int m) { return rank(m)->works(generation); });
  if (!any || g.over) return;
  if (all_move(generation)) {
    SimRank* first = rank(g.members.front());
    if (world_.chance(10)) first->later(0, [first] { first->say_data(); });
    if (world_.now() >= finish_at) {
      g.over = true;
      for (const int member : g.members) rank(member)->finish();
      return;
    }
  }
  world_.after(kLook, [this, generation, finish_at] { tick(generation, finish_at); });
}

void Team::closed(const SimRank& gone) {
  for (const auto& [number, other] : ranks_) {
    if (other.get() == &gone || !other->works(gone.generation()) || !passes(*other, gone)) continue;
    if (gone.generation() < 0 || !generations_[gone.generation()].there.contains(gone.number()))
      continue;
    other->later(world_.draw_ns(100'000, 30 * kMs),
                 [raw = other.get(), whom = rank(gone.number()), generation = gone.generation()] {
                   if (raw->generation() == generation) raw->hears_closed(*whom);
                 });
  }
  disturbed();
}

void Team::notify(const SimRank& from, Error error) {
  if (error.from < 0) error.from = from.number();
  for (const auto& [number, other] : ranks_) {
    if (other.get() == &from || !other->works(from.generation()) || !passes(*other, from)) continue;
    const auto& there = generations_[from.generation()].there;
    if (!there.contains(from.number()) || !there.contains(number)) continue;
    other->later(world_.draw_ns(100'000, 10 * kMs),
                 [raw = other.get(), error, generation = from.generation()] {
                   if (raw->generation() == generation) raw->hears_notice(error);
                 });
  }
}

// Ranks that worked begin to wait, unless all is well again.
void Team::disturbed() {
  for (const auto& [number, one] : ranks_) {
    const auto found = generations_.find(one->generation());
    if (found == generations_.end() || !one->works(one->generation())) continue;
    if (!found->second.working || found->second.over) continue;
    if (all_move(one->generation()))
      one->is_calm();
    else
      one->begins_to_wait();
  }
}

}  // namespace collctl::sim
