// A suite that has measured less than it planned has not passed.
#include "cmd/check/check.h"
#include "tests/catch.h"

namespace tally_tests {

using namespace collctl;
using namespace collctl::cmd;

const Host a{HostId{0}, "a"}, b{HostId{1}, "b"}, c{HostId{2}, "c"};

TEST_CASE("all that was planned and done leaves nothing to say", "[check]") {
  Tally tally;
  for (const Host& host : {a, b}) {
    tally.plan(host, 2, "paths");
    tally.did(host, "to x");
    tally.did(host, "from x");
    tally.did(host, "from x");  // once more: no more than was planned
  }
  CHECK(tally.planned() == 4);
  CHECK(tally.done() == 4);
  CHECK(tally.missing("pairs", {}).empty());
}

TEST_CASE("nothing planned, and nothing done, are not tested", "[check]") {
  Tally tally;
  auto found = tally.missing("pairs", {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == ErrorCode::incomplete);
  CHECK(found[0].status == FindingStatus::not_tested);
  tally.plan(a, 3, "paths");
  tally.plan(b, 3, "paths");
  found = tally.missing("pairs", {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].at.kind == SubjectKind::job);
  CHECK(found[0].message == "pairs: 0 of 6 paths were measured");
}

TEST_CASE("the host of which less was measured is named, one that failed is not", "[check]") {
  Tally tally;
  for (const Host& host : {a, b, c}) tally.plan(host, 2, "runs");
  for (const Host& host : {a, c}) {
    tally.did(host, "1");
    tally.did(host, "2");
  }
  tally.did(b, "1");
  const auto found = tally.missing("node", {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].at.kind == SubjectKind::host);
  CHECK(found[0].at.host == b);
  CHECK(found[0].message == "b: 1 of 2 runs were measured");
  CHECK(tally.missing("node", {{b, "node"}}).empty());
}

}  // namespace tally_tests
