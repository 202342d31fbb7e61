#include "cmd/text/hosts.h"

#include "tests/catch.h"

namespace text_hosts_tests {

using collctl::cmd::folded_hosts;

TEST_CASE("hosts are sorted by number, and folded where they are more than three") {
  CHECK(folded_hosts({}).empty());
  CHECK(folded_hosts({"node10", "node2", "node2"}) == "node2, node10");
  CHECK(folded_hosts({"node03", "node01", "node02"}) == "node01, node02, node03");
  CHECK(folded_hosts({"node03", "node01", "node02", "node04"}) == "node[01-04]");
  CHECK(folded_hosts({"node01", "node02", "node03", "node04", "node06", "node09", "node10"}) ==
        "node[01-04,06,09-10]");
  CHECK(folded_hosts({"n9", "n10", "n11", "login", "n8"}) == "login, n[8-9,10-11]");
  CHECK(folded_hosts({"a1", "b1", "c1", "d1"}) == "a1, b1, c1, d1");
  std::vector<std::string> unlike;
  for (char c = 'a'; c <= 'z'; ++c) unlike.push_back({c, c});
  CHECK(folded_hosts(unlike).ends_with(", pp and 10 more"));
}

TEST_CASE("the number of a host is that of its first label, of an address the last") {
  CHECK(folded_hosts({"n1.rack7.site", "n2.rack7.site", "n3.rack7.site", "n4.rack7.site"}) ==
        "n[1-4].rack7.site");
  CHECK(folded_hosts({"n1.rack7", "n1.rack8", "n2.rack7", "n2.rack8"}) ==
        "n[1-2].rack7, n[1-2].rack8");
  CHECK(folded_hosts({"10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.1.1"}) ==
        "10.0.0.[9,10-11], 10.0.1.1");
  CHECK(folded_hosts({"fd00::a", "fd00::b", "fd00::1", "fd00::2"}) ==
        "fd00::[1-2], fd00::a, fd00::b");
  CHECK(folded_hosts({"h12345678901", "h12345678902", "h3", "h4"}) ==
        "h[3-4], h12345678901, h12345678902");
}

}  // namespace text_hosts_tests
