// The blame for trials between ends that failed.
#include "cmd/judge/verdict.h"

#include "base/format.h"
#include "tests/catch.h"

namespace judge_ends_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// All ordered pairs of `n` ends; `fails` has which fail.
template <class Fails>
std::vector<Culprit> blamed(size_t n, Fails fails) {
  std::vector<Host> ends;
  std::vector<EndTrial> trials;
  for (size_t i = 0; i < n; ++i) ends.push_back({HostId(int32_t(i)), format("e{}", i)});
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to)
      if (from != to) trials.push_back({from, to, fails(from, to)});
  return blame_ends(trials, ends, {"path", "paths"});
}

std::vector<std::string> names_of(const std::vector<Culprit>& culprits) {
  std::vector<std::string> names;
  for (const Culprit& culprit : culprits) names.push_back(culprit.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("nobody is blamed for nothing", "[judge]") {
  CHECK(blamed(5, [](size_t, size_t) { return false; }).empty());
  CHECK(blame_ends({}, {}, {"test", "tests"}).empty());
}

TEST_CASE("an end whose trials fail is blamed, and its peers are not", "[judge]") {
  for (const size_t n : {3, 4, 16}) {
    INFO(n);
    const auto culprits = blamed(n, [](size_t from, size_t to) { return from == 1 || to == 1; });
    REQUIRE(names_of(culprits) == Names{"e1"});
    CHECK(culprits[0].kind == SubjectKind::host);
    CHECK(culprits[0].host.id == HostId{1});
    CHECK(culprits[0].confidence == 1);
    CHECK(culprits[0].evidence == format("{0} of {0} paths with it failed", 2 * (n - 1)));
  }
  // Half of them is enough: only what it sends is lost.
  const auto sends = blamed(5, [](size_t from, size_t) { return from == 3; });
  REQUIRE(names_of(sends) == Names{"e3"});
  CHECK(sends[0].confidence == 0.5);
}

TEST_CASE("two ends at once are both blamed", "[judge]") {
  const auto bad = [](size_t end) { return end == 0 || end == 4; };
  CHECK(names_of(blamed(6, [&](size_t from, size_t to) { return bad(from) || bad(to); })) ==
        Names{"e0", "e4"});
}

TEST_CASE("a trial that fails between good ends is the link's, between two ends always",
          "[judge]") {
  const auto one = blamed(4, [](size_t from, size_t to) { return from == 2 && to == 0; });
  REQUIRE(names_of(one) == Names{"e2 -> e0"});
  CHECK(one[0].kind == SubjectKind::link);
  CHECK(one[0].evidence == "the path between them failed");
  CHECK(names_of(blamed(2, [](size_t, size_t) { return true; })) == Names{"e0 -> e1", "e1 -> e0"});
  // With three ends, half of the trials of either fail, and all of them with the other.
  CHECK(names_of(blamed(3, [](size_t from, size_t to) { return from != 0 && to != 0; })) ==
        Names{"e1 -> e2", "e2 -> e1"});
}

}  // namespace judge_ends_tests
