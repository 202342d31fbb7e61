// Faults: each does what control.h says, where and as often as it says, and nothing else.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/unit/fake_verbs/side.h"

namespace faults_tests {

using namespace fake_verbs_test;
using fake_verbs::Fault;
using fake_verbs::FaultKind;

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) {
  return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
}
ibv_wc_status write_status(Two& two, size_t bytes = 8) {
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, bytes) == 0);
  return two.a.one().status;
}
int add(const Fault& fault) {
  const int number = fake_verbs::add_fault(fault);
  REQUIRE(number >= 0);
  return number;
}
// Takes the event of a refused request, so that the pair can be destroyed.
void take_event(Side& side) {
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(side.context, &event) == 0);
  ibv_ack_async_event(&event);
}

}  // namespace

TEST_CASE("drop: lost packets are sent again after the timeout; too many end it") {
  Fabric fabric;
  Two two;  // timeout 10: 4.19 ms, 3 retries
  Fault fault;
  fault.kind = FaultKind::kDrop;
  SECTION("two losses: two timeouts later") {
    fault.value = 2;
    const int number = add(fault);
    two.a.memory[0] = 7;
    const auto before = Clock::now();
    CHECK(write_status(two) == IBV_WC_SUCCESS);
    CHECK(ms_since(before) >= 8.3);
    CHECK(two.b.memory[0] == 7);
    CHECK(fake_verbs::hits(number) == 1);
    CHECK(write_status(two) == IBV_WC_SUCCESS);
    CHECK(fake_verbs::hits(number) == 1);
  }
  SECTION("four: one more than there are retries") {
    fault.value = 4;
    add(fault);
    CHECK(write_status(two) == IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_CASE("a lost acknowledgement: it arrived once, and the sender may never know") {
  Fabric fabric;
  Two two;
  Fault fault;
  fault.kind = FaultKind::kAckLost;
  const bool often = GENERATE(false, true);
  fault.value = often ? 4 : 2;  // 3 retries
  add(fault);
  REQUIRE(two.b.receive(1) == 0);
  REQUIRE(two.b.receive(2) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, two.b.address(), 0, 8) == 0);
  CHECK(two.b.one().wr_id == 1);
  CHECK(two.a.one().status == (often ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
  CHECK(two.b.silent());  // the repetitions took no second receive
}

TEST_CASE("reorder: packets of plain writes in any order, and an immediate after them all") {
  // 8 writes of 4 packets each. A watcher sees whether a later packet is there before an earlier
  // one; the immediate behind them comes when all are.
  Fabric fabric({.devices = "fake_0:mtu=1024"});
  Two two;
  Fault fault;
  fault.kind = FaultKind::kReorder;
  fault.us = 3000;
  fault.times = 0;
  add(fault);
  constexpr size_t kPackets = 32, kBytes = 1024;
  int out_of_order = 0;
  for (int round = 0; round < 5 || (out_of_order == 0 && round < 100); ++round) {
    const auto mark = uint8_t(round + 1);
    std::fill(two.a.memory.begin(), two.a.memory.end(), mark);
    REQUIRE(two.b.receive(1) == 0);
    for (size_t i = 0; i < 8; ++i)
      REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 4 * kBytes * i, 4 * kBytes, i, 0) ==
              0);
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, two.b.address(), 0, 0, 99) == 0);
    const auto there = [&](size_t packet) {
      return __atomic_load_n(two.b.memory.data() + packet * kBytes + kBytes - 1,
                             __ATOMIC_ACQUIRE) == mark;
    };
    bool overtaken = false;
    while (two.b.silent(0))
      for (size_t i = 1; i < kPackets && !overtaken; ++i) {
        const bool later = there(i);  // looked at first
        overtaken = later && !there(i - 1);
      }
    out_of_order += overtaken;
    for (size_t i = 0; i < kPackets * kBytes; ++i) REQUIRE(two.b.memory[i] == mark);
    CHECK(two.a.one().wr_id == 99);
  }
  CHECK(out_of_order > 0);
}

TEST_CASE("a fault hits what it names: after, times, opcode, size, device") {
  Fabric fabric({.devices = "fake_0,fake_1"});
  Options second;
  second.device = "fake_1";
  Two two({}, second);
  Fault fault;
  fault.kind = FaultKind::kCorrupt;
  fault.opcode = "write";
  fault.device = "fake_0";
  fault.after = 1;
  fault.times = 2;
  fault.min_bytes = 4;
  fault.max_bytes = 100;
  const int number = add(fault);
  std::fill(two.a.memory.begin(), two.a.memory.end(), uint8_t(9));
  const auto arrives = [&](size_t bytes) {
    std::fill(two.b.memory.begin(), two.b.memory.end(), uint8_t(0));
    CHECK(write_status(two, bytes) == IBV_WC_SUCCESS);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; ++i) wrong += two.b.memory[i] != 9;
    return wrong;
  };
  CHECK(arrives(3) == 0);    // too small: not even counted
  CHECK(arrives(101) == 0);  // too large
  CHECK(arrives(4) == 0);    // the one that is spared
  CHECK(arrives(4) == 1);
  CHECK(arrives(100) == 1);
  CHECK(arrives(4) == 0);  // two times were all
  CHECK(fake_verbs::hits(number) == 2);
  REQUIRE(two.b.send(IBV_WR_RDMA_WRITE, two.a.address(), 0, 8) == 0);  // another device
  CHECK(two.b.one().status == IBV_WC_SUCCESS);
  CHECK(fake_verbs::hits(number) == 2);
}

TEST_CASE("a fault of one port spares the other") {
  Fabric fabric({.devices = "fake_0:ports=2"});
  Options second;
  second.port = 2;
  Two one, other(second, second);
  Fault fault;
  fault.kind = FaultKind::kDrop;
  fault.times = 0;
  fault.value = 1000;
  fault.port = 2;
  add(fault);
  CHECK(write_status(one) == IBV_WC_SUCCESS);
  CHECK(write_status(other) == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("delay and bandwidth: the completion comes no sooner") {
  Fabric fabric;
  Two two;
  Fault fault;
  SECTION("delay") {
    fault.kind = FaultKind::kDelay;
    fault.us = 15000;
    add(fault);
    const auto before = Clock::now();
    CHECK(write_status(two) == IBV_WC_SUCCESS);
    CHECK(ms_since(before) >= 15);
  }
  SECTION("4 x 50,000 bytes at 10 MB/s: 20 ms") {
    fault.kind = FaultKind::kBandwidth;
    fault.value = 10'000'000;
    fault.times = 0;
    add(fault);
    const auto before = Clock::now();
    for (uint64_t i = 0; i < 4; ++i)
      REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 50000, i) == 0);
    CHECK(two.a.poll(4).size() == 4);
    CHECK(ms_since(before) >= 20);
  }
}

TEST_CASE("status: the request comes back so, unsent, and the pair has failed") {
  Fabric fabric;
  Two two;
  Fault fault;
  fault.kind = FaultKind::kStatus;
  fault.value = IBV_WC_BAD_RESP_ERR;
  fault.after = 1;
  add(fault);
  two.a.memory[0] = 1;
  CHECK(write_status(two) == IBV_WC_SUCCESS);
  two.a.memory[0] = 2;
  CHECK(write_status(two) == IBV_WC_BAD_RESP_ERR);
  CHECK(two.b.memory[0] == 1);
  CHECK(write_status(two) == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("revoke: the key that a request names, or all of a device") {
  Fabric fabric;
  Two two;
  if (GENERATE(false, true)) {
    Fault fault;
    fault.kind = FaultKind::kRevoke;
    add(fault);
    CHECK(write_status(two) == IBV_WC_REM_ACCESS_ERR);
    take_event(two.b);
  } else {
    fake_verbs::revoke_keys("fake_0");
    CHECK(write_status(two) == IBV_WC_LOC_PROT_ERR);  // the sender's own key is looked at first
  }
}

TEST_CASE("port down in the middle: the requester's port, with its event") {
  Fabric fabric;
  Two two;
  Fault fault;
  fault.kind = FaultKind::kPortDown;
  fault.after = 1;
  add(fault);
  CHECK(write_status(two) == IBV_WC_SUCCESS);
  CHECK(write_status(two) == IBV_WC_RETRY_EXC_ERR);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(two.a.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_PORT_ERR);
}

TEST_CASE("kill: the process that posts is gone") {
  Fabric fabric;
  Fault fault;
  fault.kind = FaultKind::kKill;
  add(fault);
  const pid_t child = ::fork();
  if (child == 0) {
    Two two;
    (void)write_status(two);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  { Side cleans_up; }
}

TEST_CASE("faults in a text, for programs that only find the library") {
  Fabric fabric({.faults = "drop:after=1,value=9;status:opcode=send,value=10,times=0"});
  Two two;
  CHECK(write_status(two) == IBV_WC_SUCCESS);
  CHECK(write_status(two) == IBV_WC_RETRY_EXC_ERR);
  Two other;
  REQUIRE(other.b.receive(1, 0, 8) == 0);
  REQUIRE(other.a.send(IBV_WR_SEND, {}, 0, 8) == 0);
  CHECK(other.a.one().status == IBV_WC_REM_ACCESS_ERR);  // 10
}

TEST_CASE("every post is in the log, in order") {
  Fabric fabric;
  Two two;
  fake_verbs::clear_posted();
  const Address to = two.b.address();
  REQUIRE(two.b.receive(3, 0, 16) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, to, 64, 5000, 11) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, to, 0, 0, 12, IBV_SEND_INLINE, 77) == 0);
  const auto log = fake_verbs::posted();
  REQUIRE(log.size() == 3);
  CHECK(log[0].opcode == 0xff);
  CHECK(log[0].id == 3);
  CHECK(log[0].bytes == 16);
  CHECK(log[0].queue_pair == two.b.qp->qp_num);
  CHECK(log[1].opcode == IBV_WR_RDMA_WRITE);
  CHECK(log[1].bytes == 5000);
  CHECK(log[1].remote_address == to.memory + 64);
  CHECK(log[1].address == two.a.address().memory + 64);
  CHECK(log[1].peer == two.b.qp->qp_num);
  CHECK(log[1].signaled);
  CHECK(log[1].pieces == 1);
  CHECK(std::string(log[1].device) == "fake_0");
  CHECK(log[2].opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
  CHECK(log[2].immediate == 77);
  CHECK(log[2].inlined);
  CHECK(!log[2].signaled);
  CHECK(log[2].process == ::getpid());
  CHECK(two.a.poll(1).size() == 1);
}

}  // namespace faults_tests
