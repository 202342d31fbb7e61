// One-sided operations over the adapters of tests/fake_verbs. Ranks are threads, each a team of its
// own.
#pragma once
#include "tests/unit/runtime/one_sided/one_sided_job.h"
#include "tests/unit/runtime_ib/adapters.h"

namespace collctl::runtime::testing {

inline CommOptions one_sided_over_ib() {
  CommOptions options = only_ib();
  options.window_stride = 64 << 20;
  return options;
}

using Body = std::function<Status(OneSidedJob&, Complaints&)>;
inline std::string over_ib(int n, uint64_t bytes, const Body& body) {
  return with_one_sided(n, one_sided_over_ib(), bytes, body);
}

}  // namespace collctl::runtime::testing
