// Which of many ranks' failures is the one to print.
#include <signal.h>

#include "base/format.h"
#include "base/peer_closed.h"
#include "cmd/job/root_cause.h"
#include "tests/catch.h"

namespace job_root_cause_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

std::vector<RankFacts> job(int size) {
  std::vector<RankFacts> ranks{size_t(size)};
  for (int r = 0; r < size; ++r) {
    ranks[size_t(r)].end.rank = r;
    ranks[size_t(r)].end.host = {HostId(r % 2),
                                 format("b{}", r % 2)};  // ranks 1, 3, ... on another host
    ranks[size_t(r)].end.pid = 100 + r;
    ranks[size_t(r)].end.phase = "measure";
    ranks[size_t(r)].state = 'S';
  }
  return ranks;
}

struct How {
  Cause cause = Cause::unsaid;
  int from = -1;
};

void says(RankFacts& r, int order, ErrorCode code, const std::string& message, int blames = -1,
          How how = {}) {
  r.end.error = Error(code, message).blame(blames);
  r.end.error->cause = how.cause;
  r.end.error->from = how.from < 0 ? r.end.rank : how.from;
  r.end.exit_code = int(code);
  r.exited = true;
  r.order = order;
}

bool has(const Error& e, const std::string& part) {
  return e.chain().find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a job without failures has no root cause") {
  auto ranks = job(2);
  for (auto& r : ranks) {
    r.exited = true;
    r.end.phase = "done";
  }
  CHECK_FALSE(root_cause(ranks).has_value());
  CHECK(where_they_are(ranks) == "all ranks have ended");
}

// Rank 1's queue pair to rank 0 fails and it leaves; rank 0 sees its connection close and may be
// heard first.
TEST_CASE("of two that blame each other the one with a reason is told, whoever is heard first") {
  for (const int reason_order : {0, 1})
    for (const char* closed :
         {"connection closed by the peer", "rank 1 (host b1): connection closed by the peer",
          "rank 1 (host b1): receive: Connection reset by peer", "send: Connection reset by peer",
          "send: Broken pipe"}) {
      CAPTURE(reason_order, closed);
      auto ranks = job(3);
      says(ranks[0], 1 - reason_order, ErrorCode::lost, closed, 1, {.cause = Cause::closed});
      says(ranks[1], reason_order, ErrorCode::lost, "the queue pair to rank 0 ran out of retries",
           0);
      says(ranks[2], 2, ErrorCode::lost, closed, 1, {.cause = Cause::closed});
      const auto e = root_cause(ranks);
      REQUIRE(e.has_value());
      CHECK(has(*e, "rank 1 (host b1): the queue pair to rank 0 ran out of retries"));
    }
  // Where nobody has a reason the first one speaks.
  auto ranks = job(2);
  says(ranks[0], 1, ErrorCode::lost, "connection closed by the peer", 1, {.cause = Cause::closed});
  says(ranks[1], 0, ErrorCode::lost, "send: Broken pipe", 0, {.cause = Cause::closed});
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(has(*e, "send: Broken pipe"));
}

TEST_CASE("a killed rank is named, whatever the others say and when") {
  auto ranks = job(4);
  says(ranks[1], 0, ErrorCode::lost, "connection to rank 2 closed", 2);
  says(ranks[3], 1, ErrorCode::deadline, "rank 3 waits for rank 2", 2);
  ranks[2].exited = true;
  ranks[2].end.exit_signal = SIGKILL;
  ranks[0].exited = true;
  ranks[0].end.exit_signal = SIGTERM;
  ranks[0].end.ended_by_us = true;
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(e->code == ErrorCode::lost);
  CHECK(e->rank == 2);
  CHECK(e->host == "b0");
  CHECK(e->message ==
        "rank 2 (pid 102, host b0) was killed by signal 9 (SIGKILL) in phase measure");
  CHECK(e->hint.find("memory") != std::string::npos);
}

TEST_CASE("a rank that was left no memory has its limit in the hint") {
  auto ranks = job(2);
  ranks[1].exited = true;
  ranks[1].end.exit_signal = SIGKILL;
  ranks[1].end.starved_at = 400 << 20;
  CHECK(root_cause(ranks)->hint ==
        "the kernel killed it for lack of memory: its control group (container, job) may use 400 "
        "MiB in all; raise that limit, or use less");
}

TEST_CASE("two dead ranks, silent exits, defects") {
  auto ranks = job(3);
  SECTION("both are named") {
    for (int r : {0, 2}) {
      ranks[size_t(r)].exited = true;
      ranks[size_t(r)].end.exit_signal = SIGSEGV;
    }
    CHECK(has(*root_cause(ranks), "so did rank 2"));
  }
  SECTION("exit without a word") {
    ranks[1].exited = true;
    ranks[1].end.exit_code = 3;
    const auto e = root_cause(ranks);
    CHECK(e->code == ErrorCode::lost);
    CHECK(has(*e, "exit code 3"));
  }
  SECTION("success before the work was done") {
    ranks[1].exited = true;
    CHECK(root_cause(ranks)->rank == 1);
  }
  SECTION("a failed check is a defect") {
    ranks[1].exited = true;
    ranks[1].end.exit_code = 70;
    CHECK(root_cause(ranks)->code == ErrorCode::defect);
  }
}

TEST_CASE("echoes do not hide the reason") {
  auto ranks = job(3);
  SECTION("broken connections after a rank aborted") {
    says(ranks[2], 0, ErrorCode::unavailable, "/dev/shm has 1 MiB, 4 MiB are needed");
    says(ranks[0], 1, ErrorCode::lost, "connection closed by the peer", -1,
         {.cause = Cause::closed});
    says(ranks[1], 2, ErrorCode::lost, "rank 2 is gone", 2);
    const auto e = root_cause(ranks);
    CHECK(e->code == ErrorCode::unavailable);
    CHECK(e->rank == 2);
    CHECK(e->chain() == "rank 2 (host b0): /dev/shm has 1 MiB, 4 MiB are needed");
  }
  SECTION("a broken connection that is heard of before the reason") {
    says(ranks[1], 0, ErrorCode::lost, "the bootstrap root is gone: its process ended");
    says(ranks[0], 1, ErrorCode::unavailable, "cannot write /nowhere/machine.xml");
    CHECK(root_cause(ranks)->rank == 0);
    CHECK(root_cause(ranks)->code == ErrorCode::unavailable);
  }
  SECTION("a quote that arrives first") {
    says(ranks[0], 0, ErrorCode::unavailable, "rank 2 aborted: /dev/shm has 1 MiB, 4 are needed", 2,
         {.from = 2});
    says(ranks[2], 1, ErrorCode::unavailable, "/dev/shm has 1 MiB, 4 are needed");
    CHECK(root_cause(ranks)->rank == 2);
  }
  SECTION("two ranks blame each other") {
    says(ranks[0], 0, ErrorCode::lost, "rank 1 aborted: no memory was offered by rank 0", 1,
         {.from = 1});
    says(ranks[1], 1, ErrorCode::lost, "no memory was offered by rank 0", 0);
    const auto e = root_cause(ranks);
    CHECK(e->chain() == "rank 1 (host b1): no memory was offered by rank 0");
  }
  SECTION("the worst wins") {
    says(ranks[0], 0, ErrorCode::unavailable, "no such library");
    says(ranks[1], 1, ErrorCode::bad_data, "wrong bytes");
    CHECK(root_cause(ranks)->code == ErrorCode::bad_data);
  }
}

TEST_CASE("a connection that breaks between two ranks' own reasons is behind the first") {
  auto ranks = job(4);
  says(ranks[0], 0, ErrorCode::unavailable, "its memory cannot be mapped", 0);
  says(ranks[1], 1, ErrorCode::lost, "rank 3 (host b1): send: Broken pipe", 3);
  says(ranks[2], 2, ErrorCode::unavailable, "its memory cannot be mapped either", 2);
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(e->rank == 0);
  CHECK(has(*e, "its memory cannot be mapped"));
}

TEST_CASE("a lost host goes before what its ranks' neighbours say") {
  auto ranks = job(4);
  says(ranks[0], 0, ErrorCode::lost, "connection to rank 3 closed", 3);
  says(ranks[3], 1, ErrorCode::lost, "host b1 was lost during the run, with ranks 1, 3: gone", 3);
  ranks[3].host_lost = true;
  ranks[2].exited = true;
  ranks[2].end.exit_code = 5;
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(e->chain() == "host b1 was lost during the run, with ranks 1, 3: gone");
}

TEST_CASE("the deadline of a whole job names the rank that is stopped, or the host that is mute") {
  auto ranks = job(3);
  const auto late = [&] { return late_as_a_whole(ranks, "not up within 5 s: ", "rank 0 waits"); };
  CHECK(late().chain() ==
        "not up within 5 s: ranks 0 (host b0), 1 (host b1), 2 (host b0) in phase "
        "measure; rank 0 waits");
  CHECK(late().rank == -1);
  ranks[1].state = '?';
  CHECK(late().rank == -1);
  CHECK(late().host == "b1");
  CHECK(has(late(), "; host b1 has not said how its ranks are"));
  ranks[2].state = 'T';
  CHECK(late().rank == 2);
  CHECK(late().host == "b0");
  CHECK(late().message.starts_with(
      "rank 2 (pid 102, host b0) does not move: stopped (state T); not up within 5 s: "));
  CHECK(late().hint.find("kill -CONT 102") != std::string::npos);
  // All are: nobody by itself.
  for (RankFacts& r : ranks) r.state = 'T';
  CHECK(late().rank == -1);
  CHECK(late().message.starts_with("not up within 5 s: ranks 0 (host b0), 1 (host b1)"));
}

TEST_CASE("a deadline names who waits for whom and who does not move") {
  auto ranks = job(4);
  says(ranks[3], 0, ErrorCode::deadline, "rank 3 waits for data from rank 2 (step 42)", 2);
  says(ranks[1], 1, ErrorCode::deadline,
       "rank 3 aborted: rank 3 waits for data from rank 2 (step 42)", 2, {.from = 3});
  says(ranks[0], 2, ErrorCode::deadline, "rank 0 waits for data from rank 3 (step 41)", 3);
  SECTION("stopped") {
    ranks[2].state = 'T';
    const auto e = root_cause(ranks);
    CHECK(e->code == ErrorCode::deadline);
    CHECK(e->rank == 2);
    CHECK(e->message ==
          "rank 2 (pid 102, host b0) does not move: stopped (state T); rank 3 (host b1) waits for "
          "rank 2 (host b0); rank 0 (host b0) waits for rank 3 (host b1); rank 3 says: rank 3 "
          "waits for data from rank 2 (step 42)");
    CHECK(e->hint.find("kill -CONT 102") != std::string::npos);
  }
  SECTION("ended by the job after that") {
    ranks[2].state = 'T';
    ranks[2].exited = ranks[2].end.ended_by_us = true;
    ranks[2].end.exit_signal = SIGTERM;
    CHECK(has(*root_cause(ranks), "rank 2 (pid 102, host b0) does not move: stopped"));
  }
  SECTION("running") {
    ranks[2].state = 'R';
    CHECK(has(*root_cause(ranks), "does not move: running, but without progress"));
  }
}

TEST_CASE("ranks that wait for each other") {
  auto ranks = job(2);
  says(ranks[0], 0, ErrorCode::deadline, "rank 0 waits for a slot", 1);
  says(ranks[1], 1, ErrorCode::deadline, "rank 1 waits for data", 0);
  const auto e = root_cause(ranks);
  CHECK(has(*e, "rank 1 (host b1) waits for rank 0 (host b0); rank 0 (host b0) waits for rank 1"));
}

// Packets from rank 2's host to rank 1's are dropped. Everybody waits in a ring, and all waits end
// within moments; who is heard first waits for a rank that has done nothing wrong.
TEST_CASE("a connection that had no answer explains all waits, whoever is heard first") {
  const Error cause = base::no_connection("10.0.0.2:4242");
  const std::string way =
      base::cannot_connect("rank 1 (host b1)", "rank 2 (host b0)", "b0", cause).message;
  CHECK(way ==
        "rank 1 (host b1) cannot connect to rank 2 (host b0): 10.0.0.2:4242: no connection before "
        "the deadline");
  for (const int place : {0, 2, 3})
    for (const ErrorCode code : {ErrorCode::deadline, ErrorCode::lost}) {
      CAPTURE(place, int(code));
      auto ranks = job(5);
      int order = 0;
      for (const int r : {0, 2, 3}) {
        if (r == place) says(ranks[1], order++, code, way, 2, {.cause = Cause::no_connection});
        says(ranks[size_t(r)], order++, ErrorCode::deadline,
             format("rank {} waited until the deadline for rank {}", r, (r + 3) % 4), (r + 3) % 4);
      }
      says(ranks[4], order, ErrorCode::lost, "connection closed by the peer", 3,
           {.cause = Cause::closed});
      const auto e = root_cause(ranks);
      REQUIRE(e);
      CHECK(e->code == code);
      CHECK(e->rank == 2);
      CHECK(e->message ==
            way +
                "; rank 2 (host b0) waits for rank 1 (host b1); rank 3 (host b1) waits for rank "
                "2 (host b0); rank 0 (host b0) waits for rank 3 (host b1)");
    }
  SECTION("two of them, and one that only quotes") {
    auto ranks = job(4);
    says(ranks[3], 0, ErrorCode::deadline, "rank 1 aborted: " + way, 2,
         {.cause = Cause::no_connection, .from = 1});
    says(ranks[1], 1, ErrorCode::deadline, way, 2, {.cause = Cause::no_connection});
    const std::string back =
        base::cannot_connect("rank 0 (host b0)", "rank 1 (host b1)", "b1", cause).message;
    says(ranks[0], 2, ErrorCode::deadline, back, 1, {.cause = Cause::no_connection});
    CHECK(root_cause(ranks)->message == way + "; " + back);
  }
  SECTION("one that could not check in does not know where rank 0 is") {
    auto ranks = job(3);
    says(ranks[1], 0, ErrorCode::deadline,
         base::cannot_connect("rank 1 (host b1)", "rank 0", "", cause).message, 0,
         {.cause = Cause::no_connection});
    const auto e = root_cause(ranks);
    CHECK(has(*e, "rank 1 (host b1) cannot connect to rank 0 (host b0): 10.0.0.2:4242"));
    CHECK(e->host == "b0");
  }
  SECTION("a death explains more") {
    auto ranks = job(4);
    says(ranks[1], 0, ErrorCode::deadline, way, 2, {.cause = Cause::no_connection});
    ranks[2].exited = true;
    ranks[2].end.exit_signal = SIGKILL;
    CHECK(has(*root_cause(ranks), "rank 2 (pid 102, host b0) was killed"));
  }
  SECTION("so does a reason of another kind") {
    auto ranks = job(4);
    says(ranks[2], 0, ErrorCode::unavailable, "/dev/shm has 1 MiB, 4 MiB are needed");
    says(ranks[1], 1, ErrorCode::deadline, way, 2, {.cause = Cause::no_connection});
    CHECK(root_cause(ranks)->code == ErrorCode::unavailable);
  }
}

// Rank 1 is stopped while ranks connect. Rank 0 waits for 2, which waits for 1, and 0 is through
// with waiting first: who then lost rank 0 is heard, and what it says is worse than a deadline.
TEST_CASE("a rank that only lost one that had waited for it is no reason") {
  auto ranks = job(3);
  says(ranks[0], 0, ErrorCode::deadline, "rank 0 waited until the deadline for rank 2", 2);
  says(ranks[2], 1, ErrorCode::lost, "the bootstrap root is gone: the process of rank 0 ended", 0);
  ranks[1].end.ended_by_us = true;
  ranks[1].state = 'T';
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(e->code == ErrorCode::deadline);
  CHECK(e->rank == 1);
  CHECK(has(*e, "rank 1 (pid 101, host b1) does not move: stopped (state T)"));
}

// The way between ranks 3 and 0 is cut; rank 3 has got all it needs, and only hears of the abort.
TEST_CASE("a chain of waits is followed to its end") {
  auto ranks = job(4);
  says(ranks[2], 0, ErrorCode::deadline, "rank 2 waited until the deadline for rank 1 (host b1)",
       1);
  says(ranks[1], 1, ErrorCode::deadline, "rank 1 waited as well for rank 0 (host b0)", 0);
  says(ranks[0], 2, ErrorCode::deadline, "rank 0 waited as well for rank 3 (host b1)", 3);
  says(ranks[3], 3, ErrorCode::deadline,
       "rank 2 aborted: rank 2 waited until the deadline for rank 1 (host b1)", 1, {.from = 2});
  const auto e = root_cause(ranks);
  REQUIRE(e);
  CHECK(e->code == ErrorCode::deadline);
  CHECK(e->rank == 3);
  CHECK(e->host == "b1");
  CHECK(has(*e, "rank 0 (host b0) waits for rank 3 (host b1)"));
}

// Rank 1 was in an operation when rank 2's wait ended, and quotes it.
TEST_CASE("whom a rank waited for when it heard of another's deadline belongs to the chain") {
  auto ranks = job(4);
  const std::string first = "rank 2 waited until the deadline for rank 1 (host b1)";
  says(ranks[2], 0, ErrorCode::deadline, first, 1);
  says(ranks[1], 1, ErrorCode::deadline, "rank 2 aborted: " + first, 1, {.from = 2});
  ranks[1].end.error->awaited = 0;
  says(ranks[0], 2, ErrorCode::deadline, "rank 2 aborted: " + first, 1, {.from = 2});
  SECTION("to who waits for nobody") {
    const auto e = root_cause(ranks);
    REQUIRE(e);
    CHECK(e->rank == 0);
    CHECK(e->host == "b0");
    CHECK(has(*e, "rank 1 (host b1) waits for rank 0 (host b0)"));
  }
  SECTION("to nobody") {
    ranks[0].end.error->awaited = 2;
    const auto e = root_cause(ranks);
    REQUIRE(e);
    CHECK(e->code == ErrorCode::deadline);
    CHECK(e->rank == -1);
    CHECK(e->host == "");
    CHECK(has(*e, "rank 0 (host b0) waits for rank 2 (host b0)"));
    CHECK(e->hint.find("collctl doctor -H") != std::string::npos);
  }
  SECTION("a reason of another kind is not waited for") {
    ranks[1].end.error->code = ErrorCode::incomplete;
    CHECK_FALSE(has(*root_cause(ranks), "waits for rank 0"));
  }
}

TEST_CASE("root cause: hosts that are called alike stay apart", "[job]") {
  std::vector<RankFacts> ranks(4);
  for (int r = 0; r < 4; ++r) {
    ranks[size_t(r)].end.rank = r;
    ranks[size_t(r)].end.host = {HostId(r / 2), "localhost"};
  }
  CHECK(rank_list(ranks, {0, 2}) == "ranks 0 (host localhost), 2 (host localhost)");
}

// Data from rank 3 to rank 4 is dropped. All wait in a ring, rank 3 too, and all but one have only
// heard of the first whose time was up.
TEST_CASE("a way over which nothing passes any more explains all waits") {
  const std::string way = base::cannot_reach("rank 3 (host b1)", "rank 4 (host b0)", 4.23).message;
  CHECK(way ==
        "rank 3 (host b1) cannot reach rank 4 (host b0): it has acknowledged nothing for 4.2 s");
  const std::string first = "rank 1 waited until the deadline for rank 0 (host b0)";
  auto ranks = job(6);
  says(ranks[1], 0, ErrorCode::deadline, first, 0);
  for (const int r : {0, 2, 4, 5}) {
    says(ranks[size_t(r)], r + 1, ErrorCode::deadline, "rank 1 aborted: " + first, 0, {.from = 1});
    ranks[size_t(r)].end.error->awaited = (r + 5) % 6;
  }
  SECTION("both its ends are named") {
    says(ranks[3], 7, ErrorCode::deadline, way, 4, {.cause = Cause::unacknowledged});
    ranks[3].end.error->awaited = 2;
    const auto e = root_cause(ranks);
    REQUIRE(e);
    CHECK(e->rank == 4);
    CHECK(e->message ==
          way +
              "; rank 1 (host b1) waits for rank 0 (host b0); rank 2 (host b0) waits for rank 1 "
              "(host b1); rank 3 (host b1) waits for rank 2 (host b0); rank 4 (host b0) waits for "
              "rank 3 (host b1); rank 5 (host b1) waits for rank 4 (host b0); rank 0 (host b0) "
              "waits for rank 5 (host b1)");
  }
  SECTION("unless the other end's host says nothing either: then it is that host") {
    says(ranks[3], 7, ErrorCode::deadline, way, 4, {.cause = Cause::unacknowledged});
    ranks[3].end.error->awaited = 2;
    ranks[4] = job(6)[4];
    ranks[4].state = '?';
    const auto e = root_cause(ranks);
    REQUIRE(e);
    CHECK(e->rank == 4);
    CHECK(e->message.starts_with(
        "rank 4 (pid 104, host b0) does not move: its host has not said in what state it is"));
    CHECK(has(*e, "ranks 3, 5 (host b1) wait for rank 4 (host b0)"));
  }
}

TEST_CASE("a host that says nothing of its ranks is where to look") {
  auto ranks = job(2);
  ranks[1].state = '?';
  says(ranks[0], 0, ErrorCode::deadline, "rank 0 waits for data", 1);
  const auto e = root_cause(ranks);
  REQUIRE(e);
  CHECK(
      has(*e, "does not move: its host has not said in what state it is; rank 0 (host b0) waits"));
  CHECK(e->hint == "look at host b1 and the network to it (cable, link, firewall)");
}

TEST_CASE("places of ranks for a deadline of the job") {
  auto ranks = job(4);
  ranks[1].end.phase = ranks[3].end.phase = "bootstrap";
  ranks[2].end.phase = "";
  ranks[2].state = 'T';
  ranks[0].exited = true;
  CHECK(where_they_are(ranks) ==
        "ranks 1, 3 (host b1) in phase bootstrap; rank 2 (host b0) stopped (state T) before its "
        "first phase");
  CHECK(rank_list(ranks, {1}) == "rank 1 (host b1)");
  auto blocks = job(200);
  std::vector<int> most;
  for (int r = 0; r < 200; ++r) {
    blocks[size_t(r)].end.host = r < 100 ? Host{HostId{0}, "b0"} : Host{HostId{1}, "b1"};
    if (r != 7) most.push_back(r);
  }
  CHECK(rank_list(blocks, most) == "ranks 0-6, 8-99 (host b0), 100-199 (host b1)");
  for (auto& r : blocks) r.end.host = {HostId{0}, "b0"};
  CHECK(rank_list(blocks, most) == "ranks 0-6, 8-199");
}

// Two hosts lose each other: rank 0 waits, all that follows are aborts and connections that end.
TEST_CASE("who waited first is told where all others only lost connections to those who left") {
  auto ranks = job(6);
  const std::string waits = "rank 0 waits for data from rank 3: no progress for 5 s";
  const std::string closed = "rank 1 (host b1): connection closed by the peer";
  says(ranks[3], 0, ErrorCode::lost, "rank 2 aborted: " + closed, 1,
       {.cause = Cause::closed, .from = 2});
  says(ranks[2], 1, ErrorCode::lost, closed, 1, {.cause = Cause::closed});
  says(ranks[4], 2, ErrorCode::lost, "rank 3 (host b1): connection closed by the peer", 3,
       {.cause = Cause::closed});
  says(ranks[0], 3, ErrorCode::deadline, waits, 3);
  says(ranks[1], 4, ErrorCode::deadline, "rank 0 aborted: " + waits, 3, {.from = 0});
  says(ranks[5], 5, ErrorCode::deadline, "rank 0 aborted: " + waits, 3, {.from = 0});
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(e->code == ErrorCode::deadline);
  CHECK(has(*e, "rank 0 (host b0) waits for rank 3 (host b1)"));
  CHECK_FALSE(has(*e, "closed by the peer"));
}

// All ranks hear that rank 4 lacks something; rank 4 itself by way of rank 1, which was first to
// leave. Others only see connections end.
TEST_CASE("a rank's own reason is told, also where it has heard it from another") {
  auto ranks = job(5);
  const std::string lacks = "rank 4 (host b0): reserve 64 bytes: Cannot allocate memory";
  says(ranks[1], 0, ErrorCode::unavailable, lacks, 4, {.from = 4});
  says(ranks[0], 1, ErrorCode::unavailable, "rank 1 aborted: " + lacks, 4, {.from = 4});
  says(ranks[3], 2, ErrorCode::unavailable, "rank 1 aborted: " + lacks, 4, {.from = 4});
  says(ranks[2], 3, ErrorCode::lost, "rank 3 (host b1): connection closed by the peer", 3,
       {.cause = Cause::closed});
  says(ranks[4], 4, ErrorCode::unavailable, "rank 1 aborted: " + lacks, 4, {.from = 4});
  const auto e = root_cause(ranks);
  REQUIRE(e.has_value());
  CHECK(e->code == ErrorCode::unavailable);
  CHECK(e->rank == 4);
  CHECK(has(*e, "rank 4 (host b0)"));
  CHECK_FALSE(has(*e, "host b1"));
  // Nor where it was ended before it could say so: who told it is no part of it.
  ranks[4].end.error.reset();
  ranks[4].end.ended_by_us = true;
  const auto told = root_cause(ranks);
  REQUIRE(told.has_value());
  CHECK(told->rank == 4);
  CHECK(told->chain() == lacks);
}

// Rank 0 heard of rank 1's deadline before its own was over, so that its own wait is not known.
TEST_CASE("a host that is mute is named before a rank that only complains") {
  auto ranks = job(4);
  says(ranks[2], 0, ErrorCode::deadline, "rank 2 waited until the deadline for rank 0", 0);
  says(ranks[0], 1, ErrorCode::deadline, "rank 2 aborted: waited until the deadline", 2,
       {.from = 2});
  const auto before = root_cause(ranks);
  REQUIRE(before);
  CHECK(before->rank == 0);
  ranks[1].state = ranks[3].state = '?';
  const auto cause = root_cause(ranks);
  REQUIRE(cause);
  CHECK(cause->host == "b1");
  CHECK(cause->rank == 1);
  CHECK(has(*cause, "rank 1 (pid 101, host b1) does not move: its host has not said"));
  CHECK(has(*cause, "rank 2 (host b0) waits for rank 0 (host b0)"));
}

}  // namespace job_root_cause_tests
