// Reach between ranks: pure, symmetric, and the reason names the rule and its inputs.
#include <arpa/inet.h>

#include "tests/catch.h"
#include "transport/edge.h"
#include "transport/net/socket/socket.h"
#include "transport/table/transports.h"

namespace reach_tests {

using namespace collctl;
using transport::PeerInfo;

namespace {

PeerInfo peer(int rank, const char* address) {
  PeerInfo info{};
  info.rank = rank;
  info.host_hash = 1;
  info.process_hash = 100 + uint64_t(rank);
  info.shm_device = 20;
  info.network_namespace = 30;
  std::snprintf(info.host, sizeof info.host, "n%d", rank);
  const Address at = base::parse_address(address).value();
  info.net_address = at.storage;
  info.net_address_length = uint32_t(at.length);
  return info;
}

bool reaches(const char* name, const PeerInfo& a, const PeerInfo& b, const char* why = "") {
  const auto* row = transport::find_transport(name);
  REQUIRE(row != nullptr);
  const transport::Reach there = row->reach(a, b), back = row->reach(b, a);
  CHECK(there.ok == back.ok);
  CHECK(there.ok == there.why.empty());
  if (!there.ok) CHECK(there.why.find(why) != std::string::npos);
  return there.ok;
}

}  // namespace

TEST_CASE("the table is loopback, p2p, shm, net") {
  REQUIRE(transport::transports().size() == 4);
  CHECK(std::string(transport::transports()[0].name) == "loopback");
  CHECK(std::string(transport::transports()[1].name) == "p2p");
  CHECK(std::string(transport::transports()[2].name) == "shm");
  CHECK(std::string(transport::transports()[3].name) == "net");
  CHECK(transport::find_transport("pigeon") == nullptr);
}

TEST_CASE("p2p is for GPUs of one host, loopback for CPU ranks") {
  PeerInfo a = peer(0, "10.0.0.1:1"), b = peer(1, "10.0.0.1:2");
  CHECK_FALSE(reaches("p2p", a, b, "is a CPU rank"));
  a.kind = b.kind = transport::DeviceKind::cuda;
  CHECK(reaches("p2p", a, b));
  b.network_namespace = 31;
  CHECK_FALSE(reaches("p2p", a, b, "network namespaces"));
  b.process_hash = a.process_hash;  // nothing travels inside one process
  CHECK(reaches("p2p", a, b));
  CHECK_FALSE(reaches("loopback", a, b, "is a GPU rank"));
  b.host_hash = 2;
  CHECK_FALSE(reaches("p2p", a, b, "different hosts"));
}

TEST_CASE("loopback reaches threads of one process only") {
  PeerInfo a = peer(0, "10.0.0.1:1"), b = peer(1, "10.0.0.1:2");
  CHECK_FALSE(reaches("loopback", a, b, "different processes"));
  b.process_hash = a.process_hash;
  CHECK(reaches("loopback", a, b));
}

TEST_CASE("shm needs one host, one /dev/shm and one network namespace") {
  const PeerInfo a = peer(0, "10.0.0.1:1");
  PeerInfo b = peer(1, "10.0.0.1:2");
  CHECK(reaches("shm", a, b));
  b.host_hash = 2;
  CHECK_FALSE(reaches("shm", a, b, "different hosts"));
  b = peer(1, "10.0.0.1:2");
  b.shm_device = 21;
  CHECK_FALSE(reaches("shm", a, b, "different /dev/shm"));
  b.shm_device = 0;
  CHECK_FALSE(reaches("shm", a, b, "rank 1 (host n1) has no /dev/shm"));
  b = peer(1, "10.0.0.1:2");
  b.network_namespace = 31;
  CHECK_FALSE(reaches("shm", a, b, "network namespaces"));
}

TEST_CASE("net needs addresses that mean the same at both ends") {
  const PeerInfo a = peer(0, "10.0.0.1:1");
  PeerInfo b = peer(1, "10.0.0.2:2");
  b.host_hash = 2;
  CHECK(reaches("net", a, b));
  b.net_address_length = 0;
  CHECK_FALSE(reaches("net", a, b, "rank 1 (host n1) has no network address"));
  b = peer(1, "[fe80::2]:2");
  CHECK_FALSE(reaches("net", a, b, "IPv6"));
  b = peer(1, "127.0.0.1:2");
  CHECK(reaches("net", a, b));  // one host
  b.host_hash = 2;
  CHECK_FALSE(reaches("net", a, b, "loopback address"));
  // One machine that acts as two hosts, and containers of it that have networks of their own.
  PeerInfo c = a;
  c.machine_hash = b.machine_hash = 7;
  CHECK(reaches("net", c, b));
  b.network_namespace = 31;
  CHECK_FALSE(reaches("net", c, b, "loopback address"));
  b.network_namespace = 30;
  b.machine_hash = 8;
  CHECK_FALSE(reaches("net", c, b, "loopback address"));
}

TEST_CASE("between GPUs a connection by sockets has a helper thread unless told otherwise") {
  PeerInfo a = peer(0, "10.0.0.1:1"), b = peer(1, "10.0.0.2:2");
  CHECK(transport::socket_threads(-1, a, b) == 0);
  a.kind = b.kind = transport::DeviceKind::cuda;
  CHECK(transport::socket_threads(-1, a, b) == 1);
  CHECK(transport::socket_threads(-1, b, a) == 1);
  for (const int requested : {0, 1, 16})
    CHECK(transport::socket_threads(requested, a, b) == requested);
}

TEST_CASE("the key of an edge is the same at both ends and differs between edges") {
  transport::LinkSpec send{.channel = 3,
                           .direction = transport::Direction::send,
                           .self = peer(0, "10.0.0.1:1"),
                           .peer = peer(1, "10.0.0.1:2"),
                           .geometry = {},
                           .purpose = 0};
  transport::LinkSpec recv = send;
  recv.direction = transport::Direction::recv;
  std::swap(recv.self, recv.peer);
  const uint64_t key = edge_key(send, 5, 0);
  CHECK(key == edge_key(recv, 5, 0));
  transport::LinkSpec back = send;  // the other direction between the same ranks
  std::swap(back.self, back.peer);
  CHECK(key != edge_key(back, 5, 0));
  CHECK(key != edge_key(send, 6, 0));
  CHECK(key != edge_key(send, 5, 1));
  send.purpose = 1;
  CHECK(key != edge_key(send, 5, 0));
}

}  // namespace reach_tests
