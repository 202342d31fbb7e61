#include "tests/fake_verbs/refusals.h"

#include "tests/fake_verbs/control.h"
#include "tests/refusals.h"

namespace fake_verbs {
namespace {

collctl::test::Refusals& refusals() {
  static collctl::test::Refusals all;
  return all;
}

}  // namespace

int refused(const char* function) {
  return refusals().refused(function);
}

void fail(const std::string& function, int code, int after) {
  refusals().clear();
  refusals().fail(function, code, after);
}

std::map<std::string, int> calls() {
  return refusals().calls();
}

}  // namespace fake_verbs
