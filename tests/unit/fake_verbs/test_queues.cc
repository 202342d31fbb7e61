// Depths of queues, order of completions, inline data, receives that are not there, channels.
#include <fcntl.h>
#include <poll.h>

#include "tests/unit/fake_verbs/side.h"

namespace queues_tests {

using namespace fake_verbs_test;

TEST_CASE(
    "a slot of the send queue is free when a completion was polled, not when the work is done") {
  Fabric fabric;
  Options options;
  options.send_depth = 4;
  Two two(options);
  const Address to = two.b.address();
  for (uint64_t i = 0; i < 3; ++i) REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, to, 0, 8, i, 0) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, to, 0, 8, 3) == 0);
  CHECK(two.a.send(IBV_WR_RDMA_WRITE, to, 0, 8, 4) == ENOMEM);
  // One completion, of the last, frees all four: those before it made none.
  CHECK(two.a.one().wr_id == 3);
  for (uint64_t i = 0; i < 4; ++i) CHECK(two.a.send(IBV_WR_RDMA_WRITE, to, 0, 8, i, 0) == 0);
  // Unsignalled to the end: nothing frees them any more.
  CHECK(two.a.send(IBV_WR_RDMA_WRITE, to, 0, 8, 4) == ENOMEM);
  CHECK(two.a.silent());
}

TEST_CASE("a slot of the receive queue is free when its completion was polled") {
  Fabric fabric;
  Options options;
  options.receive_depth = 2;
  Two two({}, options);
  REQUIRE(two.b.receive(1) == 0);
  REQUIRE(two.b.receive(2) == 0);
  CHECK(two.b.receive(3) == ENOMEM);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, two.b.address(), 0, 0) == 0);
  CHECK(two.b.receive(3) == ENOMEM);
  CHECK(two.b.one().wr_id == 1);
  CHECK(two.b.receive(3) == 0);
}

TEST_CASE("too many pieces and too much inline data are refused when posted") {
  Fabric fabric;
  Options options;
  options.pieces = 2;
  options.inline_bytes = 32;
  Two two(options, options);
  ibv_sge three[] = {two.a.piece(0, 1), two.a.piece(1, 1), two.a.piece(2, 1)};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = three;
  wr.num_sge = 3;
  CHECK(ibv_post_send(two.a.qp, &wr, &bad) == EINVAL);
  CHECK(bad == &wr);
  CHECK(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 33, 1, IBV_SEND_INLINE) == EINVAL);
  CHECK(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 32, 1,
                   IBV_SEND_INLINE | IBV_SEND_SIGNALED) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  CHECK(two.a.send(IBV_WR_RDMA_READ, two.b.address(), 0, 8, 1, IBV_SEND_INLINE) == EINVAL);
}

TEST_CASE("a message longer than the port takes fails at its sender") {
  Fabric fabric({.devices = "fake_0:message=4096"});
  Two two;
  ibv_port_attr port{};
  REQUIRE(ibv_query_port(two.a.context, 1, &port) == 0);
  CHECK(port.max_msg_sz == 4096);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 4096) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 4097) == 0);
  CHECK(two.a.one().status == IBV_WC_LOC_LEN_ERR);
}

TEST_CASE("inline data is taken at once, other data when its turn comes") {
  fake_verbs::Setup setup;
  setup.late = true;
  Fabric fabric(setup);
#ifdef __SANITIZE_THREAD__
  const bool inlined = true;  // else it is a race indeed
#else
  const bool inlined = GENERATE(true, false);
#endif
  Two two;
  // 300 ms pass between posting and sending.
  fake_verbs::Fault delay;
  delay.kind = fake_verbs::FaultKind::kDelay;
  delay.us = 300000;
  fake_verbs::add_fault(delay);
  two.a.memory[0] = 1;
  ibv_sge sge = two.a.piece(0, 1);
  if (inlined) sge.lkey = 0;  // is not looked at
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = unsigned(IBV_SEND_SIGNALED) | (inlined ? unsigned(IBV_SEND_INLINE) : 0u);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = two.b.address().memory;
  wr.wr.rdma.rkey = two.b.mr->rkey;
  REQUIRE(ibv_post_send(two.a.qp, &wr, &bad) == 0);
  __atomic_store_n(two.a.memory.data(), uint8_t(2), __ATOMIC_RELAXED);
  CHECK(two.a.silent(10));
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  CHECK(two.b.memory[0] == (inlined ? 1 : 2));
}

TEST_CASE("completions come in the order of posting") {
  fake_verbs::Setup setup;
  setup.late = GENERATE(false, true);
  Fabric fabric(setup);
  Two two;
  // The second of four is held up: so are those after it.
  fake_verbs::Fault delay;
  delay.kind = fake_verbs::FaultKind::kDelay;
  delay.after = 1;
  delay.us = 20000;
  fake_verbs::add_fault(delay);
  for (uint64_t i = 0; i < 4; ++i)
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 8 * i, 8, i) == 0);
  const auto got = two.a.poll(4);
  REQUIRE(got.size() == 4);
  for (uint64_t i = 0; i < 4; ++i) CHECK(got[i].wr_id == i);
}

TEST_CASE("a completion queue that overflows is dead, and an event says so") {
  Fabric fabric;
  Options options;
  options.queue_depth = 2;
  Two two(options);
  for (uint64_t i = 0; i < 3; ++i)
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 8, i) == 0);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(two.a.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_CQ_ERR);
  CHECK(event.element.cq == two.a.cq);
  ibv_ack_async_event(&event);
}

TEST_CASE(
    "without a receive the sender waits and tries again, so often and so long as was agreed") {
  // 3 tries after the first, 0.64 ms apart (code 12 of the table): 1.92 ms in all.
  Fabric fabric;
  Two two({}, {}, [](ibv_qp_attr& attr) {
    attr.min_rnr_timer = 12;
    attr.rnr_retry = 3;
  });
  const auto before = std::chrono::steady_clock::now();
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, two.b.address(), 0, 8, 9, 0) == 0);
  const ibv_wc wc = two.a.one();
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count();
  CHECK(wc.status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(wc.wr_id == 9);  // an error completes although it was not to be signalled
  CHECK(ms >= 1.92);
  CHECK(two.b.silent());
}

TEST_CASE("a receive that comes in time, or late with endless retries, is found") {
  Fabric fabric;
  Two two({}, {}, [](ibv_qp_attr& attr) {
    attr.min_rnr_timer = 1;
    attr.rnr_retry = 7;
  });
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, two.b.address(), 0, 8) == 0);
  CHECK(two.a.silent(20));
  REQUIRE(two.b.receive(1) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  CHECK(two.b.one().wr_id == 1);
}

TEST_CASE("a channel tells once for each time it was asked") {
  Fabric fabric;
  Options options;
  options.channel = true;
  Two two({}, options);
  Side& b = two.b;
  const auto told = [&](int ms) {
    pollfd p{b.channel->fd, POLLIN, 0};
    return ::poll(&p, 1, ms) == 1;
  };
  const auto knock = [&] {
    REQUIRE(b.receive(1) == 0);
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, b.address(), 0, 0, 1, 0) == 0);
  };
  knock();
  CHECK(!told(20));  // was not asked
  CHECK(b.one().status == IBV_WC_SUCCESS);
  REQUIRE(ibv_req_notify_cq(b.cq, 0) == 0);
  knock();
  knock();
  CHECK(told(2000));
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(b.channel, &cq, &context) == 0);
  CHECK(cq == b.cq);
  CHECK(context == &b);
  ibv_ack_cq_events(cq, 1);
  CHECK(!told(20));  // one event for two completions
  CHECK(b.poll(2).size() == 2);
  CHECK(ibv_req_notify_cq(two.a.cq, 0) != 0);  // has no channel
}

TEST_CASE("asked for solicited completions only") {
  Fabric fabric;
  Options options;
  options.channel = true;
  Two two({}, options);
  REQUIRE(ibv_req_notify_cq(two.b.cq, 1) == 0);
  pollfd p{two.b.channel->fd, POLLIN, 0};
  const Address to = two.b.address();
  REQUIRE(two.b.receive(1) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, to, 0, 0, 1, 0) == 0);
  CHECK(::poll(&p, 1, 20) == 0);
  REQUIRE(two.b.receive(2) == 0);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, to, 0, 0, 1, IBV_SEND_SOLICITED) == 0);
  CHECK(::poll(&p, 1, 2000) == 1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(two.b.channel, &cq, &context) == 0);
  ibv_ack_cq_events(cq, 1);
  CHECK(two.b.poll(2).size() == 2);
}

TEST_CASE("completions of a pair that is destroyed go with it") {
  Fabric fabric;
  Side a, b;
  REQUIRE(a.connect(b.address()) == 0);
  REQUIRE(b.connect(a.address()) == 0);
  REQUIRE(a.send(IBV_WR_RDMA_WRITE, b.address(), 0, 8) == 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = a.cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  CHECK(ibv_destroy_cq(a.cq) == EBUSY);
  REQUIRE(ibv_destroy_qp(a.qp) == 0);
  a.qp = ibv_create_qp(a.pd, &init);
  CHECK(a.silent());
}

}  // namespace queues_tests
