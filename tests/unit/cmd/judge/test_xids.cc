#include "cmd/judge/xids.h"
#include "tests/catch.h"

namespace judge_xids_tests {
using namespace collctl::cmd;

TEST_CASE("every Xid has a meaning and something to do", "[judge]") {
  int known = 0;
  for (int number = 0; number < 200; ++number) {
    const Xid xid = xid_of(std::to_string(number));
    CHECK_FALSE(std::string(xid.meaning).empty());
    CHECK_FALSE(std::string(xid.remedy()).empty());
    known += std::string(xid.meaning).find("catalog") == std::string::npos;
  }
  CHECK(known > 100);
}

TEST_CASE("an Xid is judged by what its own text adds", "[judge]") {
  CHECK(xid_of("79").cure == XidCure::reboot);
  CHECK(xid_of("145").cure == XidCure::reset);
  CHECK(xid_of("145 nonfatal").cure == XidCure::watch);
  CHECK(xid_of("154").cure == XidCure::reset);
  CHECK(xid_of("154 None").cure == XidCure::nothing);
  CHECK(xid_of("154 Drain P2P").cure == XidCure::link);
  CHECK(xid_of("154 Node Reboot Required").cure == XidCure::reboot);
  CHECK(xid_of("154 something new").cure == XidCure::reset);
  for (const char* odd : {"", "x", "79x", "99999999999999", "-1", "4"})
    CHECK(xid_of(odd).cure <= XidCure::reboot);
  CHECK(xid_of("4").cure == XidCure::watch);
}

}  // namespace judge_xids_tests
