// Roots of the bootstrap: at a fixed address, gone, not there, several of them.
#include <algorithm>

#include "tests/asleep.h"
#include "tests/own_loopback.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace bootstrap_bootstrap_roots_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

TEST_CASE("ranks may come before the root of a fixed address", "[bootstrap]") {
  Address at;
  {
    const auto free = base::AuthListener::listen(collctl::test::own_loopback(), secret_of(1));
    REQUIRE(free.ok());
    at = (*free)->address();
  }
  const auto id = unique_id_at(at, "the token");
  REQUIRE(id.ok());
  std::vector<Status> outcomes(3);
  std::vector<std::thread> ranks;
  bool waited = false;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      std::unique_ptr<BootstrapRoot> root;
      if (rank == 0) {
        waited = test::wait_until_others_sleep();
        auto started = BootstrapRoot::start({id->root_address(), id->secret, true, {}, 0});
        if (!started) {
          outcomes[0] = std::move(started.error());
          return;
        }
        root = std::move(*started);
      }
      Bootstrap::Options o;
      o.id = *id;
      o.rank = rank;
      o.size = 3;
      o.interface = {"lo", loopback()};
      o.host = format("b{}", rank);
      auto b = Bootstrap::join(o);
      root.reset();  // no longer needed once rank 0 has joined
      outcomes[size_t(rank)] = b ? (*b)->finish(soon()) : Status(std::move(b.error()));
    });
  for (std::thread& t : ranks) t.join();
  CHECK(waited);
  require_all_ok(outcomes);
}

TEST_CASE("a fixed address that is taken is an error with a remedy", "[bootstrap]") {
  const auto taken = base::listen_tcp(loopback());
  REQUIRE(taken.ok());
  const auto root =
      BootstrapRoot::start({*base::local_address(taken->get()), secret_of(1), true, {}, 0});
  REQUIRE_FALSE(root.ok());
  CHECK(root.error().code == ErrorCode::unavailable);
  CHECK(root.error().hint.starts_with("another process listens on port "));
  // 192.0.2.0/24 is nobody's.
  const auto elsewhere =
      BootstrapRoot::start({*base::parse_address("192.0.2.77:4567"), secret_of(1), true, {}, 0});
  REQUIRE_FALSE(elsewhere.ok());
  CHECK(elsewhere.error().code == ErrorCode::unavailable);
  CHECK(elsewhere.error().hint.find("--join, COLLCTL_COMM_ID or MASTER_ADDR") != std::string::npos);
}

TEST_CASE("a root that dies while ranks wait is said to be gone", "[bootstrap]") {
  Job job({3});
  bool waited = false;
  std::thread death([&] {
    waited = test::wait_until_others_sleep();  // they have checked in
    job.roots[0].reset();
  });
  const auto outcomes = job.run([](Bootstrap&) { return Status(); }, {2});
  death.join();
  CHECK(waited);
  for (const size_t r : {0, 1}) {
    REQUIRE_FALSE(outcomes[r].ok());
    CHECK(outcomes[r].error().code == ErrorCode::lost);
    CHECK(says(outcomes[r].error(), "root at 127.0.0.1:"));
  }
}

TEST_CASE("a root that is not there is an error with its address", "[bootstrap]") {
  JobShape shape{2};
  shape.join_s = 0.4;
  Job job(shape);
  const std::string at = job.roots[0]->address().text();
  job.roots.clear();
  const auto outcomes = job.run([](Bootstrap&) { return Status(); });
  for (const Status& s : outcomes) {
    REQUIRE_FALSE(s.ok());
    CHECK(says(s.error(), at));
    CHECK(s.error().hint.find("rank 0") != std::string::npos);
  }
}

TEST_CASE("several roots agree on who is missing", "[bootstrap]") {
  JobShape shape{9, 3};
  shape.join_s = 5;
  const std::vector<int> absent =
      GENERATE(std::vector<int>{4}, std::vector<int>{0, 8}, std::vector<int>{3, 4, 5});
  Job job(shape);
  const auto outcomes = job.run([](Bootstrap&) { return Status(); }, absent);
  for (int r = 0; r < 9; ++r) {
    if (std::count(absent.begin(), absent.end(), r) != 0) continue;
    CAPTURE(r);
    REQUIRE_FALSE(outcomes[size_t(r)].ok());
    const Error& e = outcomes[size_t(r)].error();
    CAPTURE(e.chain());
    CHECK(e.code == ErrorCode::deadline);
    CHECK(says(e, format("{}/9 ranks checked in", 9 - absent.size())));
    CHECK(e.rank == absent[0]);
    for (const int rank : absent) CHECK(says(e, format("rank {}", rank)));
  }
}

}  // namespace bootstrap_bootstrap_roots_tests
