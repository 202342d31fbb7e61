#include "runtime/bootstrap/unique_id.h"

#include "runtime/bootstrap/meeting.h"
#include "tests/catch.h"

namespace bootstrap_unique_id_tests {

using namespace collctl;
using runtime::UniqueId;

namespace {
UniqueId sample(const char* address) {
  return UniqueId::make(*base::parse_address(address), *base::random_secret());
}
}  // namespace

TEST_CASE("a unique id survives the way through hex", "[unique_id]") {
  for (const char* address : {"10.1.2.3:4567", "[fd00::2]:4567"}) {
    const UniqueId id = sample(address);
    CHECK(id.to_hex().size() == 256);
    const auto back = UniqueId::from_hex(id.to_hex());
    REQUIRE(back.ok());
    CHECK(back->root_address().text() == address);
    CHECK(back->secret.bytes == id.secret.bytes);
    CHECK(back->hash() == id.hash());
  }
}

TEST_CASE("bad hex is told apart and never repeated", "[unique_id]") {
  const std::string good = sample("10.1.2.3:4567").to_hex();
  std::string letter = good, magic = good, version = good, family = good;
  letter[77] = 'x';
  magic[0] = magic[0] == '0' ? '1' : '0';
  version[8] = '7';
  family[16] = family[17] = 'f';
  const std::pair<std::string, const char*> cases[] = {{good.substr(1), "256 hexadecimal digits"},
                                                       {"", "256 hexadecimal digits"},
                                                       {letter, "digit 77"},
                                                       {magic, "not a unique id"},
                                                       {version, "version"},
                                                       {family, "no IPv4 or IPv6"}};
  for (const auto& [text, says] : cases) {
    const auto r = UniqueId::from_hex(text);
    REQUIRE_FALSE(r.ok());
    CHECK(r.error().code == ErrorCode::usage);
    CHECK(r.error().message.find(says) != std::string::npos);
    CHECK(r.error().message.find(good.substr(80, 32)) == std::string::npos);
  }
}

TEST_CASE("the hash tells jobs apart", "[unique_id]") {
  const base::Secret a = *base::random_secret(), b = *base::random_secret();
  const Address x = *base::parse_address("10.0.0.1:5"), y = *base::parse_address("10.0.0.1:6");
  CHECK(UniqueId::make(x, a).hash() == UniqueId::make(x, a).hash());
  CHECK(UniqueId::make(x, a).hash() != UniqueId::make(x, b).hash());
  CHECK(UniqueId::make(x, a).hash() != UniqueId::make(y, a).hash());
  // Rank 0 may know itself by another address than the others do.
  const Address z = *base::parse_address("127.0.1.1:5");
  CHECK(UniqueId::make(x, a).hash() == UniqueId::make(z, a).hash());
}

// As a rank takes it that others have started.
Result<UniqueId> id_of(const std::string& text, const std::string& token) {
  const bool given = !token.empty();
  COLL_ASSIGN(const auto meeting,
              runtime::find_meeting({.text = text, .from = "COLLCTL_COMM_ID", .token = given},
                                    Deadline::after_seconds(60)));
  return runtime::unique_id_at(meeting.root, token);
}

TEST_CASE("the environment gives an id in three forms", "[unique_id]") {
  const std::pair<const char*, const char*> cases[] = {{"10.1.2.3:4567", "10.1.2.3:4567"},
                                                       {"[fd00::2]:4567", "[fd00::2]:4567"}};
  for (const auto& [text, address] : cases) {
    const auto id = id_of(text, "token");
    REQUIRE(id.ok());
    CHECK(id->root_address().text() == address);
  }
  const auto named = id_of("localhost:4567", "");
  REQUIRE(named.ok());
  CHECK(named->root_address().is_loopback());
  CHECK(named->root_address().port() == 4567);
}

TEST_CASE("everybody with the token has the same id", "[unique_id]") {
  const auto id = [](const char* token) { return id_of("127.0.0.1:4567", token)->to_hex(); };
  CHECK(id("one") == id("one"));
  CHECK(id("one") != id("two"));
  CHECK(id("one") != id(""));
}

TEST_CASE("a bad COMM_ID is answered with the three forms", "[unique_id]") {
  for (const char* text : {"", "x", "10.0.0.1", "10.0.0.1:", ":55", "10.0.0.1:99999", "fd00::2:55",
                           "[fd00::2]", "10.0.0.1:5x", "10.0.0.1:0"}) {
    CAPTURE(text);
    const auto id = id_of(text, "token");
    REQUIRE_FALSE(id.ok());
    CHECK(id.error().code == ErrorCode::usage);
    CHECK(id.error().message.rfind("COLLCTL_COMM_ID: ", 0) == 0);
    CHECK(id.error().hint.find("<ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>") !=
          std::string::npos);
  }
}

TEST_CASE("without a token only loopback is accepted", "[unique_id]") {
  CHECK(id_of("127.0.0.1:4567", "").ok());
  CHECK(id_of("[::1]:4567", "").ok());
  for (const char* text : {"10.1.2.3:4567", "[fd00::2]:4567", "0.0.0.0:4567"}) {
    const auto id = id_of(text, "");
    REQUIRE_FALSE(id.ok());
    CHECK(id.error().code == ErrorCode::usage);
    CHECK(id.error().hint.find("COLLCTL_TOKEN") != std::string::npos);
  }
}

}  // namespace bootstrap_unique_id_tests
