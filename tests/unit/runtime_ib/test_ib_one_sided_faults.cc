// One-sided operations by RDMA that cannot go on: faults, ports, time, a peer that has left; whom
// the errors name on both sides.
#include "base/env.h"
#include "tests/unit/runtime_ib/one_sided_ib.h"

namespace ib_one_sided_faults_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using base::ScopedVariable;
using fake_verbs::Fault;
using fake_verbs::FaultKind;

namespace {

// Rank 0 puts, rank 1 waits for a signal that does not come; the errors of both.
struct Ends {
  Error putting, waiting;
};
enum class Job { goes_on, ends };  // the communicator, whose own links use the same ports
Ends both_fail(const Fault& fault, Deadline deadline, Job outcome = Job::goes_on) {
  Ends ends;
  const Communicators job_ranks = start_job(2, one_sided_over_ib());
  Complaints wrong;
  on_all(2, [&](int rank) {
    Communicator& c = *job_ranks[size_t(rank)];
    auto job = OneSidedJob::start(c, 1 << 20);
    if (!job) return wrong.add(c.rank(), job.error());
    // Only a fault that comes behind the start hits the puts.
    wrong.add(c.rank(), c.barrier(soon()));
    if (c.rank() == 0 && fault.kind != FaultKind::kNone) fake_verbs::add_fault(fault);
    wrong.add(c.rank(), c.barrier(soon()));
    if (c.rank() == 0) {
      const std::vector<uint8_t> data(100000, 3);
      Status put;
      for (int i = 0; i < 1000 && put; ++i)
        put = (*job)->ops->put({(*job)->window, 1, 0}, data.data(), data.size(), deadline);
      if (put) return wrong.add("a put that cannot arrive has");
      ends.putting = put.error();
      // From then on at once.
      if ((*job)->ops->signal(1, 0)) wrong.add("a signal after that");
      if ((*job)->ops->flush(1, soon())) wrong.add("a flush after that");
    } else {
      const Status waited = (*job)->ops->wait(0, 0, 1, soon());
      if (waited) return wrong.add("a signal that was not raised");
      ends.waiting = waited.error();
    }
    if (outcome == Job::ends) {
      (*job)->ops.reset();
      const std::vector<WindowPointer> all{(*job)->window};
      wrong.add(c.rank(), c.deregister_windows(all, soon()));
      wrong.add(c.rank(), free_window_memory((*job)->memory));
      return;
    }
    wrong.add(c.rank(), (*job)->abandon());
    wrong.add(c.rank(), c.finalize(soon()));
  });
  CHECK(wrong.text() == "");
  return ends;
}

}  // namespace

TEST_CASE("a failed put names peer, port and queue pair, and ends the peer's wait",
          "[ib][one_sided]") {
  const ScopedVariable timeout("COLLCTL_IB_TIMEOUT", "8");
  const ScopedVariable retries("COLLCTL_IB_RETRY_CNT", "1");
  struct Row {
    Fault fault;
    const char *puts, *waits;
  };
  const Row rows[] = {{{.kind = FaultKind::kDrop, .opcode = "write", .times = 0, .value = 1000},
                       "status 12: transport retry counter exceeded",
                       "rank 0 (host "},
                      {{.kind = FaultKind::kRevoke, .opcode = "write"},
                       "status 10: remote access error",
                       "rank 0 "},
                      {{.kind = FaultKind::kStatus, .opcode = "write", .value = 4},
                       "status 4: local protection error",
                       "rank 0 (host "}};
  for (const Row& row : rows) {
    INFO(row.puts);
    const Adapters adapters("fake_0:ib,fake_1:ib");
    const Ends ends = both_fail(row.fault, soon());
    INFO(ends.putting.chain() << "\n" << ends.waiting.chain());
    CHECK(ends.putting.code == ErrorCode::lost);
    CHECK(ends.putting.rank == 1);
    CHECK(says(ends.putting, row.puts));
    CHECK(says(ends.putting, "fake_0:1 QP "));
    CHECK(says(ends.putting, "-> rank 1 (host "));
    CHECK(says(ends.putting, "put of 100000 bytes"));
    CHECK(ends.waiting.code == ErrorCode::lost);
    CHECK(says(ends.waiting, row.waits));
  }
}

TEST_CASE("a port that goes down ends both ranks' operations", "[ib][one_sided]") {
  const ScopedVariable seconds("COLLCTL_IB_PORT_DOWN_TIMEOUT", "0.3");
  const Adapters adapters("fake_0:ib,fake_1:ib");
  const Ends ends =
      both_fail({.kind = FaultKind::kPortDown, .opcode = "write", .after = 3}, soon(), Job::ends);
  INFO(ends.putting.chain() << "\n" << ends.waiting.chain());
  CHECK(ends.putting.code == ErrorCode::lost);
  CHECK(ends.putting.rank == 0);  // whose port it is
  CHECK(says(ends.putting, "fake_0:1 of this host has been down"));
  CHECK(ends.waiting.code == ErrorCode::lost);
  CHECK(ends.waiting.rank == 0);
  CHECK(says(ends.waiting, "rank 0 "));
  CHECK(says(ends.waiting, "fake_0:1 of this host has been down"));
  fake_verbs::set_port("fake_0", 1, true);
}

// The adapter would try for half a minute; the caller's buffer is free at the deadline.
TEST_CASE("a put that does not end within its time fails", "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib,fake_1:ib");
  const Ends ends =
      both_fail({.kind = FaultKind::kDrop, .opcode = "write", .times = 0, .value = 1000},
                Deadline::after_seconds(1));
  INFO(ends.putting.chain() << "\n" << ends.waiting.chain());
  CHECK(ends.putting.code == ErrorCode::deadline);
  CHECK(ends.putting.rank == 1);
  CHECK(says(ends.putting, "waits for rank 1 (host "));
  CHECK(says(ends.waiting, "rank 0 (host "));
}

TEST_CASE("a rank that has left is named", "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib");
  CHECK(with_ranks(2, one_sided_over_ib(), [&](Communicator& c, Complaints& wrong) {
          auto job = OneSidedJob::start(c, 1 << 20);
          if (!job) return wrong.add(c.rank(), job.error());
          if (c.rank() == 1) {  // misuse: no barrier
            wrong.add(c.rank(), (*job)->ops->signal(0, 2));
            (*job)->ops.reset();
          }
          if (c.rank() == 0) {
            const Status waited = (*job)->ops->wait(1, 2, 2, soon());
            if (waited || waited.error().code != ErrorCode::lost || waited.error().rank != 1 ||
                !says(waited.error(), "has closed its windows"))
              wrong.add(waited ? "waited" : waited.error().chain());
            wrong.add(c.rank(), (*job)->ops->wait(1, 2, 1, soon()));
          }
          wrong.add(c.rank(), c.barrier(soon()));
          if (c.rank() == 0) {
            const std::vector<uint8_t> data(100000, 3);
            const Status put =
                (*job)->ops->put({(*job)->window, 1, 0}, data.data(), data.size(), soon());
            if (put || put.error().code != ErrorCode::lost || put.error().rank != 1 ||
                !says(put.error(), "rank 1 (host "))
              wrong.add(put ? "put" : put.error().chain());
          }
          wrong.add(c.rank(), (*job)->abandon());
        }) == "");
}

}  // namespace ib_one_sided_faults_tests
