// Matrices of paths made by hand, with a fault in a known place and direction: who is named by the
// one judgement that `rails` and `check` have, once what is open has been measured again.
#include <functional>

#include "base/format.h"
#include "cmd/rails/path_trials.h"
#include "cmd/rails/usual.h"
#include "tests/catch.h"

namespace path_trials_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

using Speed = std::function<double(int from, int nic, int to, int peer)>;  // GB/s; 0: no answer

struct Cluster {
  int hosts = 3;
  std::vector<std::string> nics{"eth0"};
  bool alike = false;  // all hosts have one name

  RailPair pair(int a, int b, const Speed& speed) const {
    RailPair pair{.from = a, .to = b, .cells = {}};
    for (int i = 0; i < int(nics.size()); ++i)
      for (int j = 0; j < int(nics.size()); ++j) {
        const double GBps = speed(a, i, b, j);
        pair.cells.push_back({.end = GBps > 0 ? RailEnd::ok : RailEnd::silent,
                              .GBps = GBps,
                              .text = GBps > 0 ? "" : "no answer"});
      }
    return pair;
  }
  RailsReport report(const Speed& speed) const {
    RailsReport all;
    for (int h = 0; h < hosts; ++h) {
      RailsHost& host = all.hosts.emplace_back();
      host.host = {HostId(int32_t(h)), alike ? "localhost" : format("10.0.0.{}", h + 1)};
      for (const std::string& nic : nics)
        host.nics.push_back({.name = nic, .link = "Ethernet", .rate_Gbps = 10, .mtu = 1500});
    }
    for (int a = 0; a < hosts; ++a)
      for (int b = 0; b < hosts; ++b)
        if (a != b) all.pairs.push_back(pair(a, b, speed));
    return all;
  }
  // As rank 0 has it done: what is open is measured among itself, `later` for later times.
  RailsReport measured(const Speed& speed, const Speed& later) const {
    RailsReport all = report(speed);
    for (int round = 0; round < runtime::kMostAgain; ++round) {
      const std::vector<int> open = hosts_in_doubt(all, 0.7, round);
      if (open.size() < 2) break;
      for (RailPair& each : all.pairs)
        if (std::count(open.begin(), open.end(), each.from) > 0 &&
            std::count(open.begin(), open.end(), each.to) > 0) {
          all.before.push_back(each);
          each = pair(each.from, each.to, later);
        }
    }
    return all;
  }
  RailsFindings judged(const Speed& speed) const {
    return judge_rails(measured(speed, speed), 0.7);
  }
};

// "host 10.0.0.2 sends", all that are named; "?": these and others.
std::string named(const RailsFindings& found) {
  std::string text;
  for (const Finding& finding : found.checks)
    if (finding.name == "blame") {
      const size_t colon = finding.message.find(": ");
      text += text.empty() ? "" : "; ";
      text += finding.at.kind == SubjectKind::job ? "?" : finding.message.substr(0, colon);
      if (!finding.reason.empty()) text += " " + finding.reason;
    }
  return text;
}

}  // namespace

TEST_CASE("paths: an end is named with its direction, a link with its own", "[rails]") {
  for (const int hosts : {3, 4, 5, 8})
    for (const double bad : {0.1, 0.0}) {
      INFO(hosts << " hosts, bad is " << bad);
      const auto who = [&](const auto& is_bad) {
        const RailsFindings found = Cluster{.hosts = hosts}.judged(
            [&](int a, int, int b, int) { return is_bad(a, b) ? bad : 1.0; });
        // The named one is behind all that is bad.
        CHECK(found.unexplained.empty());
        CHECK(found.culprits.size() <= 1);
        CHECK((found.verdict(std::nullopt).code() == ErrorCode::failed) == !found.culprits.empty());
        return named(found);
      };
      CHECK(who([](int, int) { return false; }) == "");
      CHECK(who([](int a, int) { return a == 1; }) == "host 10.0.0.2 sends");
      CHECK(who([](int, int b) { return b == 1; }) == "host 10.0.0.2 receives");
      CHECK(who([](int a, int b) { return a == 1 || b == 1; }) == "host 10.0.0.2");
      CHECK(who([](int a, int b) { return a == 0 && b == 2; }) ==
            "link 10.0.0.1 eth0 -> 10.0.0.3 eth0");
      CHECK(who([](int a, int b) { return a + b == 2 && a != b; }) ==
            "link 10.0.0.1 eth0 - 10.0.0.3 eth0");
    }
}

TEST_CASE("paths: an MTU unlike the peers' is named, though every path is good", "[rails]") {
  const auto judged = [](int hosts) {
    RailsReport report = Cluster{.hosts = hosts}.report([](int, int, int, int) { return 1.0; });
    for (RailsHost& host : report.hosts) host.nics[0].network = "10.0.0.0/24";
    CHECK(judge_rails(report, 0.7).verdict(std::nullopt).ok());
    report.hosts[1].nics[0].mtu = 1400;
    return judge_rails(report, 0.7);
  };
  const RailsFindings found = judged(3);
  REQUIRE(found.culprits.size() == 1);
  CHECK(found.culprits[0].name == "10.0.0.2 eth0");
  CHECK(found.culprits[0].evidence ==
        "10.0.0.2: eth0 on 10.0.0.0/24 has MTU 1400, most hosts have MTU 1500");
  CHECK(found.verdict(std::nullopt).code() == ErrorCode::failed);
  const RailsFindings either = judged(2);
  CHECK(either.culprits.empty());
  CHECK(either.verdict(std::nullopt).code() == ErrorCode::failed);
}

TEST_CASE("paths: where RDMA ports cannot connect the link between their hosts is named",
          "[rails]") {
  for (const std::vector<std::string>& nics : {std::vector<std::string>{"a:1"}, {"a:1", "b:1"}}) {
    RailsReport report =
        Cluster{.hosts = 4, .nics = nics}.report([](int, int, int, int) { return 1.0; });
    for (RailPair& pair : report.pairs)
      if (pair.from + pair.to == 3 && pair.from != 0 && pair.to != 0)
        for (RailResult& cell : pair.cells) {
          cell.end = RailEnd::silent;
          cell.lost = runtime::RailLost::beside;
        }
    report.before = report.pairs;
    const RailsFindings found = judge_rails(report, 0.7);
    REQUIRE(found.culprits.size() == 1);
    CHECK(found.culprits[0].kind == SubjectKind::link);
    CHECK(found.culprits[0].name == "10.0.0.2 - 10.0.0.3");
    CHECK(found.unexplained.empty());
    CHECK(found.broken == std::set<std::pair<int, int>>{{1, 2}});
  }
}

TEST_CASE("paths: where large messages alone are lost the remedy is the MTU's", "[rails]") {
  for (const RailEnd end : {RailEnd::large_lost, RailEnd::silent}) {
    RailsReport report = Cluster{.hosts = 4}.report([](int, int, int, int) { return 1.0; });
    for (RailPair& pair : report.pairs)
      if (pair.from == 1 || pair.to == 1) pair.cells[0].end = end;
    report.before = report.pairs;
    const RailsFindings found = judge_rails(report, 0.7);
    REQUIRE(found.culprits.size() == 1);
    CHECK(found.culprits[0].name == "10.0.0.2");
    CHECK((found.checks[0].remedy == kMtuRemedy) == (end == RailEnd::large_lost));
  }
}

TEST_CASE("paths: where packets vanish one way nothing arrives either way, and that one is named",
          "[rails]") {
  for (const int hosts : {3, 4, 5, 8}) {
    INFO(hosts << " hosts");
    // `gone`: what one host sends to another never arrives.
    const auto who = [&](const auto& gone) {
      RailsReport all = Cluster{.hosts = hosts}.report(
          [&](int a, int, int b, int) { return gone(a, b) || gone(b, a) ? 0.0 : 1.0; });
      for (RailPair& pair : all.pairs)
        if (pair.cells[0].end == RailEnd::silent)
          pair.cells[0].lost =
              gone(pair.from, pair.to) ? runtime::RailLost::there : runtime::RailLost::back;
      for (int again = 0; again < 3; ++again)
        all.before.insert(all.before.end(), all.pairs.begin(), all.pairs.end());
      return named(judge_rails(all, 0.7));
    };
    CHECK(who([](int a, int b) { return a == 0 && b == 2; }) ==
          "link 10.0.0.1 eth0 -> 10.0.0.3 eth0");
    CHECK(who([](int a, int) { return a == 1; }) == "host 10.0.0.2 sends");
    CHECK(who([](int, int b) { return b == 1; }) == "host 10.0.0.2 receives");
    CHECK(who([](int a, int b) { return a == 1 || b == 1; }) == "host 10.0.0.2");
    CHECK(who([](int a, int b) { return a + b == 2 && a != b; }) ==
          "link 10.0.0.1 eth0 - 10.0.0.3 eth0");
  }
}

TEST_CASE("paths: hosts that are called alike are told apart", "[rails]") {
  const Cluster cluster{.hosts = 4, .alike = true};
  CHECK(cluster.judged([](int, int, int, int) { return 1.0; }).culprits.empty());
  const RailsFindings found =
      cluster.judged([](int a, int, int, int) { return a == 2 ? 0.1 : 1.0; });
  CHECK(named(found) == "host localhost sends");
  REQUIRE(found.culprits.size() == 1);
  CHECK(found.culprits[0].host.id == HostId{2});
}

TEST_CASE("paths: one of a host's NICs is named, with its direction", "[rails]") {
  const Cluster cluster{.hosts = 4, .nics = {"eth0", "eth1"}};
  CHECK(named(cluster.judged([](int a, int i, int, int) {
          return a == 2 && i == 1 ? 0.1 : 1.0;
        })) == "nic 10.0.0.3 eth1 sends");
  CHECK(named(cluster.judged([](int a, int i, int b, int j) {
          return (a == 2 && i == 1) || (b == 2 && j == 1) ? 0.1 : 1.0;
        })) == "nic 10.0.0.3 eth1");
}

TEST_CASE("paths: of two hosts nobody is named, and it fails", "[rails]") {
  const Cluster two{.hosts = 2};
  for (const double bad : {0.1, 0.0}) {
    const RailsFindings found =
        two.judged([&](int a, int, int, int) { return a == 1 ? bad : 1.0; });
    CHECK(named(found) == "?");
    CHECK(found.culprits.empty());
    CHECK(found.verdict(std::nullopt).code() == ErrorCode::failed);
    const std::string& says = found.checks.at(0).message;
    CHECK(says.find("cannot say which") != std::string::npos);
    CHECK(says.find("what 10.0.0.2 sends") != std::string::npos);
    CHECK(says.find("what 10.0.0.1 sends") == std::string::npos);
  }
}

TEST_CASE("paths: what is bad once is measured again before anybody is named", "[rails]") {
  const Cluster cluster{.hosts = 4};
  const auto once = [](int a, int, int b, int) { return a == 0 && b == 1 ? 0.1 : 1.0; };
  const auto good = [](int, int, int, int) { return 1.0; };
  const RailsReport all = cluster.measured(once, good);
  CHECK(all.before.size() == 2);  // both ways
  const RailsFindings found = judge_rails(all, 0.7);
  CHECK(named(found) == "");
  CHECK(found.came_back == 1);
  CHECK(found.slow.empty());
  CHECK(found.verdict(std::nullopt).ok());
  // A single bad measurement is a path that fails and no culprit; nor is it one while it is open.
  const RailsFindings first = judge_rails(cluster.report(once), 0.7);
  CHECK(first.culprits.empty());
  CHECK(first.unexplained.size() == 1);
  CHECK(first.verdict(std::nullopt).code() == ErrorCode::failed);
  CHECK(hosts_in_doubt(cluster.report(once), 0.7, 0).size() >= 2);
  CHECK(hosts_in_doubt(cluster.report(good), 0.7, 0).empty());
}

TEST_CASE("paths: the usual speed is that of the good, whatever most paths have", "[rails]") {
  const auto usual = [](int hosts, const auto& fast) {
    const Cluster cluster{.hosts = hosts};
    return usual_speeds(
               cluster.report([&](int a, int, int b, int) { return fast(a, b) ? 1 : 0.1; }), false)
        .at(10);
  };
  const auto all_but = [](int bad) { return [bad](int a, int b) { return a >= bad && b >= bad; }; };
  // Less than half of the hosts are bad.
  CHECK(usual(3, all_but(1)) == 1);
  CHECK(usual(5, all_but(2)) == 1);
  CHECK(usual(8, all_but(3)) == 1);
  CHECK(usual(8, all_but(5)) == 0.1);
  CHECK(usual(2, [](int a, int) { return a == 0; }) == 1);
  // Two racks of equal size: what all have with most others, and not what few have.
  for (const int hosts : {4, 8, 16})
    CHECK(usual(hosts, [&](int a, int b) { return a % 2 == b % 2; }) == 0.1);
  // A path that carries nothing has no speed; without any there is none.
  const Cluster three{.hosts = 3};
  CHECK(
      usual_speeds(three.report([](int a, int, int b, int) { return a + b == 1 ? 2.0 : 0; }), false)
          .at(10) == 2);
  CHECK(usual_speeds(three.report([](int, int, int, int) { return 0; }), false).empty());
  // The same of packets sent again: a host that loses many both ways does not make them usual.
  RailsReport lossy = three.report([](int, int, int, int) { return 1; });
  for (RailPair& pair : lossy.pairs)
    pair.cells[0].resent = pair.from == 2 || pair.to == 2 ? 0.3 : 0.001;
  CHECK(usual_resent(lossy, false) == 0.001);
  lossy.before = lossy.pairs;
  CHECK(named(judge_rails(lossy, 0.7)) == "host 10.0.0.3");
}

TEST_CASE("paths: a matrix without paths is no pass", "[rails]") {
  RailsReport report = Cluster{}.report([](int, int, int, int) { return 1.0; });
  std::erase_if(report.pairs, [](const RailPair& pair) { return pair.from == 2 || pair.to == 2; });
  RailsFindings found = judge_rails(report, 0.7);
  CHECK(found.verdict(std::nullopt).code() == ErrorCode::incomplete);
  CHECK(found.verdict(std::nullopt).reasons().at(0).message ==
        "10.0.0.3: no path of it was measured");
  report.pairs.clear();
  CHECK(judge_rails(report, 0.7).verdict(std::nullopt).code() == ErrorCode::failed);
}

}  // namespace path_trials_tests
