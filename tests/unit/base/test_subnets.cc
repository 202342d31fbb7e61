// Subnets of addresses, and which interface the kernel would send by.
#include "base/route.h"
#include "tests/catch.h"

namespace subnets_tests {

using namespace collctl;
using base::in_one_subnet;

namespace {

Address at(const char* text) {
  return *base::parse_address(text);
}

}  // namespace

TEST_CASE("a subnet is the first bits of an address") {
  CHECK(in_one_subnet(at("10.1.2.3:5"), at("10.1.2.200:7"), 24));
  CHECK_FALSE(in_one_subnet(at("10.1.2.3:0"), at("10.1.3.3:0"), 24));
  CHECK(in_one_subnet(at("10.1.2.3:0"), at("10.1.3.3:0"), 23));
  CHECK(in_one_subnet(at("10.1.2.2:0"), at("10.1.2.3:0"), 31));
  CHECK_FALSE(in_one_subnet(at("10.1.2.1:0"), at("10.1.2.2:0"), 31));
  CHECK_FALSE(in_one_subnet(at("10.1.2.2:0"), at("10.1.2.3:0"), 32));
  CHECK(in_one_subnet(at("10.1.2.2:0"), at("10.1.2.2:0"), 32));
  CHECK(in_one_subnet(at("[fd00::1]:0"), at("[fd00::ffff]:0"), 64));
  CHECK_FALSE(in_one_subnet(at("[fd00::1]:0"), at("[fd00:0:0:1::1]:0"), 64));
  CHECK(in_one_subnet(at("[fd00::1]:0"), at("[fd00::1]:0"), 128));
  // Unknown, too long, two families.
  CHECK_FALSE(in_one_subnet(at("10.1.2.3:0"), at("10.1.2.3:0"), 0));
  CHECK_FALSE(in_one_subnet(at("10.1.2.3:0"), at("10.1.2.3:0"), 33));
  CHECK_FALSE(in_one_subnet(at("10.1.2.3:0"), at("[fd00::1]:0"), 8));
  CHECK_FALSE(in_one_subnet(Address{}, Address{}, 8));
}

TEST_CASE("a neighbour is another address of the smallest subnet") {
  CHECK(base::neighbour_of(at("10.1.2.2:5")).text() == "10.1.2.3:5");
  CHECK(base::neighbour_of(at("10.1.2.3:5")).text() == "10.1.2.2:5");
  CHECK(base::neighbour_of(at("[fd00::1]:5")).text() == "[fd00::]:5");
}

TEST_CASE("link-local addresses") {
  CHECK(at("169.254.0.1:0").is_link_local());
  CHECK_FALSE(at("169.253.0.1:0").is_link_local());
  CHECK(at("[fe80::1]:0").is_link_local());
  CHECK(at("[febf::1]:0").is_link_local());
  CHECK_FALSE(at("[fec0::1]:0").is_link_local());
  CHECK_FALSE(at("[fd00::1]:0").is_link_local());
  CHECK_FALSE(Address{}.is_link_local());
}

TEST_CASE("the kernel says which interface it sends by") {
  CHECK(base::route_device(at("127.0.0.2:0"), at("127.0.0.1:0")) == "lo");
  CHECK(base::route_device(at("127.0.0.2:0"), at("[::1]:0")).empty());  // two families
  CHECK(base::route_device(Address{}, Address{}).empty());
  CHECK(base::route_device(at("127.0.0.2:0"), at("198.51.100.7:0")).empty());  // not this host's
}

}  // namespace subnets_tests
