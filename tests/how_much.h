// How much of its sweeps a test program runs: by the one table of how_much.inc, and by
// COLLCTL_TEST_LEVEL, "commit" (also without it) or "nightly". Any thread.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

namespace collctl::test {

enum class Sweep {
#define DRAWN(name, commit, night) name,
#define EVERY(name, commit, night) name,
#include "tests/how_much.inc"
};

// Any other level ends the program: it would run less than was asked for.
inline bool nightly() {
  static const bool is = [] {
    const char* const set = std::getenv("COLLCTL_TEST_LEVEL");
    const std::string_view level = set == nullptr || *set == '\0' ? "commit" : set;
    if (level != "commit" && level != "nightly") {
      std::fprintf(stderr, "COLLCTL_TEST_LEVEL=%s is neither commit nor nightly\n", set);
      std::exit(2);
    }
    return level == "nightly";
  }();
  return is;
}

struct Amount {
  int commit, night;
};
inline constexpr Amount kAmounts[] = {
#define DRAWN(name, commit, night) {commit, night},
#define EVERY(name, commit, night) {commit, night},
#include "tests/how_much.inc"
};
inline int how_much(Sweep sweep) {
  const Amount& amount = kAmounts[int(sweep)];
  return nightly() ? amount.night : amount.commit;
}
// The count that is `at_night` in all of a drawn sweep, in as much of it as runs.
inline int share(Sweep sweep, int at_night) {
  return int(int64_t(at_night) * how_much(sweep) / kAmounts[int(sweep)].night);
}

// Takes every so many-th of what is enumerated, and the first of each kind in each of its kinds.
class Part {
 public:
  explicit Part(Sweep sweep) : nth_(how_much(sweep)) {}
  bool takes(std::initializer_list<int> kinds = {}) {
    bool first = false;
    int dimension = 0;
    for (const int kind : kinds) first |= met_.insert({dimension++, kind}).second;
    return ++seen_ % nth_ == 0 || first;
  }

 private:
  const int nth_;
  int seen_ = 0;
  std::set<std::pair<int, int>> met_;
};

}  // namespace collctl::test
