// How a thread that waits for a peer passes the time: it spins, then yields, then sleeps. Spinning
// for as long as a wake-up costs is never worse than twice the best (competitive waiting); how much
// longer pays is learnt while it runs. A WaitPolicy is one rank's, shared by its threads; a
// Patience is one wait, of one thread. No clock in here: the caller tells the time. Sizes:
// nanoseconds.
#pragma once
#include <atomic>
#include <cstdint>

namespace collctl::base {

// Time until a thread that sleeps on this machine runs again, measured once per process when first
// asked for (about a millisecond): how late it comes out of a sleep of known length. Threads: any.
int64_t wakeup_ns();
// The same if it was measured already, else 0.
int64_t known_wakeup_ns();

class WaitPolicy {
 public:
  struct Terms {
    int64_t spin_ns = 0;   // without a system call, at most
    int64_t least_ns = 0;  // awake (spinning, then yielding): at first,
    int64_t most_ns = 0;   // and once it was seen to pay
  };
  static Terms crowded() { return {}; }  // ranks share cores: somebody else has work to do
  // The rank's cores are no other rank's; unknown where it shares them: only a yield helps then.
  static Terms own_core(int64_t wakeup_ns);
  static Terms somewhere(int64_t wakeup_ns);
  static Terms fixed(int64_t spin_ns) { return {spin_ns, spin_ns, spin_ns}; }

  explicit WaitPolicy(const Terms& terms) : terms_(terms), awake_ns_(terms.least_ns) {}
  WaitPolicy(const WaitPolicy&) = delete;
  WaitPolicy& operator=(const WaitPolicy&) = delete;

  const Terms& terms() const { return terms_; }
  bool spins() const { return terms_.spin_ns > 0; }
  int64_t awake_ns() const { return awake_ns_.load(std::memory_order_relaxed); }
  // A wait that came to sleep was over after this long, sleep and all.
  void slept(int64_t waited_ns);
  // Between two looks of a thread that was awake others had its core: nobody spins for a while. A
  // thread that sleeps is run before those that spun their turn away.
  void lost_core(int64_t now_ns);
  bool has_core(int64_t now_ns) const {
    return now_ns >= shared_until_ns_.load(std::memory_order_relaxed);
  }

 private:
  const Terms terms_;
  std::atomic<int64_t> awake_ns_;
  std::atomic<int64_t> shared_until_ns_{0};
};

class Patience {
 public:
  enum class Next : uint8_t { spin, yield, sleep };

  // `yields`: at least so many before it sleeps.
  Patience(WaitPolicy& policy, uint32_t yields)
      : policy_(&policy), awake_ns_(policy.awake_ns()), most_yields_(yields) {}

  Next first() const {
    return policy_->spins() ? Next::spin : most_yields_ > 0 ? Next::yield : Next::sleep;
  }
  // After a look at that time which found nothing. Time counts from the first call.
  Next next(int64_t now_ns);
  // Something moved: it waits anew, unless ranks share cores.
  void moved(int64_t now_ns) {
    if (!policy_->spins()) return;
    if (slept_) ended(now_ns);
    began_ns_ = now_ns;
    slept_ = false;
    yields_ = 0;
  }
  // It is about to sleep; when that ends it yields a few times before it sleeps again.
  void sleeps() {
    slept_ = true;
    looked_ns_ = 0;
    yields_ = most_yields_ > kYieldsAgain ? most_yields_ - kYieldsAgain : 0;
  }
  bool slept() const { return slept_; }
  // The wait is over; only of one that slept.
  void ended(int64_t now_ns) { policy_->slept(now_ns - began_ns_); }

 private:
  static constexpr uint32_t kYieldsAgain = 4;

  WaitPolicy* policy_;
  const int64_t awake_ns_;
  const uint32_t most_yields_;
  uint32_t yields_ = 0;
  int64_t began_ns_ = 0, looked_ns_ = 0;  // 0: not yet, or not since it slept
  bool slept_ = false;
};

}  // namespace collctl::base
