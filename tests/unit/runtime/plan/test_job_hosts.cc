// Which hosts a job has: by the launcher's list, or by who shares one.
#include "runtime/plan/job_hosts.h"

#include "tests/catch.h"

namespace job_hosts_tests {

using namespace collctl;
using namespace collctl::runtime;

namespace {

const HostGroups kTwoHosts = {{0, 2}, {1, 3}};

std::vector<int> places(const std::vector<Host>& hosts) {
  std::vector<int> list;
  for (const Host& host : hosts) list.push_back(int(host.id));
  return list;
}

}  // namespace

TEST_CASE("the launcher's list stands, whatever its hosts call themselves", "[plan]") {
  const Host a{HostId{4}, "10.0.0.1"}, b{HostId{2}, "10.0.0.2"};
  const auto hosts = job_hosts({a, b, a, b}, kTwoHosts);
  CHECK(places(hosts) == std::vector{4, 2, 4, 2});
  CHECK(hosts[2].name == "10.0.0.1");
}

TEST_CASE("one host under two names stays two places of the list", "[plan]") {
  const auto hosts = job_hosts({{HostId{0}, "a"}, {HostId{1}, "b"}}, {{0, 1}});
  CHECK(places(hosts) == std::vector{0, 1});
  CHECK(hosts[1].name == "b");
}

TEST_CASE("ranks that joined count their hosts, and tell those of one name apart", "[plan]") {
  const Host localhost{HostId::none, "localhost"};
  auto hosts = job_hosts({localhost, localhost, localhost, localhost}, kTwoHosts);
  CHECK(places(hosts) == std::vector{0, 1, 0, 1});
  CHECK(hosts[2].name == "localhost@rank0");
  CHECK(hosts[3].name == "localhost@rank1");
  hosts = job_hosts({localhost, localhost}, {{0, 1}});
  CHECK(places(hosts) == std::vector{0, 0});
  CHECK(hosts[1].name == "localhost");
}

TEST_CASE("a place that several hosts have is none", "[plan]") {
  const Host here{HostId{0}, "here"};  // HOSTID made hosts of it
  const auto hosts = job_hosts({here, here, here, here}, kTwoHosts);
  CHECK(places(hosts) == std::vector{0, 1, 0, 1});
  CHECK(hosts[3].name == "here");
}

}  // namespace job_hosts_tests
