// Hosts and links that make a collective slow, found by groups whose members are exchanged.
#include "cmd/judge/bisect.h"

#include <bit>
#include <map>
#include <random>

#include "base/format.h"
#include "tests/catch.h"

namespace judge_bisect_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

std::vector<Host> hosts_of(int count) {
  std::vector<Host> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back({HostId(i), format("node{:02}", i)});
  return hosts;
}

int log2_of(int hosts) {  // rounded up
  return int(std::bit_width(unsigned(hosts - 1)));
}

// A machine in which a group is as fast as its slowest member or link lets it be. Healthy groups
// differ: `unrest` is how much of their speed they may lack.
struct Cluster {
  int hosts = 0;
  std::map<int, double> bad = {};
  std::map<std::pair<int, int>, double> bad_links = {};
  double unrest = 0.25;
  std::mt19937 random{7};

  double ratio(const HostGroup& group) {
    double least = 1 - unrest * std::uniform_real_distribution(0.0, 1.0)(random);
    for (const auto& [host, speed] : bad)
      if (std::ranges::count(group, host) > 0) least = std::min(least, speed);
    for (const auto& [link, speed] : bad_links)
      if (std::ranges::count(group, link.first) > 0 && std::ranges::count(group, link.second) > 0)
        least = std::min(least, speed);
    return least;
  }
  Bisection measured(double whole = 0) {
    HostGroup all;
    for (int host = 0; host < hosts; ++host) all.push_back(host);
    Bisection bisection(hosts_of(hosts), whole > 0 ? whole : ratio(all), 0.7);
    for (Round round = bisection.next(); !round.empty(); round = bisection.next()) {
      std::vector<double> ratios;
      std::vector<int> seats(size_t(hosts), 0);
      for (const HostGroup& group : round) {
        CHECK(group.size() >= 2);
        CHECK(int(group.size()) < hosts);
        for (const int host : group) ++seats.at(size_t(host));
        ratios.push_back(ratio(group));
      }
      for (const int seat : seats) CHECK(seat <= 1);
      bisection.take(round, ratios);
      REQUIRE(bisection.rounds() < 100);
    }
    return bisection;
  }
};

}  // namespace

TEST_CASE("one slow host of any number is named, in about log2 rounds", "[bisect]") {
  for (int hosts = 3; hosts <= 40; ++hosts)
    for (int bad = 0; bad < hosts; ++bad) {
      Cluster cluster{.hosts = hosts, .bad = {{bad, 0.3}}};
      const Bisection bisection = cluster.measured();
      INFO(hosts << " hosts, " << bad);
      CHECK(bisection.culprits() == std::vector{bad});
      CHECK(bisection.rounds() <= log2_of(hosts) + 2);
      const auto evidence = bisection.evidence({bad});
      CHECK(evidence.slow == evidence.tried);
      CHECK(evidence.tried >= (hosts > 3 ? 2 : 1));
      CHECK(bisection.good() > 0.7);
    }
  for (const int hosts : {16, 64, 512}) {
    Cluster cluster{.hosts = hosts, .bad = {{hosts / 3, 0.1}}};
    const Bisection bisection = cluster.measured();
    CHECK(bisection.culprits() == std::vector{hosts / 3});
    CHECK(bisection.rounds() <= log2_of(hosts) + 1);
  }
}

TEST_CASE("two and three slow hosts that are as slow as each other are all named", "[bisect]") {
  std::mt19937 random(11);
  for (int turn = 0; turn < 400; ++turn) {
    const int hosts = 8 + int(random() % 57);
    Cluster cluster{.hosts = hosts};
    while (int(cluster.bad.size()) < 2 + turn % 2)
      cluster.bad.emplace(int(random() % unsigned(hosts)), 0.2 + 0.01 * double(random() % 5));
    cluster.random.seed(unsigned(turn));
    std::vector<int> expected;
    for (const auto& [host, speed] : cluster.bad) expected.push_back(host);
    const Bisection bisection = cluster.measured();
    INFO(turn << ": " << hosts << " hosts");
    CHECK(bisection.culprits() == expected);
    CHECK(bisection.rounds() <= log2_of(hosts) + 2);
  }
}

TEST_CASE("a worse host hides a better one, until it is left out", "[bisect]") {
  Cluster cluster{.hosts = 16, .bad = {{3, 0.05}, {9, 0.5}}};
  CHECK(cluster.measured().culprits() == std::vector{3});
  cluster = {.hosts = 15, .bad = {{8, 0.5}}};
  CHECK(cluster.measured().culprits() == std::vector{8});
}

// Before a host is named all are measured without it, and with it again, which this leaves out.
TEST_CASE("speeds that scatter by ten hardly ever name a host", "[bisect]") {
  int named = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Cluster noise{.hosts = 16, .unrest = 0.9};
    noise.random.seed(seed);
    named += !noise.measured(0.1).culprits().empty();
  }
  CHECK(named < 15);
}

TEST_CASE("nobody is named where no host is worse than others", "[bisect]") {
  for (int hosts = 3; hosts <= 33; ++hosts) {
    INFO(hosts);
    // Something that they share is slow for all of them together only.
    const Bisection together = Cluster{.hosts = hosts}.measured(0.2);
    CHECK(together.culprits().empty());
    CHECK(together.slow_groups() == 0);
    CHECK(together.groups() > 0);
    // Every group is as slow as the whole.
    std::map<int, double> all;
    for (int host = 0; host < hosts; ++host) all[host] = 0.2;
    const Bisection alike = Cluster{.hosts = hosts, .bad = all}.measured();
    CHECK(alike.culprits().empty());
    CHECK(alike.good() == 0);
    CHECK(alike.slow_groups() == alike.groups());
  }
  CHECK(Bisection(hosts_of(2), 0.2, 0.7).next().empty());
}

TEST_CASE("a slow link between two good hosts is named, and neither of them", "[bisect]") {
  for (int hosts = 3; hosts <= 20; ++hosts)
    for (int a = 0; a < hosts; ++a)
      for (int b = a + 1; b < hosts; ++b) {
        if (hosts > 8 && hosts != 16 && (7 * a + b) % 5 != 0) continue;
        const Bisection bisection =
            Cluster{.hosts = hosts, .bad_links = {{{a, b}, 0.2}}}.measured();
        INFO(hosts << " hosts, " << a << " and " << b);
        CHECK(bisection.culprits().empty());
        CHECK(bisection.links() == std::vector{Bisection::Link(a, b)});
        CHECK(bisection.rounds() <= 3 * log2_of(hosts) + 3);
        const auto evidence = bisection.evidence({a, b});
        CHECK(evidence.slow == evidence.tried);
        CHECK(evidence.slow >= 2);
      }
}

TEST_CASE("a slow host and a slow link of others are both named", "[bisect]") {
  const Bisection bisection =
      Cluster{.hosts = 16, .bad = {{6, 0.2}}, .bad_links = {{{3, 9}, 0.2}}}.measured();
  CHECK(bisection.culprits() == std::vector{6});
  CHECK(bisection.links() == std::vector{Bisection::Link(3, 9)});
}

// Before a link is named all are measured without its ends, and with both, which this leaves out.
TEST_CASE("speeds that scatter by two or ten hardly ever name a link", "[bisect]") {
  int named = 0;
  for (const double unrest : {0.5, 0.9})
    for (unsigned seed = 0; seed < 100; ++seed) {
      Cluster noise{.hosts = 16, .unrest = unrest};
      noise.random.seed(seed);
      named += !noise.measured().links().empty();
    }
  CHECK(named < 5);
}

TEST_CASE("groups that could not be measured say nothing of their hosts", "[bisect]") {
  Bisection bisection(hosts_of(8), 0.2, 0.7);
  for (int round = 0; round < 3; ++round) {
    const Round groups = bisection.next();
    REQUIRE(!groups.empty());
    bisection.take(groups, std::vector<double>(groups.size(), 0));
  }
  CHECK(bisection.groups() == 0);
  CHECK(bisection.culprits().empty());
  // Fewer answers than groups.
  bisection.take(bisection.next(), std::vector{0.9});
  CHECK(bisection.groups() == 1);
}

}  // namespace judge_bisect_tests
