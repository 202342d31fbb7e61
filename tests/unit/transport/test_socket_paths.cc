// Which interfaces a socket connection runs between.
#include "tests/catch.h"
#include "transport/net/socket/paths.h"

namespace socket_paths_tests {

using namespace collctl;
using namespace collctl::transport;

namespace {

Interface at(const char* name, const char* address, int prefix = 24) {
  return {name, *base::parse_address(address), prefix};
}

std::string text(const std::vector<SocketPath>& paths) {
  std::string all;
  for (const SocketPath& path : paths)
    all += (all.empty() ? "" : " ") + std::to_string(path.from) + std::to_string(path.to);
  return all;
}

const std::vector<Interface> kRailsA = {at("eth0", "10.0.0.1:1"), at("eth1", "10.0.1.1:1")};
const std::vector<Interface> kRailsB = {at("eth0", "10.0.0.2:1"), at("eth1", "10.0.1.2:1")};

}  // namespace

TEST_CASE("interfaces of one subnet are paired, in any order") {
  CHECK(text(socket_paths(kRailsA, kRailsB, true)) == "00 11");
  const std::vector<Interface> turned = {kRailsB[1], kRailsB[0]};
  CHECK(text(socket_paths(kRailsA, turned, true)) == "01 10");
  // One end has fewer: those that share no subnet are left out.
  CHECK(text(socket_paths(kRailsA, std::vector{kRailsB[1]}, true)) == "10");
  CHECK(text(socket_paths(std::vector{kRailsA[1]}, kRailsB, true)) == "01");
}

TEST_CASE("several in one subnet: each of the longer list once") {
  const std::vector<Interface> one = {at("eth0", "10.0.0.1:1")};
  const std::vector<Interface> two = {at("eth0", "10.0.0.2:1"), at("eth1", "10.0.0.3:1")};
  const std::vector<Interface> three = {at("eth0", "10.0.0.4:1"), at("eth1", "10.0.0.5:1"),
                                        at("eth2", "10.0.0.6:1")};
  CHECK(text(socket_paths(one, two, true)) == "00 01");
  CHECK(text(socket_paths(two, one, true)) == "00 10");
  CHECK(text(socket_paths(two, three, true)) == "00 11 02");
}

TEST_CASE("without a common subnet the routes decide, first to first") {
  const std::vector<Interface> far = {at("eth0", "10.9.0.2:1"), at("eth1", "10.9.1.2:1")};
  CHECK(text(socket_paths(kRailsA, far, true)) == "00 11");
  CHECK(text(socket_paths(kRailsA, std::vector{far[0]}, true)) == "00");
  // /31 between host and switch: nobody shares a subnet.
  const std::vector<Interface> a = {at("eth0", "10.0.0.1:1", 31), at("eth1", "10.0.1.1:1", 31)};
  const std::vector<Interface> b = {at("eth0", "10.0.0.3:1", 31), at("eth1", "10.0.1.3:1", 31)};
  CHECK(text(socket_paths(a, b, true)) == "00 11");
}

TEST_CASE("an address that both have is the other's only inside one host") {
  const std::vector<Interface> a = {at("docker0", "172.17.0.1:1", 16), at("eth0", "10.0.0.1:1")};
  const std::vector<Interface> b = {at("docker0", "172.17.0.1:1", 16), at("eth0", "10.0.0.2:1")};
  CHECK(text(socket_paths(a, b, true)) == "11");
  CHECK(text(socket_paths(a, a, false)) == "00 11");
  // Nothing is left: the first, as with one interface.
  CHECK(text(socket_paths(a, a, true)) == "00");
}

TEST_CASE("IPv6 interfaces are paired alike, and never with IPv4") {
  const std::vector<Interface> a = {at("eth0", "[fd00::1]:1", 64), at("eth1", "[fd01::1]:1", 64)};
  const std::vector<Interface> b = {at("eth1", "[fd01::2]:1", 64), at("eth0", "[fd00::2]:1", 64)};
  CHECK(text(socket_paths(a, b, true)) == "01 10");
  const std::vector<Interface> mixed = {at("eth0", "10.0.0.2:1"), at("eth1", "[fd01::2]:1", 64)};
  CHECK(text(socket_paths(a, mixed, true)) == "11");
}

TEST_CASE("a connection takes what the topology gave its ends, else its turn") {
  const auto paths = socket_paths(kRailsA, kRailsB, true);
  CHECK(choose_path(paths, -1, -1, 0) == SocketPath{0, 0});
  CHECK(choose_path(paths, -1, -1, 1) == SocketPath{1, 1});
  CHECK(choose_path(paths, -1, -1, 6) == SocketPath{0, 0});
  CHECK(choose_path(paths, 1, -1, 0) == SocketPath{1, 1});
  CHECK(choose_path(paths, -1, 0, 1) == SocketPath{0, 0});
  // No path joins the two: the sender's counts.
  CHECK(choose_path(paths, 1, 0, 0) == SocketPath{1, 1});
  CHECK(choose_path(paths, 5, -1, 1) == SocketPath{1, 1});
}

TEST_CASE("interfaces are found by name and by address, whatever the port") {
  CHECK(find_interface(kRailsA, "eth1") == 1);
  CHECK(find_interface(kRailsA, "eth") == -1);
  CHECK(find_interface(kRailsA, *base::parse_address("10.0.1.1:999")) == 1);
  CHECK(find_interface(kRailsA, *base::parse_address("10.0.1.9:1")) == -1);
}

}  // namespace socket_paths_tests
