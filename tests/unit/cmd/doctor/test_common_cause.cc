// A lack of the launcher, and a fault that most hosts show alike, is no host's fault.
#include "cmd/doctor/common_cause.h"
#include "launcher/ssh/causes.h"
#include "tests/catch.h"

namespace common_cause_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

Unreached of(const std::string& host, Error error) {
  return {base::saved_host(host), std::move(error)};
}
Unreached unknown_key(const std::string& host) {
  return of(host,
            launcher::unknown_host_key(host, {"ED25519", "SHA256:x"}, "known_hosts", host, 22));
}
Unreached login(const std::string& host) {
  return of(host,
            launcher::denied(host, {.user = "root", .tried = {}, .notes = {}, .offered = {}}));
}
Unreached unconnected(const std::string& host, int failure) {
  return of(host, launcher::not_connected(host, host + ":22", failure));
}

}  // namespace

TEST_CASE("a key and a name that the launcher does not know are its own affair", "[doctor]") {
  auto found = common_causes({unknown_key("a")}, 8);
  REQUIRE(found.size() == 1);
  CHECK(found[0].evidence.rfind("it does not know the host keys of a, 1 of 8 hosts (a: ", 0) == 0);
  found = common_causes({of("b", launcher::no_such_name("b", "b", "no such name"))}, 8);
  REQUIRE(found.size() == 1);
  CHECK(found[0].evidence.rfind("it cannot resolve the names of b, 1 of 8 hosts", 0) == 0);
}

TEST_CASE("one reason for most hosts is told once, for few of them it is theirs", "[doctor]") {
  CHECK(common_causes({login("a"), login("b"), login("c")}, 6).empty());
  auto found = common_causes({login("a"), login("b"), login("c"), login("d"), login("e")}, 6);
  REQUIRE(found.size() == 1);
  CHECK(found[0].of.size() == 5);
  CHECK(found[0].evidence.rfind("its login is refused by a, b, c, d, e, 5 of 6 hosts", 0) == 0);
  // With two hosts nobody can tell.
  CHECK(common_causes({unconnected("a", ECONNREFUSED), unconnected("b", ECONNREFUSED)}, 2).empty());
  CHECK(common_causes({login("a"), login("b")}, 2).size() == 1);
  CHECK(common_causes({login("a"), login("b")}, 3).empty());
}

TEST_CASE("different reasons stay apart, and what nobody typed is nobody's", "[doctor]") {
  const auto found = common_causes(
      {unknown_key("a"), unconnected("b", ECONNREFUSED), unconnected("c", EHOSTUNREACH),
       of("d", Error(ErrorCode::launch, "something")), of("e", Error(ErrorCode::launch, "else"))},
      5);
  REQUIRE(found.size() == 1);
  CHECK(found[0].of == std::vector<size_t>{0});
}

}  // namespace common_cause_tests
