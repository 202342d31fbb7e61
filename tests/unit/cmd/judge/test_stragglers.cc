// The late one, from how ranks' time went: a rank, a host, a link, nobody.
#include "cmd/judge/stragglers.h"

#include "base/format.h"
#include "tests/catch.h"

namespace judge_stragglers_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

constexpr double kAll = 1e6;  // us

RankWaits rank(int number, const Host& host, double waited, double away = 0) {
  return {.rank = number,
          .host = host,
          .elapsed_us = kAll,
          .waited_us = waited * kAll,
          .away_us = away * kAll,
          .peers = {}};
}

RankWaits rank(int number, const std::string& host, double waited, double away = 0) {
  return rank(number, base::saved_host(host), waited, away);
}

// A ring of one rank on each host, whose links carry this share of the time.
std::vector<RankWaits> ring(const std::vector<double>& carrying) {
  std::vector<RankWaits> all;
  const int n = int(carrying.size());
  for (int r = 0; r < n; ++r) {
    all.push_back(rank(r, format("n{}", r), 0.8));
    all.back().peers.push_back({.peer = (r + 1) % n, .carrying_us = carrying[size_t(r)] * kAll});
  }
  return all;
}

}  // namespace

TEST_CASE("Whoever waits least is late, the others waited for it", "[judge][stragglers]") {
  std::vector<RankWaits> ranks;
  for (int r = 0; r < 8; ++r)
    ranks.push_back(rank(r, r < 4 ? "a" : "b", r == 5 ? 0.02 : 0.8, r == 5 ? 0.6 : 0));
  const auto late = stragglers(ranks);
  REQUIRE(late.size() == 1);
  CHECK(late[0].at.kind == SubjectKind::rank);
  CHECK(late[0].at.rank == 5);
  CHECK(straggler_name(late[0]) == "rank 5 (host b)");
  CHECK(late[0].why.find("it waited 2 % of the time, they 80 %") != std::string::npos);
  CHECK(late[0].why.find("0.60 s") != std::string::npos);
}

TEST_CASE("Ranks alike are not late, nor is one that is a little slower", "[judge][stragglers]") {
  std::vector<RankWaits> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(rank(r, "a", r == 1 ? 0.42 : 0.5));
  CHECK(stragglers(ranks).empty());
  CHECK(stragglers({}).empty());
  CHECK(stragglers(std::vector<RankWaits>{rank(0, "a", 0)}).empty());
  for (RankWaits& one : ranks) one.elapsed_us = one.waited_us = 0;  // nothing was timed
  CHECK(stragglers(ranks).empty());
}

TEST_CASE("All ranks of a host late: the host", "[judge][stragglers]") {
  std::vector<RankWaits> ranks;
  for (int r = 0; r < 12; ++r)
    ranks.push_back(rank(r, format("n{}", r / 3), r / 3 == 2 ? 0.1 : 0.9));
  const auto late = stragglers(ranks);
  REQUIRE(late.size() == 1);
  CHECK(late[0].at.kind == SubjectKind::host);
  CHECK(straggler_name(late[0]) == "host n2");
}

TEST_CASE("Nobody late and one link slow: the link; two of one host: its network",
          "[judge][stragglers]") {
  CHECK(stragglers(ring({0.1, 0.12, 0.1, 0.11})).empty());
  auto late = stragglers(ring({0.1, 0.9, 0.1, 0.11, 0.1}));
  REQUIRE(late.size() == 1);
  CHECK(straggler_name(late[0]) == "link rank 1 (host n1) -> rank 2 (host n2)");
  late = stragglers(ring({0.1, 0.8, 0.9, 0.11, 0.1}));
  REQUIRE(late.size() == 1);
  CHECK(straggler_name(late[0]) == "host n2");
  // With two links nobody knows which is the usual one.
  CHECK(stragglers(ring({0.1, 0.9})).empty());
}

TEST_CASE("hosts that are called alike are told apart", "[judge][stragglers]") {
  std::vector<RankWaits> ranks;
  for (int r = 0; r < 8; ++r)
    ranks.push_back(rank(r, Host{HostId(r / 2), "localhost"}, r / 2 == 2 ? 0.1 : 0.8));
  const auto late = stragglers(ranks);
  REQUIRE(late.size() == 1);
  CHECK(late[0].at.kind == SubjectKind::host);
  CHECK(late[0].at.host.id == HostId{2});
}

}  // namespace judge_stragglers_tests
