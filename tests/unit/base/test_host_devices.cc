// The network interfaces that this host reports.
#include <algorithm>

#include "base/host_devices.h"
#include "tests/catch.h"

namespace host_devices_tests {

using namespace collctl;

TEST_CASE("the loopback interface has its address, its prefix and an MTU") {
  const auto interfaces = base::net_interfaces();
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [](const base::NetInterface& i) { return i.loopback; });
  REQUIRE(found != interfaces.end());
  CHECK(found->up);
  CHECK(found->mtu >= 1280);
  const auto four =
      std::find_if(found->addresses.begin(), found->addresses.end(),
                   [](const base::InterfaceAddress& a) { return a.text == "127.0.0.1"; });
  REQUIRE(four != found->addresses.end());
  CHECK(four->prefix == 8);
}

}  // namespace host_devices_tests
