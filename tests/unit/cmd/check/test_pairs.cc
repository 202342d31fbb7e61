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

TEST_CASE("gpu-net has the sizes that were asked for, and a large one at the full level",
          "[check]") {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  CheckOptions options;
  const auto spec = [&] { return rails_spec(options, runtime::MemoryChoice::gpu); };
  CHECK(spec().sizes().empty());
  CHECK(spec().large_s == 0);
  options.level = CheckLevel::full;
  CHECK(spec().sizes().empty());
  CHECK(spec().large_s == 60);
  options.given = SizeRange{.min_bytes = 8, .max_bytes = 64};
  CHECK(spec().sizes() == std::vector<uint64_t>{8, 64});
  CHECK(spec().large_s == 60);  // -b alone
  options.plateau = false;
  options.given->max_bytes = 8 * kGiB;
  CHECK(spec().sizes().back() == kGiB);
  CHECK(spec().large_s == 0);
  options.given->min_bytes = 4 * kGiB;
  CHECK(spec().sizes() == std::vector{kGiB});
  const RailsSpec hosts = rails_spec(options, runtime::MemoryChoice::host);
  CHECK(hosts.sizes().empty());
  RailsSpec full = rails_spec({.level = CheckLevel::full}, runtime::MemoryChoice::gpu);
  const auto back = base::record_of<RailsSpec>(base::json_of(full));
  REQUIRE(back);
  CHECK(back->large_s == 60);
}

TEST_CASE("gpu-net tells the slowest path at each size, and what has no large one", "[check]") {
  RailsReport report;
  for (const char* name : {"a", "b"}) {
    RailsHost& host = report.hosts.emplace_back();
    host.host = {HostId{int(report.hosts.size()) - 1}, name};
    host.nics = {{.name = "mlx5_0:1", .link = "InfiniBand"}};
    for (int gpu = 0; gpu < 3; ++gpu)
      host.gpus.list.push_back({.ordinal = gpu, .bus_id = "", .model = "H200", .nics = {{}}});
  }
  const auto add = [&](int gpu, std::vector<runtime::MemoryPoint> curve) {
    runtime::MemoryTrial& trial = report.trials.emplace_back();
    trial.to = 1;
    trial.from_gpu = gpu;
    trial.there.end = trial.back.end = RailEnd::ok;
    trial.there.GBps = trial.back.GBps = 40;
    trial.curve = std::move(curve);
  };
  add(0, {{1 << 30, 40, 44, 70}});
  add(1, {{1 << 27, 21, 20, 30}});
  CheckOptions options{.level = CheckLevel::full};
  auto found = size_findings(report, options, "no time");
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "large");
  CHECK(found[0].measured == "20");
  CHECK(found[0].basis == "at 128 MiB to 1 GiB");
  CHECK(found[0].at.device == "mlx5_0:1");  // what it gets
  CHECK(found[0].at.peer_device == "GPU 1");
  CHECK(found[0].n == 4);
  CHECK(found[0].of == 4);
  CHECK(found[1].name == "large both ways");
  CHECK(found[1].measured == "30");
  add(2, {});
  found = size_findings(report, options, "no time");
  REQUIRE(found.size() == 3);
  CHECK(found[0].code == ErrorCode::incomplete);
  CHECK(found[0].message == "2 of 6 paths of GPU memory have no large size: no time");
  // Measured again: the last counts.
  add(2, {{1 << 30, 41, 41, 70}});
  CHECK(size_findings(report, options, "").size() == 2);
  // Sizes that were asked for, the last of which is the largest.
  for (runtime::MemoryTrial& trial : report.trials) trial.curve = {{8, 1, 1, 2}, {64, 5, 6, 7}};
  options.plateau = false;
  options.given = SizeRange{.min_bytes = 8, .max_bytes = 64};
  found = size_findings(report, options, "");
  REQUIRE(found.size() == 4);
  CHECK(found[0].measured == "1");
  CHECK(found[1].measured == "2");
  CHECK(found[2].name == "large");
  CHECK(found[2].measured == "5");
  options.given->max_bytes = uint64_t{1} << 33;
  found = size_findings(report, options, "");
  CHECK(found.back().status == FindingStatus::warn);
}

}  // namespace pairs_tests
