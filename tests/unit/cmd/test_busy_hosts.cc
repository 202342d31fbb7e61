// When others than the ranks had a host's processors during a run, and how that is said.
#include "cmd/measure/fields.h"
#include "tests/catch.h"

namespace busy_hosts_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// Two seconds of a machine of four processors.
struct Watched {
  base::HostLoad before{.at_ns = 1'000'000'000, .processors = 4, .busy_s = 100};
  base::HostLoad after{.at_ns = 3'000'000'000, .processors = 4, .busy_s = 100};
};

}  // namespace

TEST_CASE("other processes count where they and the ranks are more than the cores", "[cmd]") {
  Watched w;
  w.after.busy_s = 108;  // all of it
  CHECK(busy_reason(w.before, w.after, 4, 8) == "");
  CHECK(busy_reason(w.before, w.after, 4, 5) ==
        "other processes took 1.5 of 4 cores beside 4 ranks");
  CHECK(busy_reason(w.before, w.after, 1, 2) == "");  // they have cores of their own: 3 + 1
  CHECK(busy_reason(w.before, w.after, 2, 2) ==
        "other processes took 3.0 of 4 cores beside 2 ranks");
  CHECK(busy_reason(w.before, w.after, 4, 7.8) == "");  // what every system does besides
  w.after.at_ns = w.before.at_ns + 100'000'000;
  CHECK(busy_reason(w.before, w.after, 4, 0) == "");  // too short to say
}

TEST_CASE("steal and throttling during a run are told, what was before is not", "[cmd]") {
  Watched w;
  w.before.stolen_s = w.after.stolen_s = 50;
  w.before.throttled_times = w.after.throttled_times = 7;
  w.before.throttled_s = w.after.throttled_s = 9;
  CHECK(busy_reason(w.before, w.after, 4, 0) == "");
  w.after.stolen_s += 2;
  w.after.throttled_times += 3;
  w.after.throttled_s += 0.5;
  CHECK(busy_reason(w.before, w.after, 4, 0) ==
        "the hypervisor took 25 % of the cores' time (steal); its cgroup was throttled 3 times, "
        "0.50 s in 2.00 s");
}

}  // namespace busy_hosts_tests
