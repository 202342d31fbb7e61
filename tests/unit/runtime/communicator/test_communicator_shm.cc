// A /dev/shm that is too small, in a mount namespace of its own: the sockets carry what does not
// fit, or, when shared memory is asked for by name, start-up says what is missing.
#include <sched.h>
#include <sys/mount.h>

#include <cstdlib>

#include "tests/skip.h"
#include "tests/unit/runtime/ranks.h"
#include "tests/unit/runtime/window/window_job.h"

namespace communicator_communicator_shm_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// Runs `body` in a child whose /dev/shm has `size`; what it returns, or "not allowed".
std::string with_small_shm(const char* size, std::string (*body)()) {
  return in_child([&]() -> std::string {
    const std::string option = format("size={}", size);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, option.c_str()) != 0)
      return "not allowed";
    return body();
  });
}

Result<Communicators> job(const CommOptions& options) {
  COLL_ASSIGN(const Address address, base::parse_address("127.0.0.1:0"));
  COLL_ASSIGN(const base::Secret secret, base::random_secret());
  COLL_ASSIGN(const auto root, BootstrapRoot::start({.listen_at = address, .secret = secret}));
  return Communicator::init_many(UniqueId::make(root->address(), secret), all_ranks(4), 4, options);
}

// The transports in use, and that the data is right over the mixture.
std::string mixture() {
  ::setenv("COLLCTL_P2P_DISABLE", "1", 1);
  CommOptions options;
  options.algo = "^one-shot,two-shot";  // which need no links
  auto made = job(options);
  if (!made) return made.error().chain();
  Complaints complaints;
  int shm = 0, net = 0;
  for (const auto& c : *made)
    for (const auto& link : c->links()) ++(link.via.starts_with("SHM") ? shm : net);
  on_all(4, [&](int r) {
    Communicator& c = *(*made)[size_t(r)];
    {
      Stream stream(c);
      for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
        const std::string wrong = run_case(c, stream, {collective, 50000, 0, false});
        if (!wrong.empty()) complaints.add(wrong);
      }
    }
    complaints.add(r, c.finalize(Deadline::after_seconds(60)));
  });
  return format("{}{} {}", complaints.text(), shm > 0 ? "shm" : "", net > 0 ? "net" : "");
}

std::string forced() {
  CommOptions options;
  options.transport = "shm";
  auto made = job(options);
  if (made) return "started";
  return format("{} {} | {}", int(made.error().code), made.error().chain(), made.error().hint);
}

}  // namespace

TEST_CASE("what does not fit into /dev/shm goes over sockets", "[communicator][may_skip]") {
  const std::string outcome = with_small_shm("2M", mixture);
  if (outcome == "not allowed") {
    return collctl::test::skip("a small /dev/shm needs a mount namespace");
  }
  CHECK(outcome == "shm net");
}

TEST_CASE("shared memory asked for by name and too small is unavailable",
          "[communicator][may_skip]") {
  const std::string outcome = with_small_shm("2M", forced);
  if (outcome == "not allowed") {
    return collctl::test::skip("a small /dev/shm needs a mount namespace");
  }
  INFO(outcome);
  CHECK(outcome.substr(0, 2) == "3 ");
  CHECK(outcome.find("of shared memory") != std::string::npos);
  CHECK(outcome.find("--shm-size") != std::string::npos);
}

}  // namespace communicator_communicator_shm_tests
