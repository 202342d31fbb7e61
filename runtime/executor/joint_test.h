// Tests of kernels by all ranks together at start-up: steps that all ranks take, or none.
// Start-up's thread.
#pragma once
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "runtime/bootstrap/bootstrap.h"

namespace collctl::runtime {

// Kernels on a GPU that did not end them, with what they use: to be kept until they have ended, or
// for ever.
class UnendedTest {
 public:
  virtual ~UnendedTest() = default;
  virtual bool ended() const = 0;
};

class JointTest : public UnendedTest {
 public:
  virtual Status set_up() = 0;
  virtual Status start() { return {}; }  // what must run before any rank goes
  virtual Status go() = 0;
  virtual Status wait() = 0;  // until its kernels have ended, of themselves or because they had to
  // Makes the memory that it used as it was; no rank's kernels run any more.
  virtual Status clean() = 0;
};

inline constexpr double kAbortSeconds = 1;  // for kernels that were told to abort

// How it went on one rank, for all to see. Plain data.
struct JointOutcome {
  enum : int32_t {
    kWent,
    kWaited,    // its kernels waited in vain: for another rank, where one failed otherwise
    kCannot,    // it could not be made
    kNotEnded,  // nor ended
  };
  int32_t failed = kWent;
  int32_t unclean = 0;  // what it wrote to is not as it was
  char why[240] = {};

  void note(const Status& went, bool ended) {
    if (went) return;
    failed = !ended ? kNotEnded : went.error().code == ErrorCode::deadline ? kWaited : kCannot;
    const std::string text = went.error().chain();
    std::copy_n(text.data(), std::min(text.size(), sizeof why - 1), why);
  }
};

// The lowest rank of those that failed worst, or -1.
template <class Outcome>
int first_failed(const std::vector<Outcome>& all) {
  const auto at = std::ranges::max_element(all, {}, [](const Outcome& each) {
    return std::min<int32_t>(each.failed, Outcome::kCannot);
  });
  return at == all.end() || at->failed == JointOutcome::kWent ? -1 : int(at - all.begin());
}
// Some rank's kernels have not ended.
template <class Outcome>
bool runs_on(const std::vector<Outcome>& all) {
  return std::ranges::any_of(
      all, [](const Outcome& each) { return each.failed == JointOutcome::kNotEnded; });
}
// Some rank's kernels may still write where they wrote, or left something there.
template <class Outcome>
bool memory_lost(const std::vector<Outcome>& all) {
  return runs_on(all) ||
         std::ranges::any_of(all, [](const Outcome& each) { return each.unclean != 0; });
}

// Takes the steps. `outcome` is this rank's, asked for after wait(); all ranks', by rank, are
// returned. An Outcome is a JointOutcome. Error: the exchange itself failed (lost, deadline), said
// to be in `what`.
template <class Outcome, class MakeOutcome>
Result<std::vector<Outcome>> take_steps(JointTest& test, Bootstrap& bootstrap, const char* what,
                                        const MakeOutcome& outcome, Deadline deadline) {
  static_assert(std::is_base_of_v<JointOutcome, Outcome> && std::is_trivially_copyable_v<Outcome>);
  std::vector<Outcome> all(size_t(bootstrap.size()));
  Outcome& mine = all[size_t(bootstrap.rank())];
  Status went = test.set_up();
  const auto note = [&went](Status status) {
    if (went && !status) went = std::move(status);
  };
  const auto share = [&]() -> Status {
    mine.note(went, test.ended());
    COLL_TRY_IN(bootstrap.all_gather(all.data(), sizeof(Outcome), deadline), what);
    for (Outcome& each : all) each.why[sizeof each.why - 1] = 0;
    return {};
  };
  COLL_TRY(share());
  // Nobody shall wait for a rank that does not take part.
  if (first_failed(all) >= 0) return all;
  note(test.start());
  COLL_TRY_IN(bootstrap.barrier(deadline), what);
  note(test.go());
  note(test.wait());
  mine = outcome();
  COLL_TRY(share());
  if (runs_on(all)) return all;
  Status clean = test.clean();
  mine.unclean = clean ? 0 : 1;
  note(std::move(clean));
  COLL_TRY(share());
  return all;
}

}  // namespace collctl::runtime
