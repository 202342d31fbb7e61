// The kernel's table of connections, as it prints it on this machine's order of bytes.
#include <bit>

#include "base/host_half_open.h"
#include "tests/catch.h"

namespace host_half_open_tests {

using namespace collctl;
using base::has_half_open;
using base::parse_address;

TEST_CASE("a connection that only its listener knows of is half open", "[base]") {
  if constexpr (std::endian::native != std::endian::little) return;
  const auto at = [](const char* text) { return *parse_address(text); };
  const std::string_view table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
      "   0: 0100540A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
      "   1: 0100540A:1F90 0200540A:D431 03 00000000:00000000 01:00000063 00000000     0\n"
      "   2: 0100540A:1F90 0300540A:D432 01 00000000:00000000 01:00000063 00000000     0\n";
  CHECK(has_half_open(table, at("10.84.0.1:8080"), at("10.84.0.2:1")));
  CHECK_FALSE(has_half_open(table, at("10.84.0.1:8081"), at("10.84.0.2:1")));  // another listener
  CHECK_FALSE(has_half_open(table, at("10.84.0.1:8080"), at("10.84.0.3:1")));  // connected
  CHECK_FALSE(has_half_open(table, at("10.84.0.2:8080"), at("10.84.0.1:1")));
  CHECK_FALSE(has_half_open("", at("10.84.0.1:8080"), at("10.84.0.2:1")));
  const std::string_view table6 =
      "   1: 000080FE00000000FF005450010000FE:1F90 000080FE00000000FF005450020000FE:A000 03 0\n";
  CHECK(has_half_open(table6, at("[fe80::5054:ff:fe00:1]:8080"), at("[fe80::5054:ff:fe00:2]:9")));
}

}  // namespace host_half_open_tests
