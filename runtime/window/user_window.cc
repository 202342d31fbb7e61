#include "runtime/window/user_window.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "runtime/window/user_state.h"

namespace collctl::runtime {

UserWindow::~UserWindow() = default;

bool UserWindow::reaches(int rank) const {
  return std::binary_search(team_.begin(), team_.end(), rank);
}

Result<uint8_t*> UserWindow::peer(int rank, uint64_t offset, uint64_t bytes) const {
  if (!valid())
    return Error(ErrorCode::usage, format("window {} was deregistered", shadow_.number));
  const auto place = std::lower_bound(team_.begin(), team_.end(), rank);
  if (place == team_.end() || *place != rank)
    return Error(ErrorCode::usage,
                 format("rank {} does not map window {} of rank {}: it is not in its team (the "
                        "ranks of one host, or of one NVLink domain, that reach each other)",
                        shadow_.rank, shadow_.number, rank));
  if (offset > shadow_.bytes || bytes > shadow_.bytes - offset)
    return Error(ErrorCode::usage,
                 format("{} bytes at {} of window {}, which has {} bytes: range exceeds the window",
                        bytes, offset, shadow_.number, shadow_.bytes));
  return kernels::window_peer(shadow_, int(place - team_.begin()), offset);
}

UserWindows::UserWindows(Options options) : state_(std::make_unique<State>(std::move(options))) {}

// Windows that cannot be unmapped now go with the whole range.
UserWindows::~UserWindows() {
  for (const auto& window : state_->windows) (void)state_->retire(*window);
}

std::span<const int> UserWindows::team() const {
  return state_->team;
}

Result<std::vector<WindowPointer>> UserWindows::register_windows(
    std::span<const WindowRange> ranges, Deadline deadline) {
  State& s = *state_;
  State::Attempt attempt = s.prepare(ranges);
  COLL_ASSIGN(const auto registrations, s.gather(attempt.registration, deadline));
  if (!attempt.status) return std::move(attempt.status.error());
  COLL_TRY(check_registrations(registrations, s.o.teams, *s.o.peers));
  std::vector<WindowPointer> result;
  const auto& mine = attempt.registration.ranges;
  const bool all_known = std::all_of(mine.begin(), mine.end(),
                                     [](const RangeRegistration& r) { return r.known_as != 0; });
  if (!all_known) COLL_TRY(s.place_new(attempt, registrations, deadline));
  for (const auto& window : attempt.windows) {
    window->owner_ = this;
    if (window->valid())
      ++window->references_;
    else
      s.enter(window);
    result.push_back(window);
  }
  return result;
}

bool UserWindows::in_step() const {
  return state_->in_step;
}

Status UserWindows::deregister_windows(std::span<const WindowPointer> windows) {
  State& s = *state_;
  std::map<const UserWindow*, int> times;
  for (const WindowPointer& window : windows) {
    if (window == nullptr) return Error(ErrorCode::usage, "deregister a window that is null");
    const auto number = window->number();
    if (!window->valid())
      return Error(ErrorCode::usage, format("window {} was deregistered already", number));
    const auto found = std::find(s.windows.begin(), s.windows.end(), window);
    if (found == s.windows.end())
      return Error(ErrorCode::usage, format("window {} is of another communicator", number));
    if (++times[window.get()] > window->references_)
      return Error(ErrorCode::usage, format("window {} was registered {} times, not {}", number,
                                            window->references_, times[window.get()]));
  }
  Status outcome;
  for (const auto& [window, count] : times) {
    const auto found = std::find_if(s.windows.begin(), s.windows.end(),
                                    [&, w = window](const auto& each) { return each.get() == w; });
    (*found)->references_ -= count;
    if ((*found)->references_ > 0) continue;
    Status gone = s.retire(**found);
    if (!gone && outcome) outcome = std::move(gone);
    s.windows.erase(found);
  }
  return outcome;
}

WindowPointer UserWindows::find(const void* address, uint64_t bytes) const {
  const auto* const found = state_->find(address, bytes);
  return found != nullptr ? *found : nullptr;
}

uint8_t* UserWindows::flat_address(const void* address, uint64_t bytes) const {
  const auto* const found = state_->find(address, bytes);
  if (found == nullptr) return nullptr;
  const UserWindow& window = **found;
  return kernels::window_local(window.shadow(),
                               uint64_t(static_cast<const uint8_t*>(address) - window.address()));
}

kernels::FlatRange UserWindows::flat() const {
  if (state_->space == nullptr) return {};
  return {state_->space->base(), state_->space->stride()};
}

size_t UserWindows::count() const {
  return state_->windows.size();
}

WindowUsage UserWindows::usage() const {
  const State& s = *state_;
  WindowUsage usage;
  usage.windows = s.windows.size();
  usage.placements = s.placements.size();
  for (const auto& [key, placement] : s.placements)
    for (const uint64_t bytes : placement->bytes) usage.mapped_bytes += bytes;
  if (s.space != nullptr) usage.stride_bytes = s.space->stride();
  usage.largest_free = s.offsets.largest_free();
  return usage;
}

}  // namespace collctl::runtime
