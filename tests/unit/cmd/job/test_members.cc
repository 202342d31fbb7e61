// --on-loss shrink: who goes on, who is lost and why; what survivors are told.
#include "cmd/job/members.h"

#include <signal.h>

#include "base/format.h"
#include "cmd/job/config.h"
#include "tests/catch.h"

namespace job_regroup_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// Ranks 2 h and 2 h + 1 are on host b{h}; all have left the communicator and wait.
std::vector<RankFacts> waiting(int size) {
  std::vector<RankFacts> ranks{size_t(size)};
  for (int r = 0; r < size; ++r) {
    RankFacts& facts = ranks[size_t(r)];
    facts.end.rank = r;
    facts.end.host = {HostId(r / 2), format("b{}", r / 2)};
    facts.end.pid = 100 + r;
    facts.end.phase = "measure";
    facts.state = 'S';
    facts.broken = Error(ErrorCode::lost, "connection closed by the peer");
  }
  return ranks;
}

void kill(RankFacts& r, int signal) {
  r.exited = true;
  r.end.exit_signal = signal;
  r.state = 0;
}

void stop(RankFacts& r) {
  r.broken.reset();
  r.state = 'T';
}

std::vector<int> all(int size) {
  std::vector<int> members;
  for (int r = 0; r < size; ++r) members.push_back(r);
  return members;
}

}  // namespace

TEST_CASE("regroup: a killed rank is lost, also one that had left the communicator", "[job]") {
  for (const bool waited : {false, true}) {
    auto ranks = waiting(4);
    kill(ranks[2], SIGKILL);
    if (!waited) ranks[2].broken.reset();
    CHECK(all_are_heard(ranks, all(4), false));
    const Regrouped found = regrouped(ranks, all(4));
    CHECK(found.left == std::vector<int>{0, 1, 3});
    REQUIRE(found.lost.size() == 1);
    CHECK(found.lost[0].ranks == std::vector<int>{2});
    CHECK(found.lost[0].host.name == "b1");
    CHECK(found.lost[0].why ==
          "rank 2 (pid 102, host b1) was killed by signal 9 (SIGKILL) in phase measure");
    CHECK(found.lost[0].remedy.find("Out of memory") != std::string::npos);
  }
}

TEST_CASE("regroup: who runs is waited for, who is stopped only for a moment", "[job]") {
  auto ranks = waiting(3);
  ranks[1].broken.reset();
  CHECK_FALSE(all_are_heard(ranks, all(3), false));
  CHECK_FALSE(all_are_heard(ranks, all(3), true));
  stop(ranks[1]);
  CHECK_FALSE(all_are_heard(ranks, all(3), false));
  CHECK(all_are_heard(ranks, all(3), true));
  const Regrouped found = regrouped(ranks, all(3));
  CHECK(found.left == std::vector<int>{0, 2});
  REQUIRE(found.lost.size() == 1);
  CHECK(found.lost[0].why == "rank 1 (pid 101, host b0) does not move: stopped (state T)");
  CHECK(found.lost[0].remedy.find("kill -CONT 101") != std::string::npos);
}

TEST_CASE("regroup: ranks that went with their host are one loss, others each their own", "[job]") {
  auto ranks = waiting(6);
  for (const int r : {2, 3}) {
    ranks[size_t(r)].broken.reset();
    ranks[size_t(r)].exited = ranks[size_t(r)].host_lost = true;
    ranks[size_t(r)].end.error =
        Error(ErrorCode::lost, "host b1 was lost during the run, with ranks 2-3").blame(r);
  }
  kill(ranks[0], SIGSEGV);
  kill(ranks[5], SIGKILL);
  const Regrouped found = regrouped(ranks, all(6));
  CHECK(found.left == std::vector<int>{1, 4});
  REQUIRE(found.lost.size() == 3);
  CHECK(found.lost[0].ranks == std::vector<int>{0});
  CHECK(found.lost[1].ranks == std::vector<int>{2, 3});
  CHECK(found.lost[1].why == "host b1 was lost during the run, with ranks 2-3");
  CHECK(found.lost[1].remedy.find("host b1") != std::string::npos);
  CHECK(found.lost[2].ranks == std::vector<int>{5});
}

TEST_CASE("regroup: a broken way between ranks that are all there loses nobody", "[job]") {
  const Regrouped found = regrouped(waiting(4), all(4));
  CHECK(found.lost.empty());
  CHECK(found.left == all(4));
}

TEST_CASE("regroup: only members count, and who ended in order is not lost", "[job]") {
  auto ranks = waiting(5);
  kill(ranks[1], SIGKILL);
  ranks[1].left_behind = true;  // lost before
  ranks[2].broken.reset();
  ranks[2].exited = true;
  ranks[2].end.phase = "done";
  kill(ranks[4], SIGKILL);
  const std::vector<int> members{0, 2, 3, 4};
  CHECK(all_are_heard(ranks, members, false));
  const Regrouped found = regrouped(ranks, members);
  CHECK(found.left == std::vector<int>{0, 3});
  REQUIRE(found.lost.size() == 1);
  CHECK(found.lost[0].ranks == std::vector<int>{4});
}

TEST_CASE("a roster survives, and one that makes no sense is refused", "[job]") {
  const Roster roster{.task = {{0, 2, 3}, 4, 17},
                      .start_timeout_s = 12.5,
                      .one_host = false,
                      .hosts = {"a", "b", "b"}};
  const auto again = record_of<Roster>(json_of(roster));
  REQUIRE(again);
  CHECK(again->task.members == std::vector<int>{0, 2, 3});
  CHECK(again->task.job_size == 4);
  CHECK(again->task.done == 17);
  CHECK(again->start_timeout_s == 12.5);
  CHECK_FALSE(again->one_host);
  CHECK(again->hosts == std::vector<std::string>{"a", "b", "b"});
  for (const std::vector<int>& members :
       {std::vector<int>{4}, std::vector<int>{-1}, std::vector<int>{0, 1, 2, 3, 0}}) {
    Roster wrong = roster;
    wrong.task.members = members;
    CHECK_FALSE(record_of<Roster>(json_of(wrong)));
  }
}

}  // namespace job_regroup_tests
