// Interfaces on a network, of which one is unlike the others.
#include "cmd/judge/odd_link.h"

#include "base/format.h"
#include "base/interface_choice.h"
#include "tests/catch.h"

namespace odd_link_tests {

using namespace collctl;
using namespace collctl::cmd;

TEST_CASE("an interface unlike most of its network is named with both values", "[judge]") {
  const auto links = [](std::vector<int> mtus, const char* network = "10.1.0.0/24") {
    std::vector<LinkOnNetwork> list;
    for (size_t i = 0; i < mtus.size(); ++i)
      list.push_back(
          {{HostId(int32_t(i)), format("n{}", i)}, "eth0", network, format("MTU {}", mtus[i])});
    return list;
  };
  CHECK(odd_links(links({9000, 9000, 9000})).empty());
  const auto odd = odd_links(links({9000, 1500, 9000}));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].at.kind == SubjectKind::nic);
  CHECK(odd[0].at.host.name == "n1");
  CHECK(odd[0].at.device == "eth0");
  CHECK(odd[0].code == ErrorCode::failed);
  CHECK(odd[0].message == "n1: eth0 on 10.1.0.0/24 has MTU 1500, most hosts have MTU 9000");
  CHECK(odd[0].remedy.find("ip link set DEV mtu N") != std::string::npos);
  // On IPv4 and IPv6: once.
  auto both = links({9000, 1500, 9000});
  for (const auto& at : links({9000, 1500, 9000}, "fd00::/64")) both.push_back(at);
  CHECK(odd_links(both).size() == 1);
  // Networks of their own may differ.
  auto apart = links({9000, 9000});
  for (const auto& at : links({1500, 1500}, "10.2.0.0/24")) apart.push_back(at);
  CHECK(odd_links(apart).empty());
  const auto tie = odd_links(links({9000, 1500}));
  REQUIRE(tie.size() == 2);
  for (const Finding& finding : tie) {
    CHECK(finding.expected.empty());
    CHECK(finding.message ==
          "eth0 on 10.1.0.0/24: the hosts differ: MTU 1500 on n1; MTU 9000 on n0");
  }
}

TEST_CASE("addresses of one network have one text", "[judge]") {
  CHECK(base::network_of("10.1.2.255", 25) == "10.1.2.128/25");
  CHECK(base::network_of("fd00:1::77", 64) == "fd00:1::/64");
  CHECK(base::network_of("what", 24) == "what");
}

}  // namespace odd_link_tests
