#include "tests/fake_verbs/refusals.h"

#include <mutex>

#include "tests/fake_verbs/control.h"

namespace fake_verbs {
namespace {

struct Wish {
  std::string function;
  int code = 0, after = 0;
};

struct Calls {
  std::mutex mutex;
  std::map<std::string, int> counts;
  Wish wish;
};

Calls& all_calls() {
  static Calls calls;
  return calls;
}

}  // namespace

int refused(const char* function) {
  Calls& calls = all_calls();
  const std::lock_guard lock(calls.mutex);
  const int before = calls.counts[function]++;
  return calls.wish.function == function && calls.wish.after == before ? calls.wish.code : 0;
}

void fail(const std::string& function, int code, int after) {
  Calls& calls = all_calls();
  const std::lock_guard lock(calls.mutex);
  calls.counts.clear();
  calls.wish = {function, code, after};
}

std::map<std::string, int> calls() {
  Calls& calls = all_calls();
  const std::lock_guard lock(calls.mutex);
  return calls.counts;
}

}  // namespace fake_verbs
