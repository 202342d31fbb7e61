// The states of a queue pair: which step takes which attributes, and what each state lets one do.
// The expectations are those of the InfiniBand specification (volume 1, 10.3.1 and 11.2.5.2).
#include "tests/unit/fake_verbs/side.h"

namespace states_tests {

using namespace fake_verbs_test;

namespace {
// Each single attribute that a step needs, left out: refused; with all: taken.
void check_needed(Side& side, const ibv_qp_attr& attr, int mask) {
  for (int bit = 1; bit <= mask; bit <<= 1) {
    if ((mask & bit) == 0 || bit == IBV_QP_STATE) continue;
    ibv_qp_attr tried = attr;
    CAPTURE(bit);
    CHECK(ibv_modify_qp(side.qp, &tried, mask & ~bit) == EINVAL);
  }
}
}  // namespace

TEST_CASE("each step needs all of its attributes") {
  Fabric fabric;
  Side a, b;
  ibv_qp_attr attr = a.init_attr();
  check_needed(a, attr, Side::kInit);
  REQUIRE(ibv_modify_qp(a.qp, &attr, Side::kInit) == 0);
  attr = a.rtr_attr(b.address());
  check_needed(a, attr, Side::kRtr);
  REQUIRE(ibv_modify_qp(a.qp, &attr, Side::kRtr) == 0);
  attr = a.rts_attr();
  check_needed(a, attr, Side::kRts);
  REQUIRE(ibv_modify_qp(a.qp, &attr, Side::kRts) == 0);
  CHECK(a.qp->state == IBV_QPS_RTS);
}

TEST_CASE("no step takes attributes of another, and none is left out") {
  Fabric fabric;
  Side a, b;
  ibv_qp_attr rtr = a.rtr_attr(b.address()), rts = a.rts_attr(), init = a.init_attr();
  CHECK(ibv_modify_qp(a.qp, &rtr, Side::kRtr) == EINVAL);  // from RESET
  CHECK(ibv_modify_qp(a.qp, &rts, Side::kRts) == EINVAL);
  CHECK(ibv_modify_qp(a.qp, &init, Side::kInit | IBV_QP_TIMEOUT) == EINVAL);
  REQUIRE(ibv_modify_qp(a.qp, &init, Side::kInit) == 0);
  CHECK(ibv_modify_qp(a.qp, &rts, Side::kRts) == EINVAL);  // from INIT
  CHECK(ibv_modify_qp(a.qp, &rtr, Side::kRtr | IBV_QP_SQ_PSN) == EINVAL);
  REQUIRE(ibv_modify_qp(a.qp, &rtr, Side::kRtr) == 0);
  CHECK(ibv_modify_qp(a.qp, &rtr, Side::kRtr) == EINVAL);  // twice
}

TEST_CASE("values out of range are refused") {
  Fabric fabric({.devices = "fake_0:mtu=1024"});
  Side a, b;
  const auto refused = [&](const ibv_qp_attr& good, int mask,
                           const std::function<void(ibv_qp_attr&)>& spoil) {
    ibv_qp_attr attr = good;
    spoil(attr);
    return ibv_modify_qp(a.qp, &attr, mask) == EINVAL;
  };
  ibv_qp_attr init = a.init_attr();
  CHECK(refused(init, Side::kInit, [](ibv_qp_attr& x) { x.port_num = 2; }));
  CHECK(refused(init, Side::kInit, [](ibv_qp_attr& x) { x.port_num = 0; }));
  CHECK(refused(init, Side::kInit, [](ibv_qp_attr& x) { x.pkey_index = 1; }));
  CHECK(refused(init, Side::kInit,
                [](ibv_qp_attr& x) { x.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC; }));
  REQUIRE(ibv_modify_qp(a.qp, &init, Side::kInit) == 0);
  ibv_qp_attr rtr = a.rtr_attr(b.address());
  CHECK(refused(rtr, Side::kRtr,
                [](ibv_qp_attr& x) { x.path_mtu = IBV_MTU_2048; }));  // the port: 1024
  CHECK(refused(rtr, Side::kRtr, [](ibv_qp_attr& x) { x.min_rnr_timer = 32; }));
  CHECK(refused(rtr, Side::kRtr, [](ibv_qp_attr& x) { x.max_dest_rd_atomic = 17; }));
  CHECK(refused(rtr, Side::kRtr, [](ibv_qp_attr& x) { x.dest_qp_num = 1 << 24; }));
  CHECK(refused(rtr, Side::kRtr, [](ibv_qp_attr& x) { x.ah_attr.dlid = 0; }));
  CHECK(refused(rtr, Side::kRtr, [](ibv_qp_attr& x) { x.ah_attr.port_num = 2; }));
  CHECK(refused(rtr, Side::kRtr, [](ibv_qp_attr& x) { x.ah_attr.sl = 16; }));
  REQUIRE(ibv_modify_qp(a.qp, &rtr, Side::kRtr) == 0);
  const ibv_qp_attr rts = a.rts_attr();
  CHECK(refused(rts, Side::kRts, [](ibv_qp_attr& x) { x.timeout = 32; }));
  CHECK(refused(rts, Side::kRts, [](ibv_qp_attr& x) { x.retry_cnt = 8; }));
  CHECK(refused(rts, Side::kRts, [](ibv_qp_attr& x) { x.rnr_retry = 8; }));
}

TEST_CASE("sends wait for RTS, receives may be posted from INIT on") {
  Fabric fabric;
  Side a, b;
  CHECK(a.receive(1) == EINVAL);
  CHECK(a.send(IBV_WR_RDMA_WRITE, b.address(), 0, 8) == EINVAL);
  ibv_qp_attr attr = a.init_attr();
  REQUIRE(ibv_modify_qp(a.qp, &attr, Side::kInit) == 0);
  CHECK(a.receive(1) == 0);
  CHECK(a.send(IBV_WR_RDMA_WRITE, b.address(), 0, 8) == EINVAL);
  attr = a.rtr_attr(b.address());
  REQUIRE(ibv_modify_qp(a.qp, &attr, Side::kRtr) == 0);
  CHECK(a.send(IBV_WR_RDMA_WRITE, b.address(), 0, 8) == EINVAL);
  CHECK(a.silent());
}

TEST_CASE("a pair in RTR takes what comes; one in INIT does not") {
  Fabric fabric({.time_scale = 0.1});
  Side a, b;
  REQUIRE(a.connect(b.address()) == 0);
  ibv_qp_attr attr = b.init_attr();
  REQUIRE(ibv_modify_qp(b.qp, &attr, Side::kInit) == 0);
  // The peer comes up while the request is being tried again: it arrives after all.
  REQUIRE(a.send(IBV_WR_RDMA_WRITE, b.address(), 0, 8) == 0);
  attr = b.rtr_attr(a.address());
  REQUIRE(ibv_modify_qp(b.qp, &attr, Side::kRtr) == 0);
  CHECK(a.one().status == IBV_WC_SUCCESS);
}

TEST_CASE("the error state flushes both queues, in order, signalled or not") {
  Fabric fabric;
  Two two;
  for (uint64_t i = 1; i <= 3; ++i) REQUIRE(two.a.receive(i) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  REQUIRE(ibv_modify_qp(two.a.qp, &attr, IBV_QP_STATE) == 0);
  // Posting still works there, and comes back flushed.
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 8, 4, 0) == 0);
  REQUIRE(two.a.receive(5) == 0);
  const auto got = two.a.poll(5);
  REQUIRE(got.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(got[i].wr_id == i + 1);
    CHECK(got[i].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(got[i].qp_num == two.a.qp->qp_num);
    CHECK(int(got[i].opcode) > IBV_WC_RECV_RDMA_WITH_IMM);  // not valid in a failed completion
  }
}

TEST_CASE("RESET forgets requests and completions, and the pair can be connected anew") {
  Fabric fabric;
  Two two;
  REQUIRE(two.a.receive(1) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 8) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(two.a.qp, &attr, IBV_QP_STATE) == 0);
  REQUIRE(ibv_modify_qp(two.b.qp, &attr, IBV_QP_STATE) == 0);
  CHECK(two.a.silent());
  REQUIRE(two.a.connect(two.b.address()) == 0);
  REQUIRE(two.b.connect(two.a.address()) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 8) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
}

TEST_CASE("what a pair is asked for is bounded by the device") {
  Fabric fabric({.devices = "fake_0:pairs=2:depth=100:inline=64"});
  Side side;
  ibv_qp_init_attr good{};
  good.send_cq = good.recv_cq = side.cq;
  good.cap = {16, 16, 1, 1, 0};
  good.qp_type = IBV_QPT_RC;
  const auto made = [&](const std::function<void(ibv_qp_init_attr&)>& change) {
    ibv_qp_init_attr init = good;
    change(init);
    ibv_qp* qp = ibv_create_qp(side.pd, &init);
    const int error = qp == nullptr ? errno : 0;
    if (qp != nullptr) CHECK(ibv_destroy_qp(qp) == 0);
    return error;
  };
  CHECK(made([](ibv_qp_init_attr&) {}) == 0);
  CHECK(made([](ibv_qp_init_attr& i) { i.cap.max_send_wr = 101; }) == EINVAL);
  CHECK(made([](ibv_qp_init_attr& i) { i.cap.max_recv_wr = 101; }) == EINVAL);
  CHECK(made([](ibv_qp_init_attr& i) { i.cap.max_send_sge = 17; }) == EINVAL);
  CHECK(made([](ibv_qp_init_attr& i) { i.cap.max_inline_data = 65; }) == EINVAL);
  CHECK(made([](ibv_qp_init_attr& i) { i.qp_type = IBV_QPT_UD; }) == EINVAL);
  ibv_qp* second = ibv_create_qp(side.pd, &good);
  REQUIRE(second != nullptr);
  CHECK(made([](ibv_qp_init_attr&) {}) == ENOMEM);  // the device has two
  CHECK(ibv_destroy_qp(second) == 0);
}

}  // namespace states_tests
