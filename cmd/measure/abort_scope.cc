#include "cmd/measure/abort_scope.h"

#include <mutex>

namespace collctl::cmd {
namespace {

using base::Cancel;

struct Running {
  std::mutex mutex;
  std::shared_ptr<Cancel> measurements = std::make_shared<Cancel>();
  std::shared_ptr<Cancel> starts = std::make_shared<Cancel>();
};

Running& running() {
  static Running all;
  return all;
}

std::shared_ptr<Cancel> measurements_cancel() {
  const std::lock_guard lock(running().mutex);
  return running().measurements;
}

}  // namespace

AbortScope::AbortScope(Abort abort) : listener_(measurements_cancel(), std::move(abort)) {}

std::shared_ptr<Cancel> start_cancel() {
  const std::lock_guard lock(running().mutex);
  return running().starts;
}

void abort_running(const Error& why) {
  measurements_cancel()->call(why);
  abort_starts(why);
}

void abort_starts(const Error& why) {
  start_cancel()->call(why);
}

void clear_abort() {
  const std::lock_guard lock(running().mutex);
  running().measurements = std::make_shared<Cancel>();
  running().starts = std::make_shared<Cancel>();
}

}  // namespace collctl::cmd
