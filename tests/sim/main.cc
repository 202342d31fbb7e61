// test_sim: jobs on simulated hosts against what is promised of their ends. The scripted cases,
// then runs drawn by seeds. Usage: test_sim [--case PATTERN] [--seeds N] [--first S] [--hosts H]
// [--seed S] [--trace]
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/cases.h"
#include "tests/sim/seeds.h"

namespace collctl::sim {

std::vector<Case>& all_cases() {
  static std::vector<Case> cases;
  return cases;
}

namespace {

// Those with the pattern in their title, by their own seeds or the one given. Returns how many
// failed.
int run_cases(const char* pattern, uint64_t only) {
  int failed = 0, ran = 0;
  for (const Case& one : all_cases()) {
    if (std::strstr(one.title, pattern) == nullptr) continue;
    ++ran;
    const uint64_t first = only != 0 ? only : 1, last = only != 0 ? only : uint64_t(one.seeds);
    for (uint64_t seed = first; seed <= last; ++seed) {
      Findings findings;
      one.run(seed, findings);
      if (findings.wrong().empty()) continue;
      ++failed;
      std::printf("FAILED: test_sim --case '%s' --seed %llu\n", one.title,
                  static_cast<unsigned long long>(seed));
      for (const std::string& what : findings.wrong()) std::printf("  %s\n", what.c_str());
    }
  }
  std::printf("%d cases, %d failures\n", ran, failed);
  return ran == 0 ? 1 : failed;
}

int usage() {
  std::fprintf(stderr,
               "usage: test_sim [--case PATTERN] [--seeds N] [--first S] [--hosts H] [--seed S] "
               "[--trace]\n");
  return 2;
}

int run_all(int argc, char** argv) {
  const char* pattern = nullptr;
  uint64_t seed = 0;
  SeedOptions seeds{.count = 0};
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("--trace")) {
      seeds.trace = true;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* value = argv[i + 1];
    if (is("--case"))
      pattern = value;
    else if (is("--seeds"))
      seeds.count = std::strtoull(value, nullptr, 10);
    else if (is("--first"))
      seeds.first = std::strtoull(value, nullptr, 10);
    else if (is("--hosts"))
      seeds.hosts = std::atoi(value);
    else if (is("--seed"))
      seed = std::strtoull(value, nullptr, 10);
    else
      return usage();
    ++i;
  }
  if (seed != 0 && pattern == nullptr) {
    seeds.first = seed;
    seeds.count = 1;
    return run_seeds(seeds) != 0;
  }
  int failed = run_cases(pattern != nullptr ? pattern : "", seed);
  if (pattern == nullptr && seeds.count > 0) failed += run_seeds(seeds);
  return failed != 0;
}

}  // namespace
}  // namespace collctl::sim

int main(int argc, char** argv) {
  // As main of the product does: a closed connection is an error, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  // Lines already printed are there also after a crash, in a file too.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return collctl::sim::run_all(argc, argv);
}
