// Keys, ranges and rights: what fits is copied, what does not is an error with the status that the
// specification gives (volume 1, 9.7 and 11.6.2), on the side that it names.
#include "tests/unit/fake_verbs/side.h"

namespace keys_tests {

using namespace fake_verbs_test;

namespace {

// The status of one write to this address with this key; a pair that failed stays so.
ibv_wc_status write_status(Two& two, uint64_t address, uint32_t key, uint32_t bytes = 8) {
  Address to = two.b.address();
  to.memory = address;
  to.remote_key = key;
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, to, 0, bytes) == 0);
  return two.a.one().status;
}

ibv_wc_status local_status(Two& two, ibv_sge sge, ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = two.b.address().memory;
  wr.wr.rdma.rkey = two.b.mr->rkey;
  REQUIRE(ibv_post_send(two.a.qp, &wr, &bad) == 0);
  return two.a.one().status;
}

// The peer of a refused request hears of it by an event, and is in the error state.
void check_event(Side& side, ibv_event_type type) {
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(side.context, &event) == 0);
  CHECK(event.event_type == type);
  CHECK(event.element.qp == side.qp);
  ibv_ack_async_event(&event);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(side.qp, &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_ERR);
}

}  // namespace

TEST_CASE("a remote range has to lie in the key's region, to the byte") {
  Fabric fabric;
  const size_t size = Options{}.bytes;
  struct Case {
    int64_t from;
    uint32_t bytes;
    bool fits;
  };
  const auto c = GENERATE_COPY(Case{0, 8, true}, Case{int64_t(size) - 8, 8, true},
                               Case{int64_t(size) - 7, 8, false}, Case{-1, 8, false},
                               Case{int64_t(size), 1, false}, Case{0, 0, true});
  CAPTURE(c.from, c.bytes);
  Two two;
  const ibv_wc_status status =
      write_status(two, two.b.address().memory + uint64_t(c.from), two.b.mr->rkey, c.bytes);
  CHECK(status == (c.fits ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR));
  if (!c.fits) check_event(two.b, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_CASE("the wrong kind of key, an old one, and one of another domain are refused") {
  Fabric fabric;
  Two two;
  uint32_t key = 0;
  const int which = GENERATE(0, 1, 2);
  CAPTURE(which);
  ibv_mr* other = nullptr;
  if (which == 0) key = two.b.mr->lkey;
  if (which == 1) {
    ibv_mr* old = ibv_reg_mr(two.b.pd, two.b.memory.data(), 100, two.b.options.access);
    key = old->rkey;
    REQUIRE(ibv_dereg_mr(old) == 0);
    // The same row again: its key differs.
    other = ibv_reg_mr(two.b.pd, two.b.memory.data(), 100, two.b.options.access);
    CHECK(other->rkey != key);
  }
  ibv_pd* domain = which == 2 ? ibv_alloc_pd(two.b.context) : nullptr;
  if (which == 2) {
    other = ibv_reg_mr(domain, two.b.memory.data(), 100, two.b.options.access);
    key = other->rkey;
  }
  CHECK(write_status(two, two.b.address().memory, key) == IBV_WC_REM_ACCESS_ERR);
  check_event(two.b, IBV_EVENT_QP_ACCESS_ERR);
  if (other != nullptr) CHECK(ibv_dereg_mr(other) == 0);
  if (domain != nullptr) CHECK(ibv_dealloc_pd(domain) == 0);
}

TEST_CASE("rights of a region and of a pair") {
  Fabric fabric;
  Options local_only, no_read;
  local_only.access = IBV_ACCESS_LOCAL_WRITE;
  no_read.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  SECTION("no remote write in the region") {
    Two two({}, local_only);
    CHECK(write_status(two, two.b.address().memory, two.b.mr->rkey) == IBV_WC_REM_ACCESS_ERR);
    check_event(two.b, IBV_EVENT_QP_ACCESS_ERR);
  }
  SECTION("no remote read in the region") {
    Two two({}, no_read);
    CHECK(local_status(two, two.a.piece(0, 8), IBV_WR_RDMA_READ) == IBV_WC_REM_ACCESS_ERR);
    check_event(two.b, IBV_EVENT_QP_ACCESS_ERR);
  }
  SECTION("not in the pair") {
    Two two({}, {}, [](ibv_qp_attr& attr) { attr.qp_access_flags = 0; });
    CHECK(write_status(two, two.b.address().memory, two.b.mr->rkey) == IBV_WC_REM_INV_REQ_ERR);
    check_event(two.b, IBV_EVENT_QP_REQ_ERR);
  }
  SECTION("no outstanding reads were agreed") {
    Two two({}, {}, [](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = 0; });
    CHECK(local_status(two, two.a.piece(0, 8), IBV_WR_RDMA_READ) == IBV_WC_REM_INV_REQ_ERR);
    check_event(two.b, IBV_EVENT_QP_REQ_ERR);
  }
  SECTION("more outstanding reads than the other end takes") {
    Two two({}, {}, [](ibv_qp_attr& attr) {
      if (attr.qp_state == IBV_QPS_RTS) attr.max_rd_atomic = 2;
    });
    CHECK(local_status(two, two.a.piece(0, 8), IBV_WR_RDMA_READ) == IBV_WC_REM_INV_REQ_ERR);
    check_event(two.b, IBV_EVENT_QP_REQ_ERR);
  }
  SECTION("a read into memory that may not be written") {
    Options reading;
    reading.access = 0;
    Two two(reading, {});
    CHECK(local_status(two, two.a.piece(0, 8), IBV_WR_RDMA_READ) == IBV_WC_LOC_PROT_ERR);
  }
}

TEST_CASE("a device's own limits of reads and of registered bytes") {
  Fabric fabric({.devices = "fake_0:reads=4:region=65536"});
  Two two({}, {}, [](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = attr.max_rd_atomic = 4; });
  ibv_device_attr facts{};
  REQUIRE(ibv_query_device(two.a.context, &facts) == 0);
  CHECK((facts.max_qp_rd_atom == 4 && facts.max_qp_init_rd_atom == 4));
  CHECK(facts.max_mr_size == 65536);
  CHECK(local_status(two, two.a.piece(0, 8), IBV_WR_RDMA_READ) == IBV_WC_SUCCESS);
  std::vector<uint8_t> more(65537);
  errno = 0;
  CHECK(ibv_reg_mr(two.a.pd, more.data(), more.size(), IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(errno == ENOMEM);
  Side other;
  ibv_qp_attr init = other.init_attr(), rtr = other.rtr_attr(two.a.address());
  REQUIRE(ibv_modify_qp(other.qp, &init, Side::kInit) == 0);
  rtr.max_dest_rd_atomic = 5;
  CHECK(ibv_modify_qp(other.qp, &rtr, Side::kRtr) == EINVAL);
}

TEST_CASE("local keys: the sender's own mistake, the peer hears nothing") {
  Fabric fabric;
  Two two;
  ibv_sge sge = two.a.piece(0, 8);
  const int which = GENERATE(0, 1, 2, 3);
  CAPTURE(which);
  if (which == 0) sge.lkey = two.a.mr->rkey;
  if (which == 1) sge.lkey = two.b.mr->lkey;  // of another context
  if (which == 2) sge.addr += two.a.memory.size() - 7;
  if (which == 3) sge.lkey = 0;
  CHECK(local_status(two, sge) == IBV_WC_LOC_PROT_ERR);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(two.a.qp, &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_ERR);
  REQUIRE(ibv_query_qp(two.b.qp, &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_RTS);
}

TEST_CASE("a receive that is too short, or whose key is wrong, fails on both sides") {
  Fabric fabric;
  Two two;
  const bool key = GENERATE(false, true);
  if (key) {
    ibv_sge sge = two.b.piece(0, 100);
    sge.lkey ^= 0x10000;
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = 3;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    REQUIRE(ibv_post_recv(two.b.qp, &wr, &bad) == 0);
  } else {
    REQUIRE(two.b.receive(3, 0, 99) == 0);
  }
  REQUIRE(two.b.receive(4, 0, 100) == 0);
  REQUIRE(two.a.send(IBV_WR_SEND, {}, 0, 100) == 0);
  CHECK(two.a.one().status == (key ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR));
  const auto got = two.b.poll(2);
  REQUIRE(got.size() == 2);
  CHECK(got[0].wr_id == 3);
  CHECK(got[0].status == (key ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR));
  CHECK(got[1].wr_id == 4);
  CHECK(got[1].status == IBV_WC_WR_FLUSH_ERR);
  check_event(two.b, key ? IBV_EVENT_QP_FATAL : IBV_EVENT_QP_REQ_ERR);
}

TEST_CASE("what can be registered") {
  Fabric fabric;
  Side side;
  const auto error = [&](void* at, size_t bytes, int access) {
    ibv_mr* mr = ibv_reg_mr(side.pd, at, bytes, access);
    if (mr == nullptr) return errno;
    CHECK(ibv_dereg_mr(mr) == 0);
    return 0;
  };
  uint8_t* at = side.memory.data();
  CHECK(error(at, 100, IBV_ACCESS_LOCAL_WRITE) == 0);
  CHECK(error(at, 0, IBV_ACCESS_LOCAL_WRITE) == EINVAL);
  CHECK(error(at, 100, IBV_ACCESS_REMOTE_WRITE) == EINVAL);  // without the local right
  CHECK(error(at, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC) == EINVAL);
  CHECK(error(reinterpret_cast<void*>(uint64_t(4096)), 100, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
  CHECK(ibv_dealloc_pd(side.pd) == EBUSY);
}

TEST_CASE("a region can be known by other addresses than its own") {
  Fabric fabric;
  Two two;
  const uint64_t iova = 0x7000;
  ibv_mr* mr =
      ibv_reg_mr_iova2(two.b.pd, two.b.memory.data(), 4096, iova, unsigned(two.b.options.access));
  REQUIRE(mr != nullptr);
  two.a.memory[0] = 42;
  CHECK(write_status(two, iova + 100, mr->rkey, 1) == IBV_WC_SUCCESS);
  CHECK(two.b.memory[100] == 42);
  CHECK(write_status(two, two.b.address().memory, mr->rkey, 1) == IBV_WC_REM_ACCESS_ERR);
  check_event(two.b, IBV_EVENT_QP_ACCESS_ERR);
  CHECK(ibv_dereg_mr(mr) == 0);
}

}  // namespace keys_tests
