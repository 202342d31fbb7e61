// Waits among the ranks of a running job, and the door where a job is asked.
#include "cmd/job/job_status.h"

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/wait.h"
#include "cmd/job/status_door.h"
#include "tests/catch.h"

namespace job_job_status_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

RankNow rank(int number, const char* state = "S") {
  RankNow r{.rank = number,
            .host = {HostId{0}, "a"},
            .pid = 100 + number,
            .phase = "measure",
            .state = state};
  r.doing.emplace();
  r.doing->rank = number;
  r.doing->busy = true;
  return r;
}

RankNow waiting(int number, int peer, double seconds) {
  RankNow r = rank(number);
  WaitDoing& wait = r.doing->waits.emplace_back();
  wait.peer = peer;
  wait.seconds = seconds;
  wait.operation = "allreduce";
  return r;
}

}  // namespace

TEST_CASE("Whoever is waited for and waits for nobody is named", "[job][status]") {
  JobNow job{.pid = 7,
             .what = "allreduce",
             .ranks = {waiting(0, 3, 2.5), waiting(1, 0, 2.4), waiting(2, 1, 2.3), rank(3, "T")}};
  job.ranks[3].doing.reset();
  const auto late = awaited(job);
  REQUIRE(late.size() == 1);
  CHECK(late[0].rank == 3);
  CHECK(late[0].waiters == std::vector<int>{0, 1, 2});
  CHECK(awaited_text(job, 1) ==
        "ranks 0-2 wait 2.5 s for rank 3 (host a, pid 103), which is stopped (state T)");
  CHECK(awaited_text(job, 3).empty());
  // The wait of a stopped rank when it was stopped means nothing.
  job.ranks[3] = waiting(3, 2, 9);
  job.ranks[3].state = "T";
  CHECK(awaited(job).at(0).rank == 3);
}

TEST_CASE("A rank that has not called the operation, one that does not answer, a circle",
          "[job][status]") {
  JobNow job{.pid = 7, .what = "x", .ranks = {waiting(0, 1, 5), rank(1)}};
  job.ranks[1].doing->busy = false;
  CHECK(awaited_text(job, 1).ends_with("which has not called it"));
  job.ranks[1].doing.reset();
  CHECK(awaited_text(job, 1).ends_with("which does not answer"));
  job.ranks[1].state = "";
  CHECK(awaited_text(job, 1).ends_with("which is gone"));
  job.ranks = {waiting(0, 2, 5), waiting(1, 2, 5), waiting(2, 1, 6)};
  const auto late = awaited(job);
  REQUIRE(late.size() == 1);
  CHECK(late[0].rank == 1);
  CHECK(late[0].waiters == std::vector<int>{0, 2});
  CHECK(awaited_text(job, 1).ends_with("which waits for it, too"));
  // A peer that the job does not have.
  job.ranks = {waiting(0, 9, 5)};
  CHECK(awaited_text(job, 1) == "rank 0 waits 5 s for rank 9");
}

TEST_CASE("In a window a rank waits for all that have not begun", "[job][status]") {
  JobNow job{.pid = 7, .what = "x", .ranks = {rank(0), rank(1, "T"), rank(2), rank(3)}};
  job.ranks[1].doing.reset();
  job.ranks[3].doing->busy = false;
  for (const int peer : {1, 3}) {
    job.ranks[0].doing->waits.push_back({.peer = peer, .seconds = 2, .number = 9});
    job.ranks[2].doing->waits.push_back({.peer = peer, .seconds = 2, .number = 9});
  }
  const auto late = awaited(job);
  REQUIRE(late.size() == 2);
  CHECK(late[0].rank == 1);
  CHECK(late[1].rank == 3);
  for (const Awaited& one : late) CHECK(one.waiters == std::vector<int>{0, 2});
  CHECK(awaited_text(job, 1) ==
        "ranks 0, 2 wait 2 s for rank 1 (host a, pid 101), which is stopped (state T); "
        "ranks 0, 2 wait 2 s for rank 3 (host a, pid 103), which has not called it");
}

// Rank 1 has not begun what rank 0 is in, as it waits for rank 0 in something else.
TEST_CASE("Of several that have not begun one waits for the rank itself", "[job][status]") {
  JobNow job{.pid = 7, .what = "x", .ranks = {rank(0), waiting(1, 0, 3), rank(2)}};
  for (const int peer : {2, 1})
    job.ranks[0].doing->waits.push_back({.peer = peer, .seconds = 2, .number = 9});
  const auto late = awaited(job);
  REQUIRE(late.size() == 1);
  CHECK(late[0].rank == 2);
  CHECK(late[0].waiters == std::vector<int>{0, 1});
}

TEST_CASE("Who has called less is told where nobody says for whom it waits", "[job][status]") {
  JobNow job{.pid = 7, .what = "x", .ranks = {rank(0), rank(1), rank(2)}};
  for (RankNow& r : job.ranks) r.doing->calls = 8;
  CHECK(awaited_text(job, 1).empty());
  job.ranks[1].doing->busy = false;
  CHECK(awaited_text(job, 1).empty());  // it is done with what the others are in
  job.ranks[1].doing->calls = 7;
  CHECK(awaited_text(job, 1) ==
        "ranks 0, 2 are in call 8, of which rank 1 (host a, pid 101) has made 7");
  job.ranks[1].doing->busy = true;
  CHECK(awaited_text(job, 1).empty());
}

TEST_CASE("A job's record travels, and refuses what is none", "[job][status]") {
  JobNow job{.pid = 7, .what = "allreduce", .seconds = 1.5, .progress = "8 B", .ranks = {}};
  job.ranks = {waiting(0, 1, 2), rank(1, "")};
  job.ranks[1].doing.reset();
  const std::string text = json_of(job);
  const auto again = record_of<JobNow>(text);
  REQUIRE(again.ok());
  CHECK(json_of(*again) == text);
  CHECK(text.find("\"awaited\":[{\"rank\":1") != std::string::npos);
  CHECK_FALSE(record_of<JobNow>("{}").ok());
}

TEST_CASE("The door answers who asks, and is this user's alone", "[job][status]") {
  auto door = StatusDoor::open();
  REQUIRE(door.ok());
  const auto find = [] {
    for (const OpenDoor& one : open_doors())
      if (one.pid == ::getpid()) return std::optional(one);
    return std::optional<OpenDoor>();
  };
  const auto mine = find();
  REQUIRE(mine);
  struct stat s {};
  REQUIRE(::stat(mine->path.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
  const std::string large(3 << 20, 'x');  // more than a socket holds
  for (const std::string& said : {std::string("{\"job\":1}"), large}) {
    std::thread loop([&] {
      pollfd p{(*door)->fd(), POLLIN, 0};
      if (base::poll_fds({&p, 1}, base::Deadline::after_seconds(20)).ok() && (*door)->take())
        (*door)->answer(said);
    });
    const auto answer = ask_door(*mine, base::Deadline::after_seconds(20));
    loop.join();
    REQUIRE(answer.ok());
    CHECK(*answer == said);
  }
  // A loop that does not come to it: the caller's deadline.
  const auto none = ask_door(*mine, base::Deadline::after_ms(50));
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::deadline);
  door->reset();
  // One that is silent for longer than the door waits has not ended.
  door = StatusDoor::open(0.05);
  REQUIRE(door.ok());
  const auto asked = find();
  REQUIRE(asked);
  const auto silent = ask_door(*asked, base::Deadline::after_seconds(20));
  REQUIRE_FALSE(silent.ok());
  CHECK(silent.error().code == ErrorCode::deadline);
  CHECK(silent.error().message.find("does not answer") != std::string::npos);
  door->reset();
  CHECK_FALSE(find());
  const auto gone = ask_door(*mine, base::Deadline::after_ms(50));
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().code == ErrorCode::lost);
}

}  // namespace job_job_status_tests
