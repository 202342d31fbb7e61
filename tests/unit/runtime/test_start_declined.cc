// Ranks that cannot take part: the others end at once with the reason, whenever they come. And what
// a rank is told that does not get through to its root.
#include "base/auth_proof.h"
#include "base/host_facts.h"
#include "runtime/communicator/communicator.h"
#include "tests/asleep.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace start_declined_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

const Error kNoGpu(ErrorCode::unavailable, "GPU 1 has fallen off the bus", "look at dmesg");

Status declined(const Job& job, int rank, int size, const Error& why) {
  return decline_start(job.ids[0], rank, size, format("b{}", rank), why, soon());
}

void check_told(const Status& ended, int rank, const std::string& why) {
  REQUIRE_FALSE(ended.ok());
  const Error& told = ended.error();
  CAPTURE(told.chain());
  CHECK(told.code == ErrorCode::unavailable);
  CHECK(told.rank == rank);
  CHECK(told.host == format("b{}", rank));
  CHECK(told.hint == kNoGpu.hint);
  CHECK(says(told, format("rank {} (host b{}) could not start: {}", rank, rank, why)));
}

}  // namespace

TEST_CASE("a rank that cannot take part ends those that are there and those that come",
          "[bootstrap][decline]") {
  Job job({4});
  const int64_t start = now_ns();
  std::vector<Status> outcomes;
  std::thread others([&] { outcomes = job.run([](Bootstrap&) { return Status(); }, {1, 3}); });
  // Among them, before or behind them.
  REQUIRE(declined(job, 1, 4, kNoGpu).ok());
  others.join();
  for (const size_t rank : {0, 2}) check_told(outcomes[rank], 1, kNoGpu.message);
  const auto late = Bootstrap::join(job.options(3));
  REQUIRE_FALSE(late.ok());
  check_told(late.error(), 1, kNoGpu.message);
  job.roots[0]->await_told(soon());
  CHECK(now_ns() - start < kAtOnceNs);
}

TEST_CASE("ranks that all cannot take part are all heard", "[bootstrap][decline]") {
  Job job({2});
  const int64_t start = now_ns();
  for (const int rank : {1, 0}) REQUIRE(declined(job, rank, 2, kNoGpu).ok());
  job.roots[0]->await_told(soon());
  CHECK(now_ns() - start < kAtOnceNs);
}

TEST_CASE("a root waits for ranks that have not been told, until it is told to end",
          "[bootstrap][decline]") {
  Job job({2});
  REQUIRE(declined(job, 1, 2, kNoGpu).ok());
  uint32_t cancelled = 0;
  std::atomic<bool> over = false;
  std::thread waiting([&] {
    job.roots[0]->await_told(soon(), &cancelled);
    over = true;
  });
  CHECK(test::wait_until_others_sleep());
  CHECK_FALSE(over);
  const int64_t start = now_ns();
  std::atomic_ref<uint32_t>(cancelled).store(1);
  waiting.join();
  CHECK(now_ns() - start < kAtOnceNs);
}

TEST_CASE("a rank too many changes nothing for those that run", "[bootstrap][decline]") {
  Job job({3});
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(b.barrier(soon()));
    if (b.rank() == 2) COLL_TRY(declined(job, 1, 3, kNoGpu));
    return b.finish(soon());
  });
  require_all_ok(outcomes);
}

TEST_CASE("a reason of any length arrives, cut", "[bootstrap][decline]") {
  Job job({2});
  Error why = kNoGpu;
  why.message = std::string(100'000, 'x');
  REQUIRE(declined(job, 1, 2, why).ok());
  const auto told = Bootstrap::join(job.options(0));
  REQUIRE_FALSE(told.ok());
  check_told(told.error(), 1, "xxxxxxxx");
}

TEST_CASE("a rank that nobody can hear fails", "[bootstrap][decline]") {
  Job job({2});
  job.roots.clear();
  const auto later = [](int64_t ms) { return Deadline::after_ms(ms); };
  CHECK_FALSE(decline_start(job.ids[0], 1, 2, "b1", kNoGpu, later(200)).ok());
  uint32_t cancelled = 1;
  const int64_t start = now_ns();
  CHECK_FALSE(decline_start(job.ids[0], 1, 2, "b1", kNoGpu, soon(), &cancelled).ok());
  CHECK(now_ns() - start < kAtOnceNs);
}

TEST_CASE("a rank declines only what the root has not heard of", "[bootstrap][decline]") {
  bool checks_in = false;
  CommOptions options;
  options.checks_in = [&] { checks_in = true; };
  options.start_timeout_s = 60;
  options.net = "nosuch";
  Job job({2});
  CHECK_FALSE(Communicator::init(job.ids[0], 1, 2, options).ok());
  CHECK_FALSE(checks_in);
  options.net.clear();
  REQUIRE(declined(job, 0, 2, kNoGpu).ok());
  CHECK_FALSE(Communicator::init(job.ids[0], 1, 2, options).ok());
  CHECK(checks_in);
}

TEST_CASE("a rank whose root lacks descriptors is told what to raise", "[bootstrap]") {
  Job job(
      {.join_s = 2});  // until which it tries again: the refusal is nobody's that has the secret
  auto listener = base::listen_tcp(loopback());
  REQUIRE(listener.ok());
  auto options = job.options(1);
  options.id = UniqueId::make(*base::local_address(listener->get()), secret_of(9));
  Status ended;
  std::thread rank([&] { ended = Bootstrap::join(options).error(); });
  pollfd p{listener->get(), POLLIN, 0};
  REQUIRE(*base::poll_fds({&p, 1}, soon()) == 1);
  const auto caller = base::accept_now(listener->get());
  REQUIRE(caller.ok());
  const base::auth::Challenge challenge{base::auth::kNoFilesMagic, 0, {}};
  REQUIRE(*base::write_some(caller->get(), &challenge, sizeof challenge) == sizeof challenge);
  rank.join();
  REQUIRE_FALSE(ended.ok());
  CAPTURE(ended.error().chain(), ended.error().hint);
  CHECK(ended.error().code == ErrorCode::unavailable);
  CHECK(says(ended.error(), "check-in at the root"));
  CHECK(ended.error().hint == "raise its open-file limit (ulimit -n)");
}

TEST_CASE("a rank with another secret is told so", "[bootstrap]") {
  Job job({2});
  auto options = job.options(1);
  options.id = UniqueId::make(job.ids[0].root_address(), secret_of(8));
  const auto ended = Bootstrap::join(options);
  REQUIRE_FALSE(ended.ok());
  CAPTURE(ended.error().chain(), ended.error().hint);
  CHECK(ended.error().code == ErrorCode::lost);
  CHECK(ended.error().hint.find("COLLCTL_TOKEN") != std::string::npos);
}

}  // namespace start_declined_tests
