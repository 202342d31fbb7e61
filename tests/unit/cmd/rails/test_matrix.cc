// Pure parts of `rails`: who meets whom when, what two ports' facts say, and what travels.
#include <cmath>
#include <map>
#include <set>

#include "cmd/judge/blame.h"
#include "cmd/rails/matrix.h"
#include "tests/catch.h"

namespace rails_matrix_tests {

using namespace collctl;
using namespace collctl::runtime;
using base::drivers::kGidRoceV1;
using base::drivers::kGidRoceV2;
using base::drivers::kLinkEthernet;
using base::drivers::kLinkInfiniBand;

TEST_CASE("rails: every two hosts meet once, and no host is in two pairs of a round") {
  for (int n = 0; n <= 33; ++n) {
    INFO(n << " hosts");
    const auto rounds = cmd::tournament(n);
    std::set<std::pair<int, int>> met;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        CHECK((0 <= a && a < b && b < n));
        CHECK(busy.insert(a).second);
        CHECK(busy.insert(b).second);
        CHECK(met.emplace(a, b).second);
      }
    }
    CHECK(met.size() == size_t(n * (n - 1) / 2));
    // The fewest: each round holds half the hosts' pairs, and an odd one sits out.
    const int fewest = n < 2 ? 0 : n % 2 == 0 ? n - 1 : n;
    CHECK(rounds.size() == size_t(fewest));
  }
}

TEST_CASE("rails: of many hosts each meets some others, in rounds that grow with the logarithm") {
  CHECK(rail_rounds(63, 64) == cmd::tournament(63));
  CHECK(rail_rounds(100, 0) == cmd::tournament(100));
  for (const int n : {64, 65, 100, 1000}) {
    INFO(n << " hosts");
    const auto rounds = rail_rounds(n, 64);
    CHECK(rounds.size() <= 2 * size_t(std::ceil(std::log2(n))));
    std::set<std::pair<int, int>> met;
    std::map<int, int> partners;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        CHECK((0 <= a && a < b && b < n));
        CHECK(busy.insert(a).second);
        CHECK(busy.insert(b).second);
        CHECK(met.emplace(a, b).second);
        ++partners[a];
        ++partners[b];
      }
    }
    CHECK(partners.size() == size_t(n));
    for (const auto& [host, count] : partners) CHECK(count >= int(std::log2(n)));
  }
}

namespace {

transport::IbGid gid(uint8_t index, uint32_t type, std::initializer_list<uint8_t> tail, bool v4) {
  transport::IbGid made;
  made.index = index;
  made.type = type;
  if (v4) made.gid.raw[10] = made.gid.raw[11] = 0xff;
  if (!v4) made.gid.raw[0] = 0xfe, made.gid.raw[1] = 0x80;
  std::copy(tail.begin(), tail.end(), made.gid.raw + 12);
  return made;
}

RailNic port(uint8_t layer, std::vector<transport::IbGid> gids, uint16_t lid = 0) {
  RailNic nic{.name = "mlx5_0:1", .link_layer = layer, .rate_mbps = 400000, .mtu = 4096};
  nic.lid = lid;
  nic.gids = std::move(gids);
  return nic;
}

}  // namespace

TEST_CASE("rails: what two ports' facts say before anything is sent") {
  const auto v4 = [](uint8_t index, uint8_t host) {
    return gid(index, kGidRoceV2, {10, 0, 0, host}, true);
  };
  const auto local = [](uint8_t index, uint32_t type) {
    return gid(index, type, {0, 0, 0, 1}, false);
  };
  const RailNic a = port(kLinkEthernet, {local(0, kGidRoceV1), v4(3, 1)});
  const RailNic b = port(kLinkEthernet, {local(0, kGidRoceV1), v4(5, 2)});
  const RailResult both = judge_rail(a, b, 2);
  CHECK(both.end == RailEnd::ok);
  CHECK(both.from_gid == 3);
  CHECK(both.to_gid == 5);
  CHECK(both.gid_type == "RoCE v2");
  // Version 1 is wanted: the link-local ones are all there is of it.
  CHECK(judge_rail(a, b, 1).from_gid == 0);

  // A link-local address and an IPv4 one do not fit.
  const RailNic bare = port(kLinkEthernet, {local(1, kGidRoceV2)});
  CHECK(judge_rail(port(kLinkEthernet, {v4(3, 1)}), bare, 2).end == RailEnd::no_address);

  // InfiniBand: the LID does, and no GID is used; without one there is no address.
  const RailNic ib = port(kLinkInfiniBand, {}, 7), other = port(kLinkInfiniBand, {}, 8);
  CHECK(judge_rail(ib, other, 2).end == RailEnd::ok);
  CHECK(judge_rail(ib, other, 2).from_gid == -1);
  CHECK(judge_rail(ib, port(kLinkInfiniBand, {}), 2).end == RailEnd::no_address);
  CHECK(judge_rail(ib, a, 2).end == RailEnd::unlike);
  const RailNic interface { .name = "eth0" };
  CHECK(judge_rail(a, interface, 2).end == RailEnd::unlike);
  CHECK(judge_rail(interface, interface, 2).end == RailEnd::ok);
}

TEST_CASE("rails: what a host says of its NICs travels whole, and only whole") {
  RailHost host;
  host.host = {HostId{7}, "node01"};
  host.rank = 3;
  host.hash = 0x1234;
  host.network_namespace = 99;
  host.unused = {"mlx5_1:1 is DOWN"};
  host.why_no_rdma = "none";
  host.nics.push_back(port(kLinkEthernet, {gid(3, kGidRoceV2, {10, 0, 0, 1}, true)}, 5));
  host.nics.push_back({.name = "eth0", .address = *base::parse_address("10.0.0.7:4100")});
  const Bytes bytes = base::encoded(host);
  const auto back = base::decoded<RailHost>(bytes);
  REQUIRE(back.ok());
  CHECK(back->host == host.host);
  CHECK(back->host.name == "node01");
  CHECK(back->rank == 3);
  CHECK(back->hash == 0x1234);
  CHECK(back->network_namespace == 99);
  CHECK(back->unused == host.unused);
  CHECK(back->why_no_rdma == "none");
  REQUIRE(back->nics.size() == 2);
  CHECK(back->nics[0].name == "mlx5_0:1");
  CHECK(back->nics[0].link_layer == kLinkEthernet);
  CHECK(back->nics[0].rate_mbps == 400000);
  CHECK(back->nics[0].mtu == 4096);
  CHECK(back->nics[0].lid == 5);
  CHECK(back->nics[0].gids == host.nics[0].gids);
  CHECK(back->nics[1].address.text() == "10.0.0.7:4100");
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK(!base::decoded<RailHost>(ByteView(bytes).first(length)).ok());
  Bytes longer = bytes;
  longer.push_back(0);
  CHECK(!base::decoded<RailHost>(longer).ok());
  // More NICs than a host may have.
  host.nics.assign(kMostRailNics + 1, host.nics[1]);
  CHECK(!base::decoded<RailHost>(base::encoded(host)).ok());
}

TEST_CASE("rails: a host that answers nobody is not waited for by each of the rest") {
  RailMatrix so_far;
  so_far.hosts.resize(4);
  const auto add = [&](int from, int to, RailEnd end) {
    so_far.add({.from = from, .to = to, .cells = {{.end = end}}});
  };
  add(0, 1, RailEnd::silent);
  CHECK(rail_timeout(so_far, 0, 2, 3) == 3);
  add(1, 0, RailEnd::silent);  // the same two
  CHECK(rail_timeout(so_far, 0, 2, 3) == 3);
  add(2, 0, RailEnd::silent);
  CHECK(rail_timeout(so_far, 0, 3, 3) == kHopelessSeconds);
  CHECK(rail_timeout(so_far, 3, 0, 3) == kHopelessSeconds);
  CHECK(rail_timeout(so_far, 0, 3, 0.5) == 0.5);
  CHECK(rail_timeout(so_far, 1, 3, 3) == 3);
  add(0, 3, RailEnd::ok);
  CHECK(rail_timeout(so_far, 0, 2, 3) == 3);
  // A newer measurement takes the place of the one before.
  add(0, 1, RailEnd::ok);
  CHECK(so_far.pairs.size() == 4);
  CHECK(so_far.pairs[0].cells[0].end == RailEnd::ok);
  REQUIRE(so_far.before.size() == 1);
  CHECK(so_far.before[0].cells[0].end == RailEnd::silent);
}

}  // namespace rails_matrix_tests
