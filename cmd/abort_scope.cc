#include "cmd/abort_scope.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

namespace collctl::cmd {
namespace {

struct Running {
  std::mutex mutex;
  std::vector<const AbortScope::Abort*> scopes;
  std::optional<Error> asked;
};

Running& running() {
  static Running all;
  return all;
}

}  // namespace

AbortScope::AbortScope(Abort abort) : abort_(std::move(abort)) {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  all.scopes.push_back(&abort_);
  if (all.asked) abort_(*all.asked);
}

AbortScope::~AbortScope() {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  std::erase(all.scopes, &abort_);
}

void abort_running(const Error& why) {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  if (!all.asked) all.asked = why;
  for (const auto* abort : all.scopes) (*abort)(why);
}

void clear_abort() {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  all.asked.reset();
}

}  // namespace collctl::cmd
