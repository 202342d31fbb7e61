// Ranks that stop, leave or abort: every rank ends, in time, and reports who it was.
#include "runtime/executor/cpu.h"
#include "tests/unit/runtime/ranks.h"

namespace communicator_communicator_faults_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// The right one is named if ranks begin within this of each other, on whatever machine.
constexpr double kOpTimeout = 3;

Status reduce_big(Communicator& c, Stream& stream, Communicator::Launch launch) {
  static const std::vector<float> in(1 << 20, 1.f);
  thread_local std::vector<float> out;
  out.resize(in.size());
  COLL_TRY(c.start({.collective = Collective::all_reduce,
                    .input = in.data(),
                    .output = out.data(),
                    .count = in.size()},
                   stream, launch));
  return stream.synchronize();
}

CommOptions over(const char* transport, double op_timeout_s) {
  CommOptions options;
  options.transport = transport;
  options.op_timeout_s = op_timeout_s;
  return options;
}

}  // namespace

TEST_CASE("reports become sentences", "[faults]") {
  kernels::Report r{};
  r.code = kernels::ReportCode::timeout;
  r.side = kernels::WaitSide::recv;
  r.rank = 3;
  r.peer = 2;
  r.step = 42;
  r.seen = 41;
  r.op_count = 17;
  const Error e = error_from_report(r, 30);
  CHECK(e.code == ErrorCode::deadline);
  CHECK(e.rank == 2);
  CHECK(e.message ==
        "rank 3 waits for data from rank 2 (allreduce #17, ring, simple, channel 0, step 42: saw "
        "41): no progress for 30 s");
}

TEST_CASE("a rank that does not take part is named at the deadline", "[faults]") {
  struct Kind {
    const char* transport;
    Communicator::Launch launch;
    Communicators job;
    std::vector<Error> errors{4};
  };
  // All jobs at the same time, for they only wait.
  std::vector<Kind> kinds;
  for (const char* transport : {"loopback", "shm", "net"})
    for (auto launch : {Communicator::Launch::blocking, Communicator::Launch::async})
      kinds.push_back({transport, launch, start_job(4, over(transport, kOpTimeout))});
  on_all(int(kinds.size()) * 4, [&](int i) {
    Kind& kind = kinds[size_t(i / 4)];
    const int r = i % 4;
    Communicator& c = *kind.job[size_t(r)];
    Error& error = kind.errors[size_t(r)];
    Stream stream(c);
    if (r == 2) {  // stays away; hears of it
      const Deadline deadline = Deadline::after_seconds(60);
      while (c.async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
      if (const Status s = c.async_error(); !s) error = s.error();
      return;
    }
    if (const Status s = reduce_big(c, stream, kind.launch); !s) error = s.error();
    if (reduce_big(c, stream, kind.launch))
      error = Error(ErrorCode::defect, "a second operation succeeded");
  });
  for (const Kind& kind : kinds)
    for (const Error& e : kind.errors) {
      INFO(kind.transport << ": " << e.chain());
      CHECK(e.code == ErrorCode::deadline);
      CHECK(e.message.find("waits for") != std::string::npos);
      CHECK(e.rank == 2);
    }
}

TEST_CASE("in a long ring the rank that stands still is named, not one that waits too",
          "[faults]") {
  CommOptions options = over("shm", kOpTimeout);
  options.algo = "ring";
  const int n = 8, absent = 5;
  const Communicators job = start_job(n, options);
  std::vector<Error> errors(static_cast<size_t>(n));
  on_all(n, [&](int r) {
    if (r == absent) return;
    Stream stream(*job[size_t(r)]);
    const Status s = reduce_big(*job[size_t(r)], stream, Communicator::Launch::blocking);
    if (!s) errors[size_t(r)] = s.error();
  });
  for (int r = 0; r < n; ++r) {
    if (r == absent) continue;
    INFO("rank " << r << ": " << errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::deadline);
    CHECK(errors[size_t(r)].rank == absent);
    // Its own wait as well, so that a job sees the whole chain.
    const int awaited = errors[size_t(r)].awaited;
    CHECK((awaited == (r + 1) % n || awaited == (r + n - 1) % n));
  }
}

TEST_CASE("a rank that waits in an exchange says for whom when it hears of a deadline elsewhere",
          "[faults]") {
  const int n = 4;
  const Communicators job = start_job(n, over("shm", kOpTimeout));
  std::vector<Error> errors(static_cast<size_t>(n));
  on_all(n, [&](int r) {
    Communicator& c = *job[size_t(r)];
    if (r == 1) return;  // stays away
    Stream stream(c);
    const Status s = r == 2 ? reduce_big(c, stream, Communicator::Launch::blocking)
                            : c.barrier(Deadline::after_seconds(60));
    if (!s) errors[size_t(r)] = s.error();
  });
  for (const int r : {0, 3}) {
    INFO("rank " << r << ": " << errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::deadline);
    CHECK(errors[size_t(r)].message.find("rank 2 waits for") != std::string::npos);
    CHECK(errors[size_t(r)].awaited == (r + n - 1) % n);
  }
}

TEST_CASE("an abort reaches every rank at once", "[faults]") {
  for (const char* transport : {"loopback", "shm", "net"}) {
    INFO(transport);
    const int n = 6;
    const Communicators job = start_job(n, over(transport, 60));
    std::vector<Error> errors(static_cast<size_t>(n));
    bool begun = false;
    on_all(n, [&](int r) {
      Communicator& c = *job[size_t(r)];
      Stream stream(c);
      if (r == 4) {
        const Deadline deadline = Deadline::after_seconds(60);
        const auto busy = [](const auto& other) { return other->activity().busy; };
        while (std::count_if(job.begin(), job.end(), busy) < n - 1 && !deadline.passed())
          base::sleep_until(Deadline::after_ms(1));
        begun = !deadline.passed();
        c.abort(Error(ErrorCode::failed, "had enough"));
        return;
      }
      const Status s = reduce_big(
          c, stream, r % 2 == 0 ? Communicator::Launch::blocking : Communicator::Launch::async);
      if (!s) errors[size_t(r)] = s.error();
    });
    CHECK(begun);
    for (int r = 0; r < n; ++r) {
      if (r == 4) continue;
      INFO("rank " << r << ": " << errors[size_t(r)].chain());
      CHECK(errors[size_t(r)].code == ErrorCode::failed);
      CHECK(errors[size_t(r)].rank == 4);
      CHECK(errors[size_t(r)].chain().find("had enough") != std::string::npos);
    }
  }
}

TEST_CASE("a rank that leaves in the middle is lost, and named", "[faults]") {
  for (const char* transport : {"loopback", "net"}) {
    INFO(transport);
    Communicators job = start_job(5, over(transport, 60));
    std::vector<Error> errors(5);
    on_all(5, [&](int r) {
      if (r == 1) {
        job[1].reset();
        return;
      }
      Communicator& c = *job[size_t(r)];
      Stream stream(c);
      if (const Status s = reduce_big(c, stream, Communicator::Launch::blocking); !s)
        errors[size_t(r)] = s.error();
    });
    for (int r : {0, 2, 3, 4}) {
      INFO("rank " << r << ": " << errors[size_t(r)].chain());
      CHECK(errors[size_t(r)].code == ErrorCode::lost);
      CHECK(errors[size_t(r)].rank == 1);
    }
  }
}

TEST_CASE("a communicator with work under way is destroyed without waiting", "[faults]") {
  Communicators job = start_job(3, over("shm", 60));
  const int64_t start = now_ns();
  {
    std::vector<float> in(1000, 1.f), out(1000);
    Stream stream(*job[0]);
    for (int i = 0; i < 3; ++i)
      REQUIRE(job[0]->start({.collective = Collective::all_reduce,
                             .input = in.data(),
                             .output = out.data(),
                             .count = in.size()},
                            stream));
    job.clear();
    CHECK(stream.idle());
  }
  CHECK(now_ns() - start < 20'000'000'000);
}

TEST_CASE("a peer that stays away at finalize is a deadline", "[faults]") {
  const Communicators job = start_job(2, {});
  const Status s = job[0]->finalize(Deadline::after_seconds(0.5));
  REQUIRE_FALSE(s);
  CHECK(s.error().code == ErrorCode::deadline);
}

}  // namespace communicator_communicator_faults_tests
