// One-sided operations over two ports of which one fails, with COLLCTL_IB_PORT_FAILOVER: every byte
// arrives, every signal once and behind its data, and what is under way when a port fails is not
// lost.
#include <deque>

#include "base/env.h"
#include "tests/unit/runtime_ib/one_sided_ib.h"

namespace ib_one_sided_failover_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using base::ScopedVariable;
using fake_verbs::Fault;
using fake_verbs::FaultKind;

namespace {

// Two ports of one adapter, both used, and quick to notice that one fails.
struct TwoPorts {
  explicit TwoPorts(const std::string& failover = "1", const std::string& queue_pairs = "1",
                    const std::string& kind = "ib")
      : adapters("fake_0:" + kind + ":ports=2") {
    set("COLLCTL_IB_MERGE_NICS", "1");
    set("COLLCTL_IB_PORT_FAILOVER", failover);
    set("COLLCTL_IB_QPS_PER_CONNECTION", queue_pairs);
    set("COLLCTL_IB_TIMEOUT", "8");
    set("COLLCTL_IB_RETRY_CNT", "1");
    set("COLLCTL_IB_PORT_DOWN_TIMEOUT", "0.3");
  }
  ~TwoPorts() {
    fake_verbs::clear_faults();
    for (const int port : {1, 2}) fake_verbs::set_port("fake_0", port, true);
  }
  TwoPorts(const TwoPorts&) = delete;
  TwoPorts& operator=(const TwoPorts&) = delete;
  void set(const char* name, const std::string& value) { knobs.emplace_back(name, value); }

  Adapters adapters;
  std::deque<ScopedVariable> knobs;
};

struct PortFault {
  const char* name;
  Fault fault;
};
std::vector<PortFault> port_faults(int port, uint32_t after) {
  std::vector<PortFault> rows(3);
  rows[0] = {"nothing gets through",
             {.kind = FaultKind::kDrop, .port = port, .after = after, .times = 0, .value = 1000}};
  rows[1] = {
      "all arrives, unheard",
      {.kind = FaultKind::kAckLost, .port = port, .after = after, .times = 0, .value = 1000}};
  rows[2] = {"the port goes down", {.kind = FaultKind::kPortDown, .port = port, .after = after}};
  return rows;
}

// Between operations of all ranks; one of them brings the fault.
Status all_meet(OneSidedJob& job, const std::function<void()>& between) {
  COLL_TRY(job.communicator.barrier(soon()));
  if (job.rank() == 0) between();
  return job.communicator.barrier(soon());
}

// None was raised twice.
void no_more_signals(OneSidedJob& job, int signal, Complaints& wrong) {
  for (int peer = 0; peer < job.size(); ++peer) {
    const Status more = job.ops->wait(peer, signal, 1, Deadline::after_ms(20));
    if (more || more.error().code != ErrorCode::deadline)
      wrong.add(more ? format("signal {} of rank {} arrived once more", signal, peer)
                     : more.error().chain());
  }
}

constexpr uint64_t kSteps = 400;  // of the torn-store test

// Rank 0 counts up in the windows of the others, each step with a signal behind it, without
// waiting.
Status count_up(OneSidedJob& job, Complaints& wrong) {
  for (uint64_t step = 1; step <= kSteps; ++step) {
    if (job.rank() == 0) {
      for (int peer = 1; peer < job.size(); ++peer) {
        // By turns in one request and in two.
        const bool together = step % 2 == 0;
        if (together) {
          COLL_TRY(job.ops->put_signal({job.window, peer, 64}, &step, sizeof step, 1, soon()));
        } else {
          COLL_TRY(job.ops->put({job.window, peer, 64}, &step, sizeof step, soon()));
          COLL_TRY(job.ops->signal(peer, 1));
        }
      }
    } else {
      COLL_TRY(job.ops->wait(0, 1, 1, soon()));
      uint64_t seen = 0;
      std::memcpy(&seen, job.data() + 64, sizeof seen);
      if (seen < step) wrong.add(format("signal {} arrived before its data: {}", step, seen));
    }
  }
  return job.ops->barrier(soon());
}

}  // namespace

TEST_CASE("one-sided operations go on over the port that is left", "[ib][one_sided][failover]") {
  for (const int port : {1, 2})
    for (const uint64_t stripe : {1, 65, 300001})
      for (const PortFault& row : port_faults(port, 5)) {
        INFO(row.name << ", port " << port << ", " << stripe << " bytes");
        const TwoPorts ports("1", port == 1 ? "1" : "2");
        int number = -1;
        CHECK(over_ib(3, stripe * 3, [&](OneSidedJob& job, Complaints& wrong) -> Status {
                COLL_TRY(exchange(job, stripe, 0, wrong));
                COLL_TRY(all_meet(job, [&] { number = fake_verbs::add_fault(row.fault); }));
                for (int round = 1; round < 6; ++round)
                  COLL_TRY(exchange(job, stripe, round, wrong));
                no_more_signals(job, 3, wrong);
                for (int peer = 0; peer < job.size(); ++peer)
                  if (peer != job.rank() && job.ops->path(peer).rfind("NET/IB/", 0) != 0)
                    wrong.add("now by " + job.ops->path(peer));
                return Status();
              }) == "");
        CHECK(fake_verbs::hits(number) > 0);
      }
}

TEST_CASE("signals come once and behind their data when their port fails",
          "[ib][one_sided][failover]") {
  for (const char* kind : {"ib", "roce"})
    for (const uint32_t after : {0u, 1u, 150u})
      for (const PortFault& row : port_faults(1, after)) {
        INFO(row.name << " on " << kind << " after " << after);
        const TwoPorts ports("1", "1", kind);
        CHECK(over_ib(2, 4096, [&](OneSidedJob& job, Complaints& wrong) -> Status {
                COLL_TRY(all_meet(job, [&] { fake_verbs::add_fault(row.fault); }));
                COLL_TRY(count_up(job, wrong));
                no_more_signals(job, 1, wrong);
                return Status();
              }) == "");
      }
}

// Nobody waits for what rank 0 has posted, nor does it come back to it.
TEST_CASE("a signal that nobody looks after moves over as well", "[ib][one_sided][failover]") {
  for (const PortFault& row : port_faults(1, 0)) {
    INFO(row.name);
    const TwoPorts ports;
    CHECK(over_ib(2, 4096, [&](OneSidedJob& job, Complaints& wrong) -> Status {
            COLL_TRY(all_meet(job, [&] { fake_verbs::add_fault(row.fault); }));
            const uint64_t value = 7;
            if (job.rank() == 0)
              COLL_TRY(job.ops->put_signal({job.window, 1, 0}, &value, sizeof value, 2, soon()));
            else
              COLL_TRY(job.ops->wait(0, 2, 1, soon()));
            COLL_TRY(job.communicator.barrier(soon()));
            no_more_signals(job, 2, wrong);
            return Status();
          }) == "");
  }
}

TEST_CASE("when all ports fail, or without failover, the port is named",
          "[ib][one_sided][failover]") {
  const std::string failover = GENERATE("0", "1");
  INFO("failover " << failover);
  const TwoPorts ports(failover);
  std::vector<std::string> said(2);
  const Communicators ranks = start_job(2, one_sided_over_ib());
  Complaints wrong;
  on_all(2, [&](int rank) {
    Communicator& c = *ranks[size_t(rank)];
    auto job = OneSidedJob::start(c, 1 << 20);
    if (!job) return wrong.add(rank, job.error());
    wrong.add(rank, all_meet(**job, [&] {
                for (const int port : {1, 2})
                  fake_verbs::add_fault(
                      {.kind = FaultKind::kDrop, .port = port, .times = 0, .value = 1000});
              }));
    const std::vector<uint8_t> data(100000, 3);
    Status outcome;
    for (int i = 0; i < 1000 && outcome; ++i)
      outcome = rank == 0
                    ? (*job)->ops->put({(*job)->window, 1, 0}, data.data(), data.size(), soon())
                    : (*job)->ops->wait(0, 0, 1, soon());
    if (outcome || outcome.error().code != ErrorCode::lost)
      return wrong.add(outcome ? "a put arrived" : outcome.error().chain());
    said[size_t(rank)] = outcome.error().chain();
    (*job)->ops.reset();
    const std::vector<WindowPointer> all{(*job)->window};
    wrong.add(rank, c.deregister_windows(all, soon()));
    wrong.add(rank, free_window_memory((*job)->memory));
  });
  CHECK(wrong.text() == "");
  INFO(said[0] << "\n" << said[1]);
  CHECK(said[0].find("fake_0:") != std::string::npos);
  CHECK(said[0].find("transport retry counter exceeded") != std::string::npos);
}

}  // namespace ib_one_sided_failover_tests
