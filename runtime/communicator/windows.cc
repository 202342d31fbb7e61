// Users' buffers in windows: the communicator's part of it.
#include "runtime/communicator/state.h"

namespace collctl::runtime {
namespace {

// After these the ranks no longer know of each other how far they are.
bool ends_the_communicator(const Error& error) {
  return error.code == ErrorCode::deadline || error.code == ErrorCode::lost ||
         error.code == ErrorCode::interrupted || error.code == ErrorCode::defect;
}

}  // namespace

Result<std::vector<WindowPointer>> Communicator::register_windows(
    std::span<const WindowRange> ranges, Deadline deadline) {
  State& s = *state_;
  COLL_TRY(s.errors.status());
  if (s.finalized) return Error(ErrorCode::usage, "the communicator was finalized");
  COLL_TRY(s.turns.wait_until_connected(deadline));
  s.plans.forget();
  const std::lock_guard lock(s.bootstrap_mutex);
  auto windows = s.user_windows->register_windows(ranges, deadline);
  // Once: from the first registration on, operations in flight read it.
  if (s.flat.base == nullptr) s.flat = s.user_windows->flat();
  if (windows) return windows;
  if (s.user_windows->in_step() && !ends_the_communicator(windows.error())) return windows;
  if (windows.error().rank < 0) windows.error().rank = s.rank;
  // An error that another rank has found is nearer to the cause.
  s.errors.fail(windows.error(), true);
  return Error(s.errors.status().error());
}

Status Communicator::deregister_windows(std::span<const WindowPointer> windows, Deadline deadline) {
  State& s = *state_;
  // Failed operations have ended: no drain, so windows are given back after an error, too.
  if (s.gpu == nullptr || s.errors.status()) COLL_TRY_IN(s.drain(deadline), "deregister windows");
  s.plans.forget();
  return s.user_windows->deregister_windows(windows);
}

const UserWindows& Communicator::windows() const {
  return *state_->user_windows;
}

std::string Communicator::no_direct_path() const {
  const State& s = *state_;
  if (s.size == 1) return "one rank has no peers";
  if (int(s.user_windows->team().size()) != s.size) return "not all ranks map each other's memory";
  const bool mapped = s.gpu != nullptr ? s.shape.gpu_window : s.window != nullptr;
  if (!mapped) return "the ranks share no mapped memory: " + s.shape.no_window;
  if (s.gpu != nullptr && s.shape.window_direct == nullptr)
    return "the kernels in use do not work between users' windows";
  return {};
}

}  // namespace collctl::runtime
