// Matrices of paths made by hand, with a fault in a known place and direction: who is named, and
// that a matrix with nothing in it, or of other hosts, is no pass.
#include "base/format.h"
#include "cmd/check/path_trials.h"
#include "tests/catch.h"

namespace path_trials_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

struct Cluster {
  std::vector<std::string> hosts;
  std::vector<std::string> nics;
  Tally tally;
  PathTrials trials;

  Cluster(int count, std::vector<std::string> nic_names)
      : hosts(names(count)), nics(std::move(nic_names)), trials(hosts, tally) {}
  static std::vector<std::string> names(int count) {
    std::vector<std::string> list;
    for (int i = 0; i < count; ++i) list.push_back(format("10.0.0.{}", i + 1));
    return list;
  }
  // A report of `rails` on hosts with these speeds between them, each in GB/s.
  template <class Speed>
  RailsReport report(const Speed& speed) const {
    RailsReport all;
    for (const std::string& name : hosts) {
      RailsHost& host = all.hosts.emplace_back();
      host.host = name;
      for (const std::string& nic : nics)
        host.nics.push_back({.name = nic, .link = "Ethernet", .rate_Gbps = 10, .mtu = 1500});
    }
    for (int a = 0; a < int(hosts.size()); ++a)
      for (int b = 0; b < int(hosts.size()); ++b) {
        if (a == b) continue;
        RailPair& pair = all.pairs.emplace_back();
        pair.from = a;
        pair.to = b;
        for (size_t i = 0; i < nics.size(); ++i)
          for (size_t j = 0; j < nics.size(); ++j) {
            const double GBps = speed(a, int(i), b, int(j));
            RailResult& cell = pair.cells.emplace_back();
            cell.end = GBps > 0 ? RailEnd::ok : RailEnd::silent;
            cell.GBps = GBps;
            cell.text = GBps > 0 ? "" : "no answer";
          }
      }
    return all;
  }
  // As a check does it: once, and what is open again.
  template <class Speed>
  std::string blamed(const Speed& speed) {
    const RailsReport first = report(speed);
    const RailsFindings found = judge_rails(first, 0.7);
    for (int round = 0; round < 4; ++round) {
      if (round > 0 && trials.to_measure(round).size() < 2) break;
      REQUIRE(trials.add(first, found, 0.7).ok());
    }
    std::string text;
    for (const Blamed& one : trials.blamed().culprits) {
      const Suspect& part = trials.parts()[one.part];
      text += format("{}{}{}", text.empty() ? "" : "; ", one.named() ? "" : "maybe ",
                     one.named() ? part.text() : names_of(one, trials.parts()));
      CHECK((!one.named() || !one.intermittent));
    }
    return text;
  }
};

}  // namespace

TEST_CASE("an end that only sends badly, or only receives badly, is named with its direction",
          "[check]") {
  for (const int hosts : {3, 4, 5, 8}) {
    INFO(hosts << " hosts");
    const auto named = [&](const auto& slow) {
      return Cluster(hosts, {"eth0"}).blamed([&](int a, int, int b, int) {
        return slow(a, b) ? 0.1 : 1.0;
      });
    };
    CHECK(named([](int, int) { return false; }) == "");
    CHECK(named([](int a, int) { return a == 1; }) == "what 10.0.0.2 sends");
    CHECK(named([](int, int b) { return b == 1; }) == "what 10.0.0.2 receives");
    // Of three hosts most paths are then slow, and the usual speed is the slow one.
    if (hosts > 3) CHECK(named([](int a, int b) { return a == 1 || b == 1; }) == "10.0.0.2");
    CHECK(named([](int a, int b) { return a == 0 && b == 2; }) == "10.0.0.1 eth0 -> 10.0.0.3 eth0");
    CHECK(named([](int a, int b) { return a + b == 2 && a != b; }) ==
          "10.0.0.1 eth0 - 10.0.0.3 eth0");
  }
}

TEST_CASE("one of a host's NICs is named, with its direction", "[check]") {
  Cluster cluster(4, {"eth0", "eth1"});
  CHECK(cluster.blamed([](int a, int i, int, int) { return a == 2 && i == 1 ? 0.1 : 1.0; }) ==
        "what 10.0.0.3 eth1 sends");
  Cluster both(4, {"eth0", "eth1"});
  CHECK(both.blamed([](int a, int i, int b, int j) {
    return (a == 2 && i == 1) || (b == 2 && j == 1) ? 0.1 : 1.0;
  }) == "10.0.0.3 eth1");
}

TEST_CASE("of two hosts nobody is named", "[check]") {
  Cluster cluster(2, {"eth0"});
  const std::string who = cluster.blamed([](int a, int, int, int) { return a == 1 ? 0.0 : 1.0; });
  CHECK(who.rfind("maybe ", 0) == 0);
  CHECK(who.find("what 10.0.0.2 sends") != std::string::npos);
  CHECK(who.find("what 10.0.0.1 sends") == std::string::npos);
}

TEST_CASE("a matrix without paths, or of other hosts, is no pass", "[check]") {
  Cluster cluster(3, {"eth0"});
  RailsReport report = cluster.report([](int, int, int, int) { return 1.0; });
  report.pairs.clear();
  REQUIRE(cluster.trials.add(report, judge_rails(report, 0.7), 0.7).ok());
  auto missing = cluster.tally.missing("pairs", {});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].code == ErrorCode::incomplete);
  CHECK(missing[0].message == "pairs: 0 of 12 paths to other hosts were measured");

  report = cluster.report([](int, int, int, int) { return 1.0; });
  std::erase_if(report.pairs, [](const RailPair& pair) { return pair.from == 0 && pair.to == 1; });
  REQUIRE(cluster.trials.add(report, judge_rails(report, 0.7), 0.7).ok());
  missing = cluster.tally.missing("pairs", {});
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].at.host == "10.0.0.1");
  CHECK(missing[1].at.host == "10.0.0.2");
  REQUIRE(cluster.trials.add_unconnected({"10.0.0.1", "10.0.0.2", "no connection"}).ok());
  CHECK(cluster.tally.missing("pairs", {}).empty());

  report.hosts[1].host = "node02";
  const Status status = cluster.trials.add(report, judge_rails(report, 0.7), 0.7);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::defect);
  CHECK_FALSE(cluster.trials.add_unconnected({"10.0.0.1", "node02", ""}).ok());
}

}  // namespace path_trials_tests
