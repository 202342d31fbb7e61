// The scripted cases of the simulation: each is one situation, told to its end, at several seeds.
// Findings are collected, not thrown. Threads: one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace collctl::sim {

class Findings {
 public:
  void expect(bool holds, const std::string& what) {
    if (!holds) wrong_.push_back(what);
  }
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  std::vector<std::string> wrong_;
};

struct Case {
  const char* title;
  void (*run)(uint64_t seed, Findings& findings);
  int seeds = 5;
};
std::vector<Case>& all_cases();

struct AddCase {
  explicit AddCase(const Case& added) { all_cases().push_back(added); }
};

}  // namespace collctl::sim

#define SIM_JOIN_INNER(a, b) a##b
#define SIM_JOIN(a, b) SIM_JOIN_INNER(a, b)
// SIM_CASE("title") { ... seed, findings ... }
#define SIM_CASE(title) SIM_CASE_NAMED(title, SIM_JOIN(case_, __COUNTER__))
#define SIM_CASE_NAMED(title, name)                                         \
  static void name(uint64_t seed, collctl::sim::Findings& findings);        \
  static const collctl::sim::AddCase SIM_JOIN(added_, name)({title, name}); \
  static void name([[maybe_unused]] uint64_t seed,                          \
                   [[maybe_unused]] collctl::sim::Findings& findings)
