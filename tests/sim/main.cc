// test_sim: jobs on simulated hosts, by seeds, against what is promised of their ends.
// Usage: test_sim [--case PATTERN] [--seed S]
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/cases.h"

namespace collctl::sim {

std::vector<Case>& all_cases() {
  static std::vector<Case> cases;
  return cases;
}

}  // namespace collctl::sim

using namespace collctl::sim;

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const char* pattern = "";
  uint64_t only = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--case") == 0) pattern = argv[i + 1];
    if (std::strcmp(argv[i], "--seed") == 0) only = std::strtoull(argv[i + 1], nullptr, 10);
  }
  int failed = 0;
  for (const Case& one : all_cases()) {
    if (std::strstr(one.title, pattern) == nullptr) continue;
    for (uint64_t seed = only ? only : 1; seed <= (only ? only : uint64_t(one.seeds)); ++seed) {
      Findings findings;
      one.run(seed, findings);
      if (findings.wrong().empty()) continue;
      ++failed;
      std::printf("FAILED: %s (test_sim --case '%s' --seed %llu)\n", one.title, one.title,
                  static_cast<unsigned long long>(seed));
      for (const std::string& what : findings.wrong()) std::printf("  %s\n", what.c_str());
    }
  }
  std::printf("%zu cases, %d failed\n", all_cases().size(), failed);
  return failed != 0;
}
