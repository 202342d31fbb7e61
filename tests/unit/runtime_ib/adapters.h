// The common parts of jobs over the adapters of tests/fake_verbs.
#pragma once
#include "base/env.h"
#include "tests/fake_verbs/control.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace collctl::runtime::testing {

// Adapters for one test; everything must be given back, and nothing be misused.
struct Adapters {
  explicit Adapters(const fake_verbs::Setup& setup) {
    REQUIRE(fake_verbs::set_up(setup) == "");
    fake_verbs::clear_faults();
  }
  explicit Adapters(const std::string& devices) : Adapters(fake_verbs::Setup{.devices = devices}) {}
  ~Adapters() {
    CHECK(fake_verbs::counts().text() == fake_verbs::Counts{}.text());
    CHECK(fake_verbs::violations() == std::vector<std::string>{});
  }
};

// For jobs with many links, which are about who sends where: at their usual sizes the buffers of
// all links are gigabytes, and most of such a test's time is their zeroing.
struct SmallBuffers {
  base::ScopedVariable simple{"COLLCTL_BUFFSIZE", "256K"};
  base::ScopedVariable ll128{"COLLCTL_LL128_BUFFSIZE", "81920"};
};

inline CommOptions only_ib() {
  CommOptions options;
  options.transport = "net";
  options.net = "ib";
  options.algo = "^one-shot,two-shot";  // which need no links
  return options;
}

}  // namespace collctl::runtime::testing
