// NET/IB's pure parts: which ports, which addresses, what the blobs and immediates hold, which
// words.
#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "transport/net/ib/choice.h"
#include "transport/net/ib/errors.h"
#include "transport/net/ib/filter.h"
#include "transport/net/ib/immediate.h"
#include "transport/table/nets.h"

namespace ib_parts_tests {

using namespace collctl;
using namespace collctl::transport;
namespace drivers = collctl::base::drivers;

namespace {

bool allows(const char* text, const char* device, int port) {
  const auto filter = IbFilter::parse(text);
  REQUIRE(filter);
  return filter->allows(device, port);
}

drivers::VerbsGid ipv4(int a, int b, int c, int d) {
  return {
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, uint8_t(a), uint8_t(b), uint8_t(c), uint8_t(d)}};
}
drivers::VerbsGid ipv6(int first, int second, int last) {
  return {{uint8_t(first), uint8_t(second), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, uint8_t(last)}};
}
IbGid gid(drivers::VerbsGid bytes, uint32_t type, int index, int net_bits = 0) {
  return {.gid = bytes, .type = type, .index = uint8_t(index), .net_bits = uint8_t(net_bits)};
}

// The usual table of a RoCE port: link-local v1 and v2, IPv4 v1 and v2.
std::vector<IbGid> table(int host, int net_bits = 0) {
  const auto local = ipv6(0xfe, 0x80, host);
  const auto v4 = ipv4(10, 0, 0, host);
  return {gid(local, drivers::kGidRoceV1, 0), gid(local, drivers::kGidRoceV2, 1),
          gid(v4, drivers::kGidRoceV1, 2, net_bits), gid(v4, drivers::kGidRoceV2, 3, net_bits)};
}

IbBlob a_blob() {
  IbBlob blob;
  blob.split = 1;
  blob.clear_address = 0x1234567890;
  blob.rails = {{.device = "mlx5_0",
                 .port = 1,
                 .link_layer = drivers::kLinkEthernet,
                 .mtu = 5,
                 .lid = 0,
                 .clear_key = 77,
                 .gids = table(7)},
                {.device = "mlx5_1",
                 .port = 2,
                 .link_layer = drivers::kLinkEthernet,
                 .mtu = 3,
                 .lid = 9,
                 .clear_key = 78,
                 .gids = {}}};
  blob.lanes = {{.qp = 100, .rail = 0}, {.qp = 0xffffff, .rail = 1}};
  return blob;
}

}  // namespace

TEST_CASE("the list of adapters means what it means in NCCL") {
  CHECK(allows("", "mlx5_0", 1));
  // Prefixes.
  CHECK(allows("mlx5", "mlx5_7", 2));
  CHECK(allows("mlx5_1", "mlx5_10", 1));
  CHECK_FALSE(allows("mlx5_1", "mlx5_2", 1));
  CHECK(allows("mlx5_1,mlx4_0", "mlx4_0", 1));
  // A port is meant only where it is named.
  CHECK(allows("mlx5_0:1", "mlx5_0", 1));
  CHECK_FALSE(allows("mlx5_0:1", "mlx5_0", 2));
  CHECK(allows("mlx5_0:1,mlx5_1", "mlx5_1", 2));
  // Exact, excluded, both, in either order.
  CHECK_FALSE(allows("=mlx5_1", "mlx5_10", 1));
  CHECK(allows("=mlx5_1", "mlx5_1", 1));
  CHECK_FALSE(allows("^mlx5_1", "mlx5_10", 1));
  CHECK(allows("^mlx5_1", "mlx5_2", 1));
  CHECK(allows("^=mlx5_1", "mlx5_10", 1));
  CHECK(allows("=^mlx5_1", "mlx5_10", 1));
  CHECK_FALSE(allows("^=mlx5_1", "mlx5_1", 1));
  CHECK(allows("^mlx5_1:2", "mlx5_1", 1));
  CHECK_FALSE(allows("^mlx5_1:2", "mlx5_1", 2));
  for (const char* bad : {"^", "=", "a,,b", ",", "a:", "a:0", "a:256", "a:x", "a:1x", ":1"}) {
    INFO(bad);
    const auto filter = IbFilter::parse(bad);
    REQUIRE_FALSE(filter);
    CHECK(filter.error().code == ErrorCode::usage);
    CHECK(filter.error().message.find("COLLCTL_IB_HCA") != std::string::npos);
  }
}

TEST_CASE("RoCE v2 over IPv4 is what two ordinary ports choose, by whatever index") {
  auto there = table(9);
  std::swap(there[1], there[3]);
  there[1].index = 1;
  const auto pair = choose_gids(table(7), there, 2);
  REQUIRE(pair);
  CHECK(pair->sender.index == 3);
  CHECK(pair->receiver.index == 1);
  CHECK(pair->receiver.gid == ipv4(10, 0, 0, 9));
  const auto old = choose_gids(table(7), table(9), 1);
  REQUIRE(old);
  CHECK(old->sender.index == 2);
  CHECK(old->receiver.index == 2);
}

TEST_CASE("addresses are chosen by the peer's subnet and family") {
  const auto v2 = drivers::kGidRoceV2;
  // Two IPv4 networks here, one there: the common one.
  const std::vector<IbGid> here{gid(ipv4(192, 168, 1, 1), v2, 4, 24),
                                gid(ipv4(10, 1, 0, 1), v2, 6, 16)};
  const std::vector<IbGid> there{gid(ipv4(10, 1, 3, 2), v2, 5, 16)};
  auto pair = choose_gids(here, there, 2);
  REQUIRE(pair);
  CHECK(pair->sender.index == 6);
  // The peer has IPv6 only: so do we, and not the link-local one.
  const std::vector<IbGid> both{gid(ipv4(10, 1, 0, 1), v2, 0), gid(ipv6(0xfe, 0x80, 1), v2, 1),
                                gid(ipv6(0x20, 0x01, 1), v2, 2)};
  const std::vector<IbGid> six{gid(ipv6(0xfe, 0x80, 2), v2, 1), gid(ipv6(0x20, 0x01, 2), v2, 3)};
  pair = choose_gids(both, six, 2);
  REQUIRE(pair);
  CHECK(pair->sender.index == 2);
  CHECK(pair->receiver.index == 3);
  // Only v1 there: better than nothing. Nothing in common: nothing.
  const std::vector<IbGid> v1{gid(ipv4(10, 0, 0, 9), drivers::kGidRoceV1, 0)};
  pair = choose_gids(table(7), v1, 2);
  REQUIRE(pair);
  CHECK(pair->sender.index == 2);
  CHECK_FALSE(choose_gids(there, six, 2));
  CHECK_FALSE(choose_gids({}, six, 2));
}

TEST_CASE("both ends choose the same addresses") {
  std::mt19937 random(5);
  const auto some = [&] {
    std::vector<IbGid> gids;
    for (int i = 0, n = int(random() % 6); i < n; ++i) {
      const bool v4 = random() % 2 != 0;
      auto bytes = v4 ? ipv4(10, int(random() % 2), int(random() % 2), int(random() % 3))
                      : ipv6(random() % 2 != 0 ? 0xfe : 0x20, 0x80, int(random() % 3));
      gids.push_back(gid(bytes, random() % 3, i, v4 ? 16 : 64));
    }
    return gids;
  };
  int chosen = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto a = some(), b = some();
    const auto pair = choose_gids(a, b, 2);
    // Any order of the tables: the same pair, so that it does not depend on who looks.
    auto shuffled = b;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const auto again = choose_gids(a, shuffled, 2);
    REQUIRE(pair.has_value() == again.has_value());
    if (!pair) continue;
    ++chosen;
    CHECK(pair->sender == again->sender);
    CHECK(pair->receiver == again->receiver);
    CHECK(pair->sender.type == pair->receiver.type);
  }
  CHECK(chosen > 200);
}

TEST_CASE("subnets by the prefix that is known") {
  const auto v2 = drivers::kGidRoceV2;
  CHECK(same_subnet(gid(ipv4(10, 0, 0, 1), v2, 0), gid(ipv4(10, 0, 0, 200), v2, 0)));
  CHECK_FALSE(same_subnet(gid(ipv4(10, 0, 0, 1), v2, 0), gid(ipv4(10, 0, 1, 1), v2, 0)));
  CHECK(same_subnet(gid(ipv4(10, 0, 0, 1), v2, 0, 16), gid(ipv4(10, 0, 1, 1), v2, 0, 16)));
  CHECK_FALSE(same_subnet(gid(ipv4(10, 0, 0, 1), v2, 0, 16), gid(ipv4(10, 0, 1, 1), v2, 0, 24)));
  CHECK(gid_text(ipv4(10, 0, 0, 7)) == "::ffff:10.0.0.7");
}

TEST_CASE("a blob arrives as it was sent, and damaged ones are refused") {
  const IbBlob blob = a_blob();
  const Bytes bytes = encoded(blob);
  CHECK(bytes.size() < 1000);
  const auto read = decoded<IbBlob>(bytes);
  REQUIRE(read);
  CHECK(*read == blob);
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK_FALSE(decoded<IbBlob>(ByteView(bytes).first(length)));
  Bytes longer = bytes;
  longer.push_back(0);
  CHECK_FALSE(decoded<IbBlob>(longer));
  // Impossible blobs: no lane, a lane of a port that is not there, an MTU of 8192, a QP of 25 bits.
  const auto refuse = [](IbBlob wrong) {
    const auto result = decoded<IbBlob>(encoded(wrong));
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::lost);
  };
  IbBlob wrong = blob;
  wrong.lanes.clear();
  refuse(wrong);
  wrong = blob;
  wrong.lanes[0].rail = 2;
  refuse(wrong);
  wrong = blob;
  wrong.rails[1].mtu = 6;
  refuse(wrong);
  wrong = blob;
  wrong.lanes[1].qp = 0x1000000;
  refuse(wrong);
  wrong = blob;
  wrong.rails[0].device = "mlx5\n0";
  refuse(wrong);
  // Most random changes leave a blob that is read or refused, and never more than that.
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    Bytes noise = bytes;
    noise[random() % noise.size()] = uint8_t(random());
    const auto result = decoded<IbBlob>(noise);
    if (result) CHECK(result->lanes.size() == 2);
  }
}

TEST_CASE("an immediate holds stream, number and size") {
  // 8 slots of 128 KiB and of 8 KiB: 1 bit of stream, 18 of size (131072 needs 18), 13 of number.
  NetStream streams[3] = {{8, 128 << 10}, {8, 8 << 10}, {}};
  const ImmediateFormat usual(streams);
  CHECK(usual.fits());
  CHECK(usual.tells_repeats());
  CHECK(usual.encode({.stream = 1, .number = 5, .bytes = 131072}) ==
        (1u << 31 | 5u << 18 | 131072));
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const Announcement sent{.stream = int(random() % 2),
                            .number = uint32_t(random()),
                            .bytes = uint32_t(random() % 131073)};
    const Announcement read = usual.decode(usual.encode(sent));
    CHECK(read.stream == sent.stream);
    CHECK(read.bytes == sent.bytes);
    CHECK(read.number == (sent.number & 8191));
  }
  // The number's low bits mean the first message that may come.
  CHECK(usual.message(5, 0) == 5);
  CHECK(usual.message(5, 8192 * 3 + 1) == 8192 * 3 + 5);
  CHECK(usual.message(1, 8190) == 8193);

  // 1 GiB in one slot, by itself: 31 bits of size, 1 of number.
  NetStream large[3] = {{2, 1u << 30}, {}, {}};
  const ImmediateFormat largest(large);
  CHECK(largest.fits());
  CHECK_FALSE(largest.tells_repeats());
  CHECK(largest.decode(largest.encode({.stream = 0, .number = 1, .bytes = 1u << 30})).bytes ==
        1u << 30);
  CHECK(largest.decode(largest.encode({.stream = 0, .number = 3, .bytes = 0})).number == 1);
  large[0].window = 4;
  CHECK_FALSE(ImmediateFormat(large).fits());
}

TEST_CASE("ports by topology, else by NUMA node and speed, in turn") {
  const std::vector<IbCandidate> ports{
      {.device = "mlx5_0", .port = 1, .mbps = 200000, .numa = 0},
      {.device = "mlx5_1", .port = 1, .mbps = 200000, .numa = 0},
      {.device = "mlx5_2", .port = 1, .mbps = 100000, .numa = 1},
      {.device = "mlx5_3", .port = 1, .mbps = 200000, .numa = 1},
      {.device = "eth_0", .port = 1, .mbps = 400000, .numa = 0, .ethernet = true}};
  using Chosen = std::vector<size_t>;
  // NUMA node 0: the first two, ranks and channels in turn.
  CHECK(choose_ports(ports, {.channel = 0, .numa = 0, .local_rank = 0}) == Chosen{0});
  CHECK(choose_ports(ports, {.channel = 1, .numa = 0, .local_rank = 0}) == Chosen{1});
  CHECK(choose_ports(ports, {.channel = 1, .numa = 0, .local_rank = 1}) == Chosen{0});
  // Node 1 has a fast one; node 5 has none, nor is -1 one: the fast ones of all.
  CHECK(choose_ports(ports, {.channel = 0, .numa = 1}) == Chosen{3});
  CHECK(choose_ports(ports, {.channel = 2, .numa = 5}) == Chosen{3});
  CHECK(choose_ports(ports, {.channel = 1}) == Chosen{1});
  // The topology's word counts.
  CHECK(choose_ports(ports, {.nic = "mlx5_2", .channel = 2}) == Chosen{2});
  CHECK(choose_ports(ports, {.nic = "mlx5_1:1", .channel = 2}) == Chosen{1});
  // Only what the peer has.
  CHECK(choose_ports(ports, {.ethernet = true, .infiniband = false}) == Chosen{4});
  CHECK(choose_ports({ports.data(), 4}, {.ethernet = true, .infiniband = false}).empty());
}

TEST_CASE("ports of one card are joined when that is wanted") {
  const std::vector<IbCandidate> ports{
      {.device = "mlx5_0", .port = 1, .mbps = 1, .card = 5},
      {.device = "mlx5_1", .port = 1, .mbps = 1, .card = 6},
      {.device = "mlx5_2", .port = 1, .mbps = 1, .card = 5},
      {.device = "mlx5_0", .port = 2, .mbps = 1, .ethernet = true, .card = 5}};
  using Chosen = std::vector<size_t>;
  CHECK(choose_ports(ports, {.channel = 0, .merge = true}) == Chosen{0, 2});
  CHECK(choose_ports(ports, {.channel = 1, .merge = true}) == Chosen{1});
  CHECK(choose_ports(ports, {.channel = 2, .merge = true}) == Chosen{0, 2});
  CHECK(choose_ports(ports, {.channel = 0}) == Chosen{0});
}

TEST_CASE("every failure has words: who, where, why, what to check") {
  const IbLaneName lane{.local = "mlx5_0:1",
                        .remote = "mlx5_3:1",
                        .peer = "rank 3 (host b1)",
                        .qp = 77,
                        .remote_qp = 78};
  for (int status = 1; status <= drivers::kWorkStatusCount; ++status) {
    const Error error = ib_work_error(
        lane,
        {.status = status, .vendor_error = 0x81, .work = "send message 4 of simple (9 bytes)"}, {});
    INFO(error.message);
    CHECK(error.code == ErrorCode::lost);
    for (const char* part : {"mlx5_0:1", "QP 77", "rank 3 (host b1)", "mlx5_3:1", "QP 78", "0x81",
                             "message 4", "status "})
      CHECK(error.message.find(part) != std::string::npos);
    CHECK(error.message.find(ib_status_name(status)) != std::string::npos);
    CHECK_FALSE(error.hint.empty());
  }
  // 4.096 us x 2^14 is 67.1 ms; 1 + 3 tries are 268 ms.
  IbSettings settings;
  settings.timeout = 14;
  settings.retries = 3;
  const Error silent =
      ib_work_error(lane, {.status = 12, .vendor_error = 0, .work = "x"}, settings);
  CHECK(silent.message.find("4 tries of 0.0671 s each, 0.268 s in all") != std::string::npos);
  CHECK(silent.hint.find("mlx5_3:1 of rank 3 (host b1)") != std::string::npos);
  // The default: 4.096 us x 2^20 is 4.29 s.
  CHECK(ib_retry_text(20, 7).find("8 tries of 4.29 s each, 34.4 s") != std::string::npos);
}

TEST_CASE("two ranks come to the same network") {
  PeerInfo a{}, b{};
  a.rank = 0;
  b.rank = 1;
  const auto name = [&](uint8_t x, uint8_t y) {
    a.nets = x;
    b.nets = y;
    std::string why, other;
    const Net* net = choose_net(a, b, why);
    CHECK(net == choose_net(b, a, other));
    return net == nullptr ? "none: " + why : std::string(net->name);
  };
  CHECK(name(0, 0) == "socket");
  CHECK(name(kNetInfiniBand, kNetInfiniBand | kNetRoce) == "ib");
  CHECK(name(kNetInfiniBand, kNetRoce) == "socket");
  CHECK(name(kNetRoce, 0) == "socket");
  CHECK(name(kNetRoce | kNetNoSocket, kNetRoce) == "ib");
  CHECK(name(kNetInfiniBand | kNetNoSocket, kNetRoce).find("rank 0 has InfiniBand") == 6);
  CHECK(name(kNetInfiniBand | kNetNoSocket, 0).find("no RDMA port") != std::string::npos);
}

}  // namespace ib_parts_tests
