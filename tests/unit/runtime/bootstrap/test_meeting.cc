#include "runtime/bootstrap/meeting.h"

#include "tests/catch.h"
#include "tests/unit/runtime/says.h"

namespace meeting_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

std::vector<Address> at(std::initializer_list<const char*> hosts) {
  std::vector<Address> all;
  for (const char* host : hosts) all.push_back(*base::parse_address(format("{}:4567", host)));
  return all;
}

// The view of rank 0 on a host that others reach by 10.0.0.7.
MeetingView with_token() {
  MeetingView view{.token = true, .root_is_here = true};
  view.own = at({"127.0.0.1", "10.0.0.7", "10.1.0.7"});
  view.way_out = []() -> Result<Address> { return *base::parse_address("10.0.0.7:0"); };
  return view;
}

Meeting meet(const char* host, const std::vector<Address>& addresses, const MeetingView& view) {
  const auto meeting = choose_meeting({host, 4567}, addresses, view);
  REQUIRE(meeting.ok());
  return *meeting;
}

}  // namespace

TEST_CASE("a host's own name that is loopback is the host, not loopback", "[meeting]") {
  const Meeting both = meet("node01", at({"127.0.1.1", "10.0.0.7"}), with_token());
  CHECK(both.root.text() == "10.0.0.7:4567");
  const Meeting only = meet("node01", at({"127.0.1.1"}), with_token());
  CHECK(only.root.text() == "10.0.0.7:4567");
  CHECK(only.listen.text() == "0.0.0.0:4567");  // others may know it by its second address
  CHECK_FALSE(only.only_here);
}

TEST_CASE("an address that loopback is meant by stays one", "[meeting]") {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1"}) {
    CAPTURE(host);
    CHECK(meet(host, at({"127.0.1.1"}), with_token()).listen.text() == "127.0.1.1:4567");
    MeetingView apart = with_token();
    apart.elsewhere = 2;
    const auto refused = choose_meeting({host, 4567}, at({"127.0.1.1"}), apart);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::usage);
    CHECK(says(refused.error(), format("{} is for each host its own loopback address, but 2 ranks "
                                       "are on other hosts",
                                       host)));
  }
}

TEST_CASE("an own name stays on loopback where nobody else may come", "[meeting]") {
  MeetingView view = with_token();
  view.all_here = true;
  CHECK(meet("node01", at({"127.0.1.1"}), view).listen.text() == "127.0.1.1:4567");
  view = with_token();
  view.token = false;
  const Meeting untold = meet("node01", at({"127.0.1.1"}), view);
  CHECK(untold.root.text() == "127.0.1.1:4567");
  CHECK(untold.only_here);
}

TEST_CASE("rank 0 listens at all addresses of a name that has several", "[meeting]") {
  const auto two = at({"10.2.0.1", "10.1.0.7"});
  const Meeting first = meet("node01", two, with_token());
  CHECK(first.root.text() == "10.1.0.7:4567");
  CHECK(first.listen.text() == "0.0.0.0:4567");
  MeetingView other = with_token();
  other.root_is_here = false;
  CHECK(meet("node01", two, other).root.text() == "10.2.0.1:4567");
  // Another host's name: the kernel says that this is not the place.
  CHECK(meet("node02", at({"10.2.0.1", "10.2.0.2"}), with_token()).listen.text() ==
        "10.2.0.1:4567");
}

TEST_CASE("a name that does not resolve is asked for again, and named with its time", "[meeting]") {
  bool told = false;
  const auto unknown = base::look_up(
      {"nosuch.invalid", 4567}, soon(), [&] { return told; },
      [&](const std::string& why) { told = !why.empty(); });
  REQUIRE_FALSE(unknown.ok());
  CHECK(told);
  CHECK(unknown.error().code == ErrorCode::deadline);
  CHECK(unknown.error().cause == Cause::unresolved);
  CHECK(says(unknown.error(), "cannot resolve nosuch.invalid within "));
  CHECK(unknown.error().hint.find("getent hosts nosuch.invalid") != std::string::npos);
  const auto meeting =
      find_meeting({.text = "nosuch.invalid:4567", .from = "MASTER_ADDR and MASTER_PORT + 1"},
                   Deadline::at_ns(0));
  REQUIRE_FALSE(meeting.ok());
  CHECK(says(meeting.error(), "MASTER_ADDR and MASTER_PORT + 1: cannot resolve nosuch.invalid"));
}

}  // namespace meeting_tests
