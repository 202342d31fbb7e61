#include <future>

#include "tests/asleep.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace bootstrap_bootstrap_abort_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// The notices that one rank's watcher got.
struct Seen {
  std::mutex mutex;
  int calls = 0;
  Bootstrap::AbortNotice notice;
  std::atomic<bool> told{false};

  void take(const Bootstrap::AbortNotice& n) {
    const std::lock_guard lock(mutex);
    ++calls;
    notice = n;
    told = true;
  }
};

bool wait_until(const std::function<bool()>& ready) {
  const Deadline limit = Deadline::after_seconds(30);
  while (!ready() && !limit.passed()) base::sleep_until(Deadline::after_ms(1));
  return ready();
}

struct Watched {
  explicit Watched(int n) : seen(size_t(n)) {}
  std::vector<Seen> seen;
  std::atomic<int> joined{0}, through{0};

  // Everybody has joined. No barrier of the bootstrap: an abort right behind it may end that of
  // slower ranks.
  Status all_joined() {
    ++joined;
    return expect(wait_until([this] { return joined == int(seen.size()); }), "all ranks");
  }
};

Error bad_data() {
  Error e(ErrorCode::bad_data, "wrong bytes in channel 1", "look at the NIC");
  e.rank = 5;
  e.host = "b5";
  return e;
}

}  // namespace

TEST_CASE("an abort from any rank reaches all others once", "[bootstrap][abort]") {
  const int n = GENERATE(2, 3, 4, 8, 17);
  for (int origin = 0; origin<n; origin += n> 8 ? 5 : 1) {
    CAPTURE(n, origin);
    Job job({n});
    Watched w(n);
    const auto outcomes = job.run([&](Bootstrap& b) -> Status {
      Seen& seen = w.seen[size_t(b.rank())];
      COLL_TRY(b.start_watch([&seen](const auto& notice) { seen.take(notice); }));
      COLL_TRY(w.all_joined());
      if (b.rank() == origin) {
        b.announce_abort(bad_data());
        b.announce_abort(Error(ErrorCode::failed, "another one"));
      } else {
        COLL_TRY(expect(wait_until([&] { return seen.told.load(); }), "a notice"));
      }
      // Calls of the bootstrap end with it, too.
      const Status next = b.barrier(soon());
      ++w.through;
      COLL_TRY(expect(!next.ok() && says(next.error(), "wrong bytes"), "the abort's error"));
      COLL_TRY(expect(wait_until([&] { return w.through == n; }), "all ranks"));
      return {};
    });
    require_all_ok(outcomes);
    for (int r = 0; r < n; ++r) {
      const Seen& seen = w.seen[size_t(r)];
      CHECK(seen.calls == (r == origin ? 0 : 1));
      if (r == origin) continue;
      CHECK(seen.notice.origin == origin);
      CHECK(seen.notice.error.code == ErrorCode::bad_data);
      CHECK(seen.notice.error.message == "wrong bytes in channel 1");
      CHECK(seen.notice.error.hint == "look at the NIC");
      CHECK(seen.notice.error.rank == 5);
    }
  }
}

TEST_CASE("a call that an abort ends finds the watcher through with it", "[bootstrap][abort]") {
  const int n = 3;
  Job job({n});
  Watched w(n);
  std::atomic<int> early{0};
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    std::atomic<bool> acted{false};
    // Anything that does not wait for it is over by then.
    COLL_TRY(b.start_watch([&acted](const auto&) { acted = test::wait_until_others_sleep(); }));
    COLL_TRY(w.all_joined());
    if (b.rank() == 0) {
      COLL_TRY(expect(test::wait_until_others_sleep(), "the others to wait"));
      b.announce_abort(bad_data());
    } else {
      const auto got = b.recv(0, 1, soon());
      if (!acted) ++early;
      COLL_TRY(expect(!got && says(got.error(), "wrong bytes"), "the abort's error"));
    }
    ++w.through;
    return expect(wait_until([&] { return w.through == n; }), "all ranks");
  });
  require_all_ok(outcomes);
  CHECK(early == 0);
}

TEST_CASE("an abort wakes ranks that wait in any call", "[bootstrap][abort]") {
  const int n = GENERATE(5, 20);
  Job job({n});
  Watched w(n);
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(w.all_joined());
    if (b.rank() == 3) {
      COLL_TRY(expect(test::wait_until_others_sleep(), "the others to wait"));
      b.announce_abort(bad_data());
      return bad_data();
    }
    const int quiet = (b.rank() + 1) % n;
    if (b.rank() % 3 == 0) return b.barrier(soon());
    if (b.rank() % 3 == 1) {
      auto got = b.recv(quiet, 1, soon());
      return got ? Status() : Status(got.error());
    }
    auto got = b.recv_fd(quiet, 1, soon());
    return got ? Status() : Status(got.error());
  });
  for (const Status& s : outcomes) {
    REQUIRE_FALSE(s.ok());
    CHECK(s.error().code == ErrorCode::bad_data);
  }
}

TEST_CASE("a rank that vanishes is a notice that names it", "[bootstrap][abort]") {
  const int n = GENERATE(2, 3, 8, 17);
  const int dead = GENERATE(0, 1);
  CAPTURE(n, dead);
  Job job({n});
  Watched w(n);
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    Seen& seen = w.seen[size_t(b.rank())];
    COLL_TRY(b.start_watch([&seen](const auto& notice) { seen.take(notice); }));
    COLL_TRY(w.all_joined());
    if (b.rank() == dead) return {};
    COLL_TRY(expect(wait_until([&] { return seen.told.load(); }), "a notice"));
    ++w.through;
    COLL_TRY(expect(wait_until([&] { return w.through == n - 1; }), "all others"));
    return {};
  });
  require_all_ok(outcomes);
  for (int r = 0; r < n; ++r) {
    if (r == dead) continue;
    const Seen& seen = w.seen[size_t(r)];
    CHECK(seen.calls == 1);
    CHECK(seen.notice.error.code == ErrorCode::lost);
    CHECK(seen.notice.error.rank == dead);
    CHECK(says(seen.notice.error, format("rank {} (host b{}) is gone", dead, dead)));
  }
}

TEST_CASE("an abort gets round a dead rank", "[bootstrap][abort]") {
  // Rank 2 dies; whatever comes first, every rank hears once and soon.
  const int n = 8;
  Job job({n});
  Watched w(n);
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    Seen& seen = w.seen[size_t(b.rank())];
    COLL_TRY(b.start_watch([&seen](const auto& notice) { seen.take(notice); }));
    COLL_TRY(w.all_joined());
    if (b.rank() == 2) return {};
    if (b.rank() == 5) b.announce_abort(bad_data());
    COLL_TRY(expect(b.rank() == 5 || wait_until([&] { return seen.told.load(); }), "a notice"));
    ++w.through;
    COLL_TRY(expect(wait_until([&] { return w.through == n - 1; }), "all others"));
    return {};
  });
  require_all_ok(outcomes);
  for (int r = 0; r < n; ++r)
    if (r != 2 && r != 5) CHECK(w.seen[size_t(r)].calls == 1);
}

TEST_CASE("a watch that starts late is told what happened before", "[bootstrap][abort]") {
  Job job({2});
  Watched w(2);
  require_all_ok(job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(w.all_joined());
    if (b.rank() == 0) {
      b.announce_abort(bad_data());
      COLL_TRY(expect(wait_until([&] { return w.through == 1; }), "the other"));
      return {};
    }
    const Status waited = b.barrier(soon());
    COLL_TRY(expect(!waited.ok(), "the abort"));
    COLL_TRY(b.start_watch([&w](const auto& notice) { w.seen[1].take(notice); }));
    COLL_TRY(expect(wait_until([&] { return w.seen[1].told.load(); }), "a notice"));
    ++w.through;
    return {};
  }));
  CHECK(w.seen[1].calls == 1);
}

TEST_CASE("after finish() a vanishing rank is no failure", "[bootstrap][abort]") {
  const int n = GENERATE(1, 2, 5, 17);
  Job job({n});
  Watched w(n);
  require_all_ok(job.run([&](Bootstrap& b) -> Status {
    Seen& seen = w.seen[size_t(b.rank())];
    COLL_TRY(b.start_watch([&seen](const auto& notice) { seen.take(notice); }));
    COLL_TRY(b.finish(soon()));
    // Odd ranks leave at once, even ones stay and watch them go.
    if (b.rank() % 2 == 1) return {};
    return expect(test::wait_until_others_sleep(), "the others to be gone");
  }));
  for (const Seen& seen : w.seen) CHECK(seen.calls == 0);
}

TEST_CASE("a rank that aborts tells the others why", "[bootstrap][abort]") {
  const int n = GENERATE(3, 17);
  Job job({n});
  Watched w(n);
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(w.all_joined());
    // Only rank 1 is impatient: it leaves with a deadline, and that is what the others hear.
    if (b.rank() == 1) return b.barrier(Deadline::after_ms(200));
    if (b.rank() == 2) {
      auto got = b.recv(0, 1, soon());
      return got ? Status() : Status(got.error());
    }
    return b.barrier(soon());
  });
  for (int r = 0; r < n; ++r) {
    const Status& s = outcomes[size_t(r)];
    REQUIRE_FALSE(s.ok());
    CAPTURE(s.error().chain());
    CHECK(s.error().code == ErrorCode::deadline);
    // A rank that was not waiting reports what it heard.
    CHECK((says(s.error(), format("rank {} waited", r)) || says(s.error(), "rank 1 waited")));
  }
}

// The first whose deadline passes knows its neighbour only.
TEST_CASE("ranks along a chain of waits all say for whom they wait", "[bootstrap][abort]") {
  constexpr int n = 4;
  Job job({n});
  std::atomic<int> done{0};
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(b.barrier(soon()));
    if (b.rank() == 0) {
      while (done < n - 1) base::sleep_until(Deadline::after_ms(5));
      return {};
    }
    Status outcome = b.barrier(b.rank() == 3 ? Deadline::after_ms(400) : soon());
    ++done;
    return outcome;
  });
  for (int r = 1; r < n; ++r) {
    REQUIRE_FALSE(outcomes[size_t(r)].ok());
    const Error& e = outcomes[size_t(r)].error();
    CAPTURE(r, e.chain());
    CHECK(e.code == ErrorCode::deadline);
    CHECK(e.rank == r - 1);
    CHECK(says(e, r == 3 ? "rank 3 waited until the deadline for rank 2"
                         : format("rank {} waited as well, until another's deadline,", r)));
  }
}

}  // namespace bootstrap_bootstrap_abort_tests
