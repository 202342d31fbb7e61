#include "base/wait_policy.h"

#include <sys/prctl.h>

#include <algorithm>
#include <array>

#include "base/wait.h"

namespace collctl::base {
namespace {

// Two ranks that share a core have work for each other: only a yield tells the scheduler so.
constexpr int64_t kBlindSpinNs = 5'000;
constexpr int64_t kLeastSpinNs = 50'000, kLongestSpinNs = 1'000'000;
// A peer whose core was taken for a turn comes back within this.
constexpr int64_t kMostAwakeNs = 1'000'000, kLongestAwakeNs = 4'000'000;
constexpr int64_t kMostWakeups = 16;

// A look takes about a microsecond, an interrupt some; a turn of somebody else milliseconds.
constexpr int64_t kLostNs = 500'000;
constexpr int64_t kSharedNs = 1'000'000;

constexpr int kSleeps = 9;
constexpr int64_t kSleepNs = 50'000;
std::atomic<int64_t> measured_ns{0};

int64_t measure_wakeup() {
  // Timers of a thread may be late by its slack, which is no cost of waking up.
  const int slack = ::prctl(PR_GET_TIMERSLACK);
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  std::array<int64_t, kSleeps> late{};
  for (int64_t& each : late) {
    const int64_t until = now_ns() + kSleepNs;
    sleep_until(Deadline::at_ns(until));
    each = std::max<int64_t>(now_ns() - until, 1);
  }
  if (slack > 0) ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
  // The median: some of them wait for other processes as well.
  std::nth_element(late.begin(), late.begin() + kSleeps / 2, late.end());
  return late[kSleeps / 2];
}

}  // namespace

int64_t wakeup_ns() {
  static const int64_t found = measure_wakeup();
  measured_ns.store(found, std::memory_order_relaxed);
  return found;
}

int64_t known_wakeup_ns() {
  return measured_ns.load(std::memory_order_relaxed);
}

WaitPolicy::Terms WaitPolicy::own_core(int64_t wakeup) {
  const int64_t spin = std::clamp(2 * wakeup, kLeastSpinNs, kLongestSpinNs);
  return {spin, spin, std::clamp(kMostWakeups * wakeup, kMostAwakeNs, kLongestAwakeNs)};
}

WaitPolicy::Terms WaitPolicy::somewhere(int64_t wakeup) {
  const Terms own = own_core(wakeup);
  return {kBlindSpinNs, own.least_ns, own.most_ns};
}

void WaitPolicy::slept(int64_t waited_ns) {
  const int64_t now = awake_ns();
  const int64_t next = waited_ns <= terms_.most_ns ? std::max(now, 2 * waited_ns) : now / 2;
  awake_ns_.store(std::clamp(next, terms_.least_ns, terms_.most_ns), std::memory_order_relaxed);
}

void WaitPolicy::lost_core(int64_t now_ns) {
  if (terms_.least_ns == terms_.most_ns) return;  // crowded, or asked for: as it is
  shared_until_ns_.store(now_ns + kSharedNs, std::memory_order_relaxed);
}

Patience::Next Patience::next(int64_t now_ns) {
  if (began_ns_ == 0) began_ns_ = now_ns;
  if (looked_ns_ != 0 && now_ns - looked_ns_ > kLostNs && policy_->has_core(now_ns))
    policy_->lost_core(now_ns);
  looked_ns_ = now_ns;
  const int64_t waited = now_ns - began_ns_;
  if (!policy_->has_core(now_ns))
    return !slept_ && waited < kBlindSpinNs ? Next::spin : Next::sleep;
  if (!slept_ && waited < awake_ns_)
    return waited < policy_->terms().spin_ns ? Next::spin : Next::yield;
  return yields_++ < most_yields_ ? Next::yield : Next::sleep;
}

}  // namespace collctl::base
