#include "base/cancel.h"

#include <atomic>
#include <thread>

#include "base/wait.h"
#include "tests/catch.h"

namespace cancel_tests {

using namespace collctl;
using base::Cancel;

namespace {

bool readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return *base::poll_fds({&p, 1}, Deadline::at_ns(0)) == 1;
}

}  // namespace

TEST_CASE("who is cancelled learns it by word, descriptor and call, whenever it looks",
          "[cancel]") {
  const auto off = std::make_shared<Cancel>();
  int early = 0, left = 0, late = 0;
  std::string said;
  const Cancel::Listener first(off, [&](const Error& why) { ++early, said = why.message; });
  {
    const Cancel::Listener gone(off, [&](const Error&) { ++left; });
  }
  const int fd = off->fd();
  REQUIRE(fd >= 0);
  CHECK(off->fd() == fd);
  CHECK_FALSE(readable(fd));
  CHECK_FALSE(off->why());
  CHECK(*off->word() == 0);

  off->call(Error(ErrorCode::failed, "the first reason"));
  off->call(Error(ErrorCode::failed, "another"));
  REQUIRE(off->why());
  CHECK(off->why()->message == "the first reason");
  CHECK(*off->word() != 0);
  CHECK(readable(fd));
  CHECK(readable(fd));
  CHECK(early == 1);
  CHECK(said == "the first reason");
  CHECK(left == 0);
  const Cancel::Listener after(off, [&](const Error&) { ++late; });
  CHECK(late == 1);
  const Cancel::Listener nobody(nullptr, [&](const Error&) { ++left; });
  CHECK(left == 0);

  Cancel unpolled;
  unpolled.call(Error(ErrorCode::failed, "why"));
  CHECK(readable(unpolled.fd()));
}

TEST_CASE("a listener that has gone is not called, whenever it went", "[cancel]") {
  for (int round = 0; round < 200; ++round) {
    const auto off = std::make_shared<Cancel>();
    std::atomic<bool> there{false};
    std::atomic<int> astray{0};
    std::thread caller([&] { off->call(Error(ErrorCode::failed, "why")); });
    for (int i = 0; i < 20; ++i) {
      there = true;
      {
        const Cancel::Listener listener(off, [&](const Error&) { astray += there ? 0 : 1; });
      }
      there = false;
    }
    caller.join();
    CHECK(astray == 0);
  }
}

TEST_CASE("who waits for what hears nothing is known as long as it does", "[cancel]") {
  CHECK_FALSE(base::Uninterruptible::any());
  {
    const base::Uninterruptible one;
    std::thread([] { const base::Uninterruptible other; }).join();
    CHECK(base::Uninterruptible::any());
  }
  CHECK_FALSE(base::Uninterruptible::any());
}

}  // namespace cancel_tests
