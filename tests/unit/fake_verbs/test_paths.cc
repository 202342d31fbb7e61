// Which packets arrive, and how long a sender tries when they do not: addresses, partitions, packet
// sizes and numbers, ports and cables. A misfit is silence, as on a real fabric.
#include "tests/unit/fake_verbs/side.h"

namespace paths_tests {

using namespace fake_verbs_test;

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) {
  return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
}

// One write of so many bytes over a connection that a test has spoiled.
ibv_wc_status status_of(Two& two, size_t bytes = 8) {
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, bytes) == 0);
  return two.a.one().status;
}

// Changes applied to the first end only.
std::function<void(ibv_qp_attr&)> first_only(std::function<void(ibv_qp_attr&)> change) {
  auto seen = std::make_shared<int>(0);
  return [seen, change](ibv_qp_attr& attr) {
    if ((*seen)++ < 3) change(attr);  // three steps of each end
  };
}
void impatient(ibv_qp_attr& attr) {
  attr.timeout = 8;  // 1.05 ms
  attr.retry_cnt = 1;
}

}  // namespace

TEST_CASE("a sender fails after (retries + 1) timeouts of 4.096 us times 2^t") {
  // t = 12: 16.8 ms; 2 retries: 50.3 ms in all; scaled by 1/2: 25.2 ms.
  const double scale = GENERATE(1.0, 0.5);
  Fabric fabric({.time_scale = scale});
  Two two({}, {}, [](ibv_qp_attr& attr) {
    attr.timeout = 12;
    attr.retry_cnt = 2;
  });
  fake_verbs::set_cable("fake_0", 1, false);
  fake_verbs::set_port("fake_0", 1, false);
  fake_verbs::set_cable("fake_0", 1, true);
  const auto before = Clock::now();
  CHECK(status_of(two) == IBV_WC_RETRY_EXC_ERR);
  CHECK(ms_since(before) >= 50.3 * scale - 0.1);
  CHECK(ms_since(before) < 10'000);  // a busy machine; for ever is what it must not be
  fake_verbs::set_port("fake_0", 1, true);
}

TEST_CASE("a port that comes back within the time is not noticed") {
  Fabric fabric({.devices = "fake_0,fake_1"});
  Options other;
  other.device = "fake_1";
  Two two({}, other, [](ibv_qp_attr& attr) {
    attr.timeout = 14;  // 67 ms
    attr.retry_cnt = 7;
  });
  fake_verbs::set_port("fake_1", 1, false);
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 8) == 0);
  CHECK(two.a.silent(30));
  fake_verbs::set_port("fake_1", 1, true);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
}

TEST_CASE("a pulled cable stops the wire but not a port's loop to itself") {
  Fabric fabric({.devices = "fake_0,fake_1"});
  Options other;
  other.device = "fake_1";
  Two two({}, other, impatient);
  Side self;
  REQUIRE(self.connect(self.address(), impatient) == 0);
  fake_verbs::set_cable("fake_0", 1, false);
  CHECK(status_of(two) == IBV_WC_RETRY_EXC_ERR);
  REQUIRE(self.send(IBV_WR_RDMA_READ, self.address(), 0, 1) == 0);
  CHECK(self.one().status == IBV_WC_SUCCESS);
  fake_verbs::set_cable("fake_0", 1, true);
}

TEST_CASE("packet sizes that differ: what fits one small packet arrives, the rest does not") {
  Fabric fabric;
  Two two({}, {}, first_only([](ibv_qp_attr& attr) {
            impatient(attr);
            attr.path_mtu = IBV_MTU_2048;  // the other end keeps 4096
          }));
  CHECK(status_of(two, 2048) == IBV_WC_SUCCESS);
  CHECK(status_of(two, 2049) == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("packet numbers: too far ahead is never taken, an old one is taken for a repetition") {
  Fabric fabric;
  SECTION("ahead") {
    Two two({}, {}, first_only([](ibv_qp_attr& attr) {
              impatient(attr);
              attr.sq_psn = 5;  // the other end expects 0
            }));
    CHECK(status_of(two) == IBV_WC_RETRY_EXC_ERR);
  }
  SECTION("behind: acknowledged and thrown away") {
    Two two({}, {}, [](ibv_qp_attr& attr) { attr.rq_psn = 5; });
    two.a.memory[0] = 1;
    CHECK(status_of(two) == IBV_WC_SUCCESS);
    CHECK(two.b.memory[0] == 0);
  }
  SECTION("the same, from 2^24 - 1 over the end") {
    Two two({}, {}, [](ibv_qp_attr& attr) { attr.sq_psn = attr.rq_psn = 0xffffff; });
    for (int i = 0; i < 3; ++i) {
      two.a.memory[0] = uint8_t(1 + i);
      CHECK(status_of(two, 9000) == IBV_WC_SUCCESS);  // 3 packets
      CHECK(two.b.memory[0] == 1 + i);
    }
  }
}

TEST_CASE("each end has to name the other's queue pair") {
  Fabric fabric;
  Side a, b, c;
  REQUIRE(a.connect(b.address(), impatient) == 0);
  REQUIRE(b.connect(c.address(), impatient) == 0);
  REQUIRE(a.send(IBV_WR_RDMA_WRITE, b.address(), 0, 8) == 0);
  CHECK(a.one().status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("partitions: the same number, and one full member at least") {
  struct Case {
    const char* devices;
    bool reach;
  };
  const auto c = GENERATE(Case{"fake_0:pkey=0x8001,fake_1:pkey=0x8001", true},
                          Case{"fake_0:pkey=0x8001,fake_1:pkey=0x0001", true},
                          Case{"fake_0:pkey=0x0001,fake_1:pkey=0x0001", false},
                          Case{"fake_0:pkey=0x8001,fake_1:pkey=0x8002", false},
                          Case{"fake_0:rail=1,fake_1:rail=1", true},
                          Case{"fake_0:rail=1,fake_1:rail=2", false});
  CAPTURE(c.devices);
  Fabric fabric({.devices = c.devices});
  Options other;
  other.device = "fake_1";
  Two two({}, other, impatient);
  CHECK(status_of(two) == (c.reach ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR));
}

TEST_CASE("IB addresses: the port's number on the subnet, and the global one where it is used") {
  Fabric fabric({.devices = "fake_0:ports=2"});
  Options second;
  second.port = 2;
  SECTION("right") {
    Two two({}, second);
    CHECK(status_of(two) == IBV_WC_SUCCESS);
  }
  SECTION("the number of another port") {
    Two two({}, second, first_only([](ibv_qp_attr& attr) {
              impatient(attr);
              ++attr.ah_attr.dlid;
            }));
    CHECK(status_of(two) == IBV_WC_RETRY_EXC_ERR);
  }
  SECTION("global on both sides") {
    Options global;
    global.gid_index = 0;
    Two two(global, global);
    CHECK(status_of(two) == IBV_WC_SUCCESS);
  }
  SECTION("global on one side only") {
    Options global;
    global.gid_index = 0;
    Two two(global, {}, impatient);
    CHECK(status_of(two) == IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_CASE("RoCE: both ends use one kind of address, and the one that the other end answers to") {
  // Entries: 0 v1 and 1 v2 of the link-local address, 2 v1 and 3 v2 of the IPv4-mapped one.
  struct Case {
    int a, b;
    bool reach;
  };
  const auto c = GENERATE(Case{3, 3, true}, Case{1, 1, true}, Case{0, 0, true}, Case{2, 2, true},
                          Case{3, 2, false}, Case{0, 1, false}, Case{1, 3, true});
  CAPTURE(c.a, c.b);
  Fabric fabric({.devices = "fake_0:roce,fake_1:roce"});
  Options a, b;
  a.gid_index = c.a;
  b.gid_index = c.b;
  b.device = "fake_1";
  Two two(a, b, impatient);
  CHECK(status_of(two) == (c.reach ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR));
}

TEST_CASE("RoCE: no global address is refused, one that nobody has is not resolved") {
  Fabric fabric({.devices = "fake_0:roce"});
  Side a, b;
  const Address peer = b.address();
  CHECK(a.connect(peer, [](ibv_qp_attr& attr) { attr.ah_attr.is_global = 0; }) == EINVAL);
  ibv_qp_attr attr = a.rtr_attr(peer);
  attr.ah_attr.grh.sgid_index = 7;  // an empty entry
  CHECK(ibv_modify_qp(a.qp, &attr, Side::kRtr) == EINVAL);
  attr = a.rtr_attr(peer);
  attr.ah_attr.grh.dgid.raw[15] ^= 0x80;
  CHECK(ibv_modify_qp(a.qp, &attr, Side::kRtr) == ETIMEDOUT);
}

TEST_CASE("what a port says of itself") {
  Fabric fabric({.devices = "fake_0:roce:ports=2:mtu=1024:speed=ndr:ip=192.168.7.9,fake_1"});
  Side roce;
  ibv_port_attr port{};
  REQUIRE(ibv_query_port(roce.context, 2, &port) == 0);
  CHECK(port.state == IBV_PORT_ACTIVE);
  CHECK(port.active_mtu == IBV_MTU_1024);
  CHECK(port.link_layer == IBV_LINK_LAYER_ETHERNET);
  CHECK(port.active_speed == 128);
  CHECK(port.lid == 0);
  CHECK(ibv_query_port(roce.context, 3, &port) == EINVAL);
  ibv_gid_entry entry{};
  REQUIRE(ibv_query_gid_ex(roce.context, 2, 3, &entry, 0) == 0);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 7, 10};
  CHECK(std::memcmp(entry.gid.raw, mapped, 16) == 0);
  CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
  CHECK(ibv_query_gid_ex(roce.context, 2, 4, &entry, 0) == ENODATA);
  ibv_device_attr device{};
  REQUIRE(ibv_query_device(roce.context, &device) == 0);
  CHECK(device.phys_port_cnt == 2);
  ibv_context* ib = open_device("fake_1");
  REQUIRE(ibv_query_port(ib, 1, &port) == 0);
  CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND);
  CHECK(port.lid != 0);
  REQUIRE(ibv_query_gid_ex(ib, 1, 0, &entry, 0) == 0);
  CHECK(entry.gid_type == IBV_GID_TYPE_IB);
  __be16 pkey = 0;
  REQUIRE(ibv_query_pkey(ib, 1, 0, &pkey) == 0);
  CHECK(pkey == 0xffff);
  CHECK(ibv_close_device(ib) == 0);
}

TEST_CASE("a text that describes no device is refused") {
  for (const char* text : {"fake_0:speed=fast", "fake_0:ports=5", "fake_0:mtu=1000",
                           "fake_0:ip=1.2.3", "fake_0:bogus", "fake_0:pkey=0x10000", ":ib"})
    CHECK(fake_verbs::set_up({.devices = text}) != "");
  CHECK(fake_verbs::set_up({}) == "");
}

}  // namespace paths_tests
