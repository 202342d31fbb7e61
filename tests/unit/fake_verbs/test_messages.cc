// Data that arrives: each opcode, inside one process and between two.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "tests/unit/fake_verbs/side.h"

namespace messages_tests {

using namespace fake_verbs_test;

namespace {
struct TemporaryFile {
  TemporaryFile() {
    const int fd = ::mkstemp(path);
    REQUIRE(fd >= 0);
    ::close(fd);
  }
  ~TemporaryFile() { ::unlink(path); }
  char path[32] = "/tmp/fake-verbs-XXXXXX";
};

void fill(std::vector<uint8_t>& memory, uint32_t seed) {
  for (uint8_t& byte : memory) byte = uint8_t((seed = seed * 1664525 + 1013904223) >> 24);
}
}  // namespace

TEST_CASE("a write arrives without the peer's doing, and completes at the sender alone") {
  Fabric fabric;
  Two two;
  fill(two.a.memory, 1);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 100, 5000, 77) == 0);
  const ibv_wc wc = two.a.one();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RDMA_WRITE);
  CHECK(wc.wr_id == 77);
  CHECK(wc.qp_num == two.a.qp->qp_num);
  CHECK(std::equal(two.a.memory.begin() + 100, two.a.memory.begin() + 5100,
                   two.b.memory.begin() + 100));
  CHECK(two.b.memory[99] == 0);
  CHECK(two.b.memory[5100] == 0);
  CHECK(two.b.silent());
}

TEST_CASE("a write with immediate takes a receive and brings the length and the immediate") {
  Fabric fabric;
  Two two;
  fill(two.a.memory, 2);
  REQUIRE(two.b.receive(5) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, two.b.address(), 0, 33, 1, IBV_SEND_SIGNALED,
                     htobe32(9)) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  const ibv_wc wc = two.b.one();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(wc.wr_id == 5);
  CHECK(wc.byte_len == 33);
  CHECK((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
  CHECK(wc.imm_data == htobe32(9));
  CHECK(std::equal(two.a.memory.begin(), two.a.memory.begin() + 33, two.b.memory.begin()));
}

TEST_CASE("a send lands where the receive says; a read brings data back") {
  Fabric fabric;
  Two two;
  fill(two.a.memory, 3);
  REQUIRE(two.b.receive(6, 1000, 200) == 0);
  REQUIRE(two.a.send(IBV_WR_SEND, {}, 0, 100) == 0);
  CHECK(two.a.one().opcode == IBV_WC_SEND);
  const ibv_wc wc = two.b.one();
  CHECK(wc.opcode == IBV_WC_RECV);
  CHECK(wc.byte_len == 100);
  CHECK(std::equal(two.a.memory.begin(), two.a.memory.begin() + 100, two.b.memory.begin() + 1000));
  std::fill(two.a.memory.begin() + 1000, two.a.memory.begin() + 1100, uint8_t(0));
  const std::vector<uint8_t> there(two.b.memory.begin() + 1000, two.b.memory.begin() + 1100);
  REQUIRE(two.a.send(IBV_WR_RDMA_READ, two.b.address(), 1000, 100) == 0);
  CHECK(two.a.one().opcode == IBV_WC_RDMA_READ);
  CHECK(std::equal(there.begin(), there.end(), two.a.memory.begin() + 1000));
}

TEST_CASE("zero bytes need no memory and no key") {
  Fabric fabric;
  Two two;
  REQUIRE(two.b.receive(1) == 0);
  Address nowhere = two.b.address();
  nowhere.remote_key = 0;
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, nowhere, 0, 0, 1, IBV_SEND_SIGNALED, 42) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  const ibv_wc wc = two.b.one();
  CHECK(wc.byte_len == 0);
  CHECK(wc.imm_data == 42);
}

TEST_CASE("between processes") {
  fake_verbs::Setup setup;
  setup.late = GENERATE(false, true);
  setup.staged = GENERATE(false, true);  // as where no process may touch another's memory
  // Either one mapping that the child inherits, or a file that both come to by themselves.
  const bool file = GENERATE(false, true);
  const TemporaryFile world;
  if (file) setup.world = world.path;
  Fabric fabric(setup);
  if (!file) (void)fake_verbs::counts();
  int to_child[2], to_parent[2];
  REQUIRE(::pipe(to_child) == 0);
  REQUIRE(::pipe(to_parent) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Echoes: what arrives with an immediate is written back, elsewhere, with the same one.
    int wrong = 0;
    {
      Side side;
      const Address mine = side.address();
      Address peer{};
      wrong += ::write(to_parent[1], &mine, sizeof mine) != ssize_t(sizeof mine);
      wrong += ::read(to_child[0], &peer, sizeof peer) != ssize_t(sizeof peer);
      wrong += side.connect(peer) != 0;
      for (uint64_t i = 0; i < 8; ++i) wrong += side.receive(i, 0, 0) != 0;
      wrong += ::write(to_parent[1], "x", 1) != 1;
      bool answered = true;  // the last answer is gone, its memory free again
      for (int i = 0; i < 8; ++i) {
        ibv_wc got{};
        for (bool arrived = false; !arrived || !answered;) {
          const ibv_wc wc = side.one();
          if (wc.opcode == IBV_WC_RDMA_WRITE)
            answered = true;
          else
            got = wc, arrived = true;
        }
        wrong += got.status != IBV_WC_SUCCESS;
        std::copy_n(side.memory.begin(), got.byte_len, side.memory.begin() + 32768);
        wrong += side.send(IBV_WR_RDMA_WRITE_WITH_IMM, peer, 32768, got.byte_len, 1,
                           IBV_SEND_SIGNALED, got.imm_data) != 0;
        answered = false;
      }
      char end = 0;
      wrong += ::read(to_child[0], &end, 1) != 1;
    }
    ::_exit(wrong == 0 ? 0 : 1);
  }
  {
    Side side;
    const Address mine = side.address();
    Address peer{};
    char ready = 0;
    REQUIRE(::read(to_parent[0], &peer, sizeof peer) == ssize_t(sizeof peer));
    REQUIRE(::write(to_child[1], &mine, sizeof mine) == ssize_t(sizeof mine));
    REQUIRE(::read(to_parent[0], &ready, 1) == 1);
    REQUIRE(side.connect(peer) == 0);
    for (uint32_t i = 0; i < 8; ++i) {
      fill(side.memory, i);
      const std::vector<uint8_t> sent(side.memory.begin(), side.memory.begin() + 8000);
      REQUIRE(side.receive(i) == 0);
      REQUIRE(side.send(IBV_WR_RDMA_WRITE_WITH_IMM, peer, 0, 8000, 1, IBV_SEND_SIGNALED, i) == 0);
      // A write's completion has no order with what arrives: the answer may be there before it.
      ibv_wc got{};
      do {
        got = side.one();
        REQUIRE(got.status == IBV_WC_SUCCESS);
      } while (got.opcode == IBV_WC_RDMA_WRITE);
      CHECK(got.imm_data == i);
      CHECK(got.byte_len == 8000);
      CHECK(std::equal(sent.begin(), sent.end(), side.memory.begin() + 32768));
    }
    REQUIRE(::write(to_child[1], "e", 1) == 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

}  // namespace messages_tests
