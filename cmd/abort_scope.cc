#include "cmd/abort_scope.h"

#include <mutex>

namespace collctl::cmd {
namespace {

using base::CallOff;

struct Running {
  std::mutex mutex;
  std::shared_ptr<CallOff> measurements = std::make_shared<CallOff>();
  std::shared_ptr<CallOff> starts = std::make_shared<CallOff>();
};

Running& running() {
  static Running all;
  return all;
}

std::shared_ptr<CallOff> measurements_call_off() {
  const std::lock_guard lock(running().mutex);
  return running().measurements;
}

}  // namespace

AbortScope::AbortScope(Abort abort) : listener_(measurements_call_off(), std::move(abort)) {}

std::shared_ptr<CallOff> start_call_off() {
  const std::lock_guard lock(running().mutex);
  return running().starts;
}

void abort_running(const Error& why) {
  measurements_call_off()->call(why);
  abort_starts(why);
}

void abort_starts(const Error& why) {
  start_call_off()->call(why);
}

void clear_abort() {
  const std::lock_guard lock(running().mutex);
  running().measurements = std::make_shared<CallOff>();
  running().starts = std::make_shared<CallOff>();
}

}  // namespace collctl::cmd
