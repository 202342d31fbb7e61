// Ranks as threads of one process: a rank that cannot start ends the others at once, with its own
// reason, long before their time to start is up.
#include <atomic>
#include <chrono>
#include <semaphore>

#include "cmd/job/job.h"
#include "cmd/measure/rank.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace job_threads_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

constexpr double kStartSeconds = 40;
const char* const kReason = "this rank has no adapter";

Status start_or_fail(const TaskContext& context) {
  if (context.rank == 1) return Error(ErrorCode::unavailable, kReason, "give it one");
  return with_communicator(context, comm_options(context.spec.settings, context.sink), nullptr,
                           [](runtime::Communicator&) -> Status { return {}; });
}

const RankTask kOneFails{.name = "one fails", .run = start_or_fail};

std::atomic<int> told = 0;
std::counting_semaphore<> each_time{0};  // that people were told

// Says nothing until people were told twice that it goes on.
Status wait_until_told(const TaskContext&) {
  const auto limit = std::chrono::duration<double>(kStartSeconds);
  for (int i = 0; i < 2; ++i)
    if (!each_time.try_acquire_for(limit))
      return Error(ErrorCode::deadline, "nobody was told that the job goes on");
  return {};
}

const RankTask kSilent{.name = "silent", .run = wait_until_told};

}  // namespace

TEST_CASE("while ranks say nothing people are told that the job goes on", "[threads]") {
  LaunchOptions options;
  options.ranks = 1;
  options.rank_mode = "thread";
  options.talk.still = [] {
    ++told;
    each_time.release();
  };
  TaskSpec spec{.task = &kSilent, .settings = {}, .options = "{}"};
  RecordSink sink;
  const JobOutcome outcome = run_task_job(options, spec, sink);
  INFO((outcome.error ? outcome.error->chain() : ""));
  CHECK(outcome.exit_code == 0);
  CHECK(told >= 2);
}

TEST_CASE("a thread rank that fails while the others start", "[threads]") {
  LaunchOptions options;
  options.ranks = 4;
  options.rank_mode = "thread";
  options.start_timeout_s = kStartSeconds;
  TaskSpec spec{.task = &kOneFails, .settings = {}, .options = "{}"};
  spec.settings.start_timeout_s = kStartSeconds;
  RecordSink sink;
  const JobOutcome outcome = run_task_job(options, spec, sink);
  REQUIRE(outcome.error);
  CHECK(outcome.error->code == ErrorCode::unavailable);
  CHECK(outcome.error->message == kReason);
  CHECK(outcome.error->rank == 1);
  CHECK(outcome.seconds < kStartSeconds / 4);
  REQUIRE(outcome.ranks.size() == 4);
  // And what the others say of it is that, not a connection that broke.
  for (const RankEnd& end : outcome.ranks) {
    REQUIRE(end.error);
    CHECK(end.error->code == ErrorCode::unavailable);
  }
}

}  // namespace job_threads_tests
