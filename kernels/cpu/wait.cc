#include "kernels/cpu/wait.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/check.h"
#include "base/clock.h"
#include "base/wait.h"

namespace collctl::kernels {
namespace {

// A clock read costs as much as several pauses, and an assist may cost a system call.
constexpr uint32_t kSpinsPerLook = 32;
constexpr uint32_t kYields = 50;
// Each costs system calls on the network links; poll wakes the right rank anyway.
constexpr uint32_t kProxiedYields = 5;
// Aborts do not ring: this is how late a sleeper sees one.
constexpr int64_t kNapNs = 20'000'000;
// Between two looks of a thread that may run: a nap, and somebody else's turn on its processor.
// A longer time is not the peer's.
constexpr int64_t kMostBetweenLooksNs = 3 * kNapNs / 2;
// Where nobody rings (the other side knows no sleepers): a small part of what was waited already,
// so that what never comes does not take a processor.
constexpr int64_t kBlindNapNs = 50'000, kLongestBlindNapNs = 2'000'000, kBlindNapPart = 64;

// The policy of contexts that name none.
base::WaitPolicy& policy_of(const CpuContext& context) {
  static base::WaitPolicy crowded(base::WaitPolicy::crowded());
  return context.waiting != nullptr ? *context.waiting : crowded;
}

}  // namespace

PatientWait::PatientWait(CpuWork& work, const WaitPoint& point)
    : work_(work),
      point_(point),
      sleeper_(point.sleeper),
      patience_(policy_of(work.context), point.proxied ? kProxiedYields : kYields),
      next_(patience_.first()) {
  if (work.context.waits != nullptr && work.context.waits->sums()) looked_ns_ = base::now_ns();
}

PatientWait::~PatientWait() {
  // Pairs with the exchange in turn(). A waker that saw the 1 rings in vain, which is harmless.
  if (armed_ && !point_.shared)
    std::atomic_ref<uint32_t>(*sleeper_).exchange(0, std::memory_order_acq_rel);
  if (patience_.slept()) patience_.ended(base::now_ns());
  WaitLog* const log = work_.context.waits;
  if (noted_ >= 0) log->end(noted_);
  if (looked_ns_ == 0) return;
  now_ns_ = base::now_ns();
  count_look();
  log->add(point_.peer, point_.side, work_.work.channel, waited_ns_, away_ns_);
}

void PatientWait::count_look() {
  const int64_t passed = now_ns_ - looked_ns_;
  const int64_t waited = passed < kMostBetweenLooksNs ? passed : kNapNs;
  waited_ns_ += waited;
  away_ns_ += passed - waited;
  looked_ns_ = now_ns_;
}

Report PatientWait::reported(ReportCode code) const {
  Report report = work_.report(code);
  report.side = point_.side;
  report.peer = point_.peer;
  report.step = point_.step;
  report.seen = *point_.seen;
  report.wanted = point_.wanted;
  return report;
}

bool PatientWait::turn() {
  switch (next_) {
    case Next::spin:
      // Each look at a network is a system call: no other pause is needed. And what this block
      // published last waits for an assist, which the first turn gives it.
      if (work_.context.assist != nullptr && (proxied() || turns_ == 0)) {
        ++turns_;
        break;
      }
      pause_cpu();
      if (++turns_ % kSpinsPerLook != 0) return true;
      break;
    case Next::yield:
      base::yield_thread();
      break;
    case Next::sleep:
      if (!announced_) return announce();
      announced_ = false;
      patience_.sleeps();
      rest();
      break;
  }
  return look_around();
}

// A peer that publishes from now on rings; the caller looks once more before it sleeps.
bool PatientWait::announce() {
  announced_ = true;
  if (sleeper_ != nullptr) {
    std::atomic_ref<uint32_t>(*sleeper_).exchange(1, std::memory_order_seq_cst);
    armed_ = true;
  }
  if (work_.context.waits != nullptr && noted_ < 0)
    noted_ = work_.context.waits->begin(reported(ReportCode::none), start_ns_);
  return true;
}

void PatientWait::rest() {
  const CpuContext& context = work_.context;
  const int64_t nap = sleeper_ != nullptr ? kNapNs
                                          : std::clamp((now_ns_ - start_ns_) / kBlindNapPart,
                                                       kBlindNapNs, kLongestBlindNapNs);
  const int64_t end = start_ns_ + context.op_timeout_ns;
  const int64_t until = now_ns_ + nap < end ? now_ns_ + nap : end;
  // Only proxied fifos ring the bell that assist_sleep hears. Before another sleep the links are
  // handed back (until_ns 0), so that somebody else moves them meanwhile.
  if (context.assist_sleep != nullptr)
    context.assist_sleep(context.assist_argument, proxied() ? until : 0);
  if (context.assist_sleep != nullptr && proxied()) return;
  if (sleeper_ != nullptr)
    base::futex_wait(sleeper_, 1, base::Deadline::at_ns(until));  // ended by ring_bell or the nap
  else
    base::sleep_until(base::Deadline::at_ns(until));
}

// False when the work was aborted: by the other part, by the abort word, by this wait's timeout.
bool PatientWait::look_around() {
  const CpuContext& context = work_.context;
  if (work_.failed()) return false;
  const bool aborted = work_.aborted();
  const bool moved = !aborted && context.assist != nullptr &&
                     context.assist(context.assist_argument, point_.awaited);
  now_ns_ = base::now_ns();
  if (looked_ns_ != 0) count_look();
  if (start_ns_ == 0 || moved) start_ns_ = now_ns_;
  if (moved) patience_.moved(now_ns_);
  next_ = patience_.next(now_ns_);
  if (!aborted && now_ns_ - start_ns_ < context.op_timeout_ns) return true;
  work_.fail(reported(aborted ? ReportCode::aborted : ReportCode::timeout));
  return false;
}

void ring_bell(uint32_t* sleeper, int bell_fd) {
  if (bell_fd < 0) {
    base::futex_wake(sleeper, INT_MAX);
    return;
  }
  const uint64_t one = 1;
  while (::write(bell_fd, &one, sizeof one) < 0) {
    if (errno == EAGAIN) return;  // the bell is already ringing
    COLL_CHECK_NOTE(errno == EINTR, "the bell of a fifo is not an eventfd");
  }
}

}  // namespace collctl::kernels
