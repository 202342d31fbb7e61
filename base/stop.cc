#include "base/stop.h"

#include <signal.h>

#include <atomic>

#include "base/clock.h"

namespace collctl::base {
namespace {

std::atomic<uint32_t> g_changes{0};     // odd: the clock stands
std::atomic<int64_t> g_stands_at{0};    // then: what it shows
std::atomic<int64_t> g_left_out_ns{0};  // by all stops that are over
std::atomic_flag g_stopping;

// A thread that was stopped between its looks at the two looks once more.
int64_t running_ns() {
  while (true) {
    const uint32_t changes = g_changes.load(std::memory_order_acquire);
    if (changes % 2 != 0) return g_stands_at.load(std::memory_order_acquire);
    const int64_t now = machine_ns() - g_left_out_ns.load(std::memory_order_acquire);
    if (g_changes.load(std::memory_order_acquire) == changes) return now;
  }
}

}  // namespace

void stop_with_clock() {
  other_clock = running_ns;
}

void stop_this_process() {
  if (g_stopping.test_and_set()) return;
  const int64_t from = machine_ns();
  g_stands_at = from - g_left_out_ns;
  ++g_changes;
  // To this thread, so that it does not run on while the others stop.
  ::raise(SIGSTOP);
  g_left_out_ns += machine_ns() - from;
  ++g_changes;
  g_stopping.clear();
}

}  // namespace collctl::base
