// How waits pass the time, by a clock that is only set.
#include "base/wait_policy.h"

#include "base/clock.h"
#include "tests/catch.h"

namespace wait_policy_tests {

using namespace collctl::base;
using Next = Patience::Next;

namespace {

constexpr int64_t kUs = 1'000, kStart = 5'000'000'000;

// The steps at each microsecond of a wait until it would sleep: how many of each.
struct Course {
  int64_t spins = 0, yields = 0;
  bool in_order = true;  // spins, then yields
};
Course course(Patience& patience, int64_t from = kStart) {
  Course c;
  for (int64_t at = from;; at += kUs) {
    const Next next = patience.next(at);
    if (next == Next::sleep) return c;
    if (next == Next::spin) c.in_order &= c.yields == 0;
    ++(next == Next::spin ? c.spins : c.yields);
  }
}

}  // namespace

TEST_CASE("a rank with a core of its own spins longer than a wake-up takes") {
  for (const int64_t wakeup : {10 * kUs, 80 * kUs, 400 * kUs}) {
    WaitPolicy policy(WaitPolicy::own_core(wakeup));
    Patience patience(policy, 50);
    CHECK(patience.first() == Next::spin);
    const Course c = course(patience);
    CHECK(c.spins * kUs >= wakeup);
    CHECK(c.yields == 50);
    CHECK(c.in_order);
  }
  // A machine that takes absurdly long is not worth it.
  CHECK(WaitPolicy::own_core(1'000'000 * kUs).most_ns <= 4'000 * kUs);
}

TEST_CASE("where ranks share cores nobody spins") {
  WaitPolicy policy(WaitPolicy::crowded());
  Patience patience(policy, 50), at_once(policy, 0);
  CHECK(patience.first() == Next::yield);
  CHECK(at_once.first() == Next::sleep);
  CHECK(at_once.next(kStart) == Next::sleep);
  const Course c = course(patience);
  CHECK(c.spins == 0);
  CHECK(c.yields == 50);
  patience.sleeps();
  patience.moved(kStart + 200 * kUs);
  CHECK(course(patience, kStart + 200 * kUs).yields == 4);
  policy.slept(100 * kUs);
  CHECK(policy.awake_ns() == 0);
}

TEST_CASE("where a rank may share a core it spins briefly and yields for as long") {
  WaitPolicy own(WaitPolicy::own_core(20 * kUs)), some(WaitPolicy::somewhere(20 * kUs));
  Patience patience(some, 0);
  const Course c = course(patience);
  CHECK(c.spins == 5);
  CHECK((c.spins + c.yields) * kUs == own.awake_ns());
}

TEST_CASE("a number of microseconds that was asked for stays") {
  WaitPolicy policy(WaitPolicy::fixed(30 * kUs));
  for (const int64_t waited : {40 * kUs, 10 * kUs, 50'000 * kUs}) {
    policy.slept(waited);
    Patience patience(policy, 7);
    const Course c = course(patience);
    CHECK(c.spins == 30);
    CHECK(c.yields == 7);
  }
  WaitPolicy none(WaitPolicy::fixed(0));
  CHECK(Patience(none, 7).first() == Next::yield);
}

TEST_CASE("a sleep that ended soon makes the next waits longer, idle ones shorter again") {
  WaitPolicy policy(WaitPolicy::own_core(10 * kUs));
  const auto [spin, least, most] = policy.terms();
  {
    Patience patience(policy, 2);
    course(patience);
    CHECK_FALSE(patience.slept());
    patience.sleeps();
    CHECK(patience.slept());
    patience.ended(kStart + 300 * kUs);
  }
  CHECK(policy.awake_ns() == 600 * kUs);
  {
    Patience patience(policy, 2);  // would have met it awake
    const Course c = course(patience);
    CHECK((c.spins + c.yields) * kUs >= 300 * kUs);
  }
  policy.slept(most);
  CHECK(policy.awake_ns() == most);
  for (int i = 0; i < 20; ++i) policy.slept(1'000'000 * kUs);
  CHECK(policy.awake_ns() == least);
}

TEST_CASE("an idle wait sleeps and does not spin again in between") {
  WaitPolicy policy(WaitPolicy::own_core(10 * kUs));
  Patience patience(policy, 50);
  course(patience);
  for (int64_t nap = 1; nap < 100; ++nap) {
    patience.sleeps();
    const Course c = course(patience, kStart + nap * 20'000 * kUs);
    CHECK(c.spins == 0);
    CHECK(c.yields == 4);
  }
  // A wait after progress is a new one.
  patience.sleeps();
  patience.moved(kStart + 9'000'000 * kUs);
  CHECK(course(patience, kStart + 9'000'000 * kUs).spins > 0);
}

TEST_CASE("a wake-up is measured once, and quickly enough for every start") {
  const int64_t began = now_ns(), found = wakeup_ns();
  CHECK(found > 0);
  CHECK(found <= now_ns() - began);
  CHECK(wakeup_ns() == found);
  CHECK(known_wakeup_ns() == found);
}

TEST_CASE("who lost the core to others sleeps at once for a while") {
  WaitPolicy policy(WaitPolicy::own_core(10 * kUs));
  // Loses the core for three milliseconds; as often as it does, nobody spins for one.
  for (const int64_t at : {kStart, kStart + 5'000 * kUs, kStart + 60'000'000 * kUs}) {
    REQUIRE(policy.has_core(at));
    Patience patience(policy, 50);
    CHECK(patience.next(at) == Next::spin);
    CHECK(patience.next(at + kUs) == Next::spin);
    CHECK(patience.next(at + 3'001 * kUs) == Next::sleep);
    Patience other(policy, 50);  // what is nearly there is met all the same
    const Course c = course(other, at + 3'001 * kUs);
    CHECK(c.spins <= 5);
    CHECK(c.yields == 0);
    CHECK(!policy.has_core(at + 4'000 * kUs));
    CHECK(policy.has_core(at + 4'002 * kUs));
  }
  // A sleep is no loss.
  Patience sleeper(policy, 1);
  const int64_t later = kStart + 120'000'000 * kUs;
  course(sleeper, later);
  sleeper.sleeps();
  sleeper.next(later + 20'000 * kUs);
  CHECK(policy.has_core(later + 20'000 * kUs));
  WaitPolicy fixed(WaitPolicy::fixed(30 * kUs));
  fixed.lost_core(kStart);
  CHECK(fixed.has_core(kStart));
}

}  // namespace wait_policy_tests
