// One rank as a process of its own (cmd/rank_main), with this test as its launcher.
#include "cmd/root_commands.h"

#include <unistd.h>

#include <deque>

#include "base/env.h"
#include "cmd/job/config.h"
#include "cmd/rank_tasks.h"
#include "launcher/local/local.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace rank_main_tests {

using namespace collctl;
using namespace collctl::cmd;
using launcher::EventKind;
using launcher::FrameType;

namespace {

constexpr const char* kRank = "this process is a rank";

class Rank {
 public:
  explicit Rank(const RankConfig& config) {
    launcher::RankProcess process{
        .argv = {"collctl", kRank}, .path = "/proc/self/exe", .environment = {}, .cores = {}};
    process.environment = base::environment_list();
    auto started = launcher::LocalJob::start({process});
    REQUIRE(started.ok());
    job_ = std::move(*started);
    say(FrameType::config, base::bytes_of(config.to_json()));
  }
  void say(FrameType type, ByteView payload) {
    REQUIRE(job_->send(0, type, payload, Deadline::after_seconds(30)).ok());
  }
  // The next that it says of this type; its end with anything else.
  Error error(FrameType type) {
    const launcher::Event event = next();
    REQUIRE(event.kind == EventKind::frame);
    REQUIRE(event.frame.type == type);
    return launcher::decode_error(event.frame.payload);
  }
  int exit_code() {
    const launcher::Event event = next();
    REQUIRE(event.kind == EventKind::exited);
    return event.exit_code;
  }

 private:
  launcher::Event next() {
    const Deadline deadline = Deadline::after_seconds(60);
    while (true) {
      while (events_.empty() || events_.front().kind == EventKind::line) {
        REQUIRE_FALSE(deadline.passed());
        if (!events_.empty()) {
          events_.pop_front();
          continue;
        }
        auto more = job_->wait(deadline);
        REQUIRE(more.ok());
        events_.insert(events_.end(), more->begin(), more->end());
      }
      launcher::Event event = std::move(events_.front());
      events_.pop_front();
      return event;
    }
  }

  std::unique_ptr<launcher::LocalJob> job_;
  std::deque<launcher::Event> events_;
};

}  // namespace

// Run by the others alone.
TEST_CASE(kRank, "[.]") {
  ::_exit(rank_main());
}

TEST_CASE("a rank that waits for the first one's id is told why nobody goes on", "[rank_main]") {
  const TaskSpec task = task_of(testing::small_bench(kernels::Collective::all_reduce));
  RankConfig config;
  config.rank = 1;
  config.size = 2;
  config.task = task.task->name;
  config.settings = task.settings;
  config.options = task.options;
  config.shrinks = true;
  Rank rank(config);
  const Error lost(ErrorCode::lost, "rank 0 was killed by signal 9");
  rank.say(FrameType::halt, launcher::encode_error(lost));
  const Error left = rank.error(FrameType::broken);
  CHECK(left.code == ErrorCode::lost);
  CHECK(left.message == lost.message);
  // It waits for a roster, until it is told to end.
  const Error enough(ErrorCode::interrupted, "the job was ended");
  rank.say(FrameType::abort, launcher::encode_error(enough));
  CHECK(rank.error(FrameType::error).message == enough.message);
  CHECK(rank.exit_code() == int(ErrorCode::interrupted));
}

}  // namespace rank_main_tests
