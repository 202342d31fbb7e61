// The pairs of `check`: which count as measured.
#include "cmd/check/check.h"
#include "tests/catch.h"

namespace pairs_tests {

using namespace collctl;
using namespace collctl::cmd;

TEST_CASE("a matrix without paths, or of other hosts, is no pass", "[check]") {
  const std::vector<Host> hosts = {{HostId{0}, "a"}, {HostId{1}, "b"}, {HostId{2}, "c"}};
  RailsReport report;
  for (const Host& host : hosts)
    report.hosts.push_back({.host = host, .nics = {{.name = "eth0", .link = "Ethernet"}}});
  Tally none;
  REQUIRE(tally_paths(hosts, report, none).ok());
  auto missing = none.missing("pairs", {});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].code == ErrorCode::incomplete);
  CHECK(missing[0].message == "pairs: 0 of 12 paths to other hosts were measured");

  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      if (a != b) report.pairs.push_back({.from = a, .to = b, .cells = {RailResult{}}});
  Tally all;
  REQUIRE(tally_paths(hosts, report, all).ok());
  CHECK(all.missing("pairs", {}).empty());  // that nothing passed was measured as well

  report.pairs[0].cells[0].end = RailEnd::unlike;
  Tally some;
  REQUIRE(tally_paths(hosts, report, some).ok());
  missing = some.missing("pairs", {});
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].at.host.name == "a");
  CHECK(missing[1].at.host.name == "b");

  report.hosts[1].host.id = HostId{7};  // whatever it is called
  const Status status = tally_paths(hosts, report, some);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::defect);
}

TEST_CASE("GPU memory that was not measured over a NIC near it is no pass", "[check]") {
  const std::vector<Host> hosts = {{HostId{0}, "a"}, {HostId{1}, "b"}};
  RailsReport report;
  for (const Host& host : hosts) {
    RailsHost& one = report.hosts.emplace_back();
    one.host = host;
    one.nics = {{.name = "mlx5_0:1", .link = "InfiniBand"}, {.name = "mlx5_1:1", .link = "RoCE"}};
  }
  runtime::RailGpu& gpu = report.hosts[0].gpus.list.emplace_back();
  gpu.nics = {{.near = true}, {.near = false}};
  Tally none;
  REQUIRE(tally_gpu_paths(hosts, report, false, none));
  CHECK(none.planned() == 2);
  REQUIRE(none.missing("gpu-net", {}).size() == 1);
  runtime::MemoryTrial& trial = report.trials.emplace_back();
  trial.to = 1;
  trial.from_gpu = 0;
  Tally all;
  REQUIRE(tally_gpu_paths(hosts, report, false, all));
  CHECK(all.missing("gpu-net", {}).empty());  // that nothing passed was measured as well
  Tally every;
  REQUIRE(tally_gpu_paths(hosts, report, true, every));
  CHECK(every.planned() == 4);
  CHECK(every.missing("gpu-net", {}).size() == 1);
  // Two names of one machine, of which one took part.
  report.one_host = true;
  report.hosts[1] = report.hosts[0];
  Tally one;
  REQUIRE(tally_gpu_paths(hosts, report, false, one));
  CHECK(one.planned() == 3);
  const auto missing = one.missing("gpu-net", {});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].at.host.name == "b");
  report.one_host = false;
  report.hosts[1].host.id = HostId{7};
  CHECK(!tally_gpu_paths(hosts, report, false, every));
}

}  // namespace pairs_tests
