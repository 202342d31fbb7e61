#include "base/held_signals.h"

#include <csignal>

#include "tests/catch.h"

namespace held_signals_tests {

namespace {

volatile std::sig_atomic_t seen = 0;

}  // namespace

TEST_CASE("signals that end a program wait for the end of the scope") {
  struct sigaction count {
  }, before{};
  count.sa_handler = [](int) { seen = seen + 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    INFO(signal);
    seen = 0;
    REQUIRE(::sigaction(signal, &count, &before) == 0);
    {
      const collctl::base::HeldSignals held;
      ::raise(signal);
      CHECK(seen == 0);
    }
    CHECK(seen == 1);
    ::raise(signal);
    CHECK(seen == 2);
    REQUIRE(::sigaction(signal, &before, nullptr) == 0);
  }
}

}  // namespace held_signals_tests
