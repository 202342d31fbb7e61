// Control messages between the two ends of a one-sided link: windows, failures, the goodbye.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/record.h"
#include "transport/net/ib/one_sided/link.h"

namespace collctl::transport {

namespace {

constexpr size_t kWindowsAtOnce = 128;  // so that a message, and their number, stay in their bounds
constexpr size_t kMostWindowWhy = 300;
constexpr size_t kMostRemoteWindows = 65536;

struct NumberedWindow {
  uint64_t number = 0;
  IbRemoteWindow window;
};
struct WindowList {
  static constexpr const char* kRecord = "list of windows";
  bool last = true;  // of this round
  std::vector<NumberedWindow> windows;
};

void fields(Record& io, NumberedWindow& each) {
  io.field("number", each.number);
  io.field("address", each.window.address);
  io.field("bytes", each.window.bytes);
  io.field("keys", each.window.keys, kIbMaxRails);
  io.field("why", each.window.why, kMostWindowWhy);
}

void fields(Record& io, WindowList& list) {
  io.field("last", list.last);
  io.field("windows", list.windows, kWindowsAtOnce);
}

}  // namespace

const IbRemoteWindow* IbOneSidedLink::window(uint64_t number) const {
  const auto found = windows_.find(number);
  return found == windows_.end() ? nullptr : &found->second;
}

std::string IbOneSidedLink::refused_window() const {
  for (const auto& [number, window] : windows_)
    if (window.keys.empty()) return format("window {} of {}: {}", number, name_, window.why);
  return "";
}

// Messages of some windows each; the last one ends the round. One reason stands for all that
// follow.
void IbOneSidedLink::tell_windows(std::span<const LocalWindow> windows) {
  if (error_ || !control_) return;
  size_t first = 0;
  bool told_why = false;
  do {
    const size_t count = std::min(kWindowsAtOnce, windows.size() - first);
    WindowList list{.last = first + count == windows.size(), .windows = {}};
    for (const LocalWindow& window : windows.subspan(first, count)) {
      auto& [number, told] = list.windows.emplace_back(NumberedWindow{window.number, {}});
      told.address = window.address;
      told.bytes = window.bytes;
      if (window.memory != nullptr)
        for (const size_t use : o_.uses) told.keys.push_back(window.memory->remote_key(use));
      else if (!std::exchange(told_why, true))
        told.why = window.why.substr(0, kMostWindowWhy);
    }
    control_->push(IbControlKind::windows, encoded(list));
    first += count;
  } while (first < windows.size());
  look_at_control();
}

Status IbOneSidedLink::hear_windows(const IbMessage& message) {
  auto list = decoded<WindowList>(message.body);
  bool sound = list.ok();
  for (size_t i = 0; sound && i < list->windows.size(); ++i) {
    auto& [number, window] = list->windows[i];
    sound = (window.keys.empty() || window.keys.size() == peer_rails_) &&
            windows_.size() < kMostRemoteWindows;
    if (!window.why.empty()) why_ = window.why;
    if (window.keys.empty()) window.why = why_;
    if (sound) windows_[number] = std::move(window);
  }
  if (!sound) return Error(ErrorCode::lost, format("{}: its list of windows is malformed", name_));
  if (list->last) ++rounds_;
  return {};
}

Status IbOneSidedLink::hear(const IbMessage& message) {
  switch (message.kind) {
    case IbControlKind::windows:
      return hear_windows(message);
    case IbControlKind::lanes_lost:
      return hear_lanes_lost(message);
    case IbControlKind::failed:
      told_ = true;
      return failure_of_peer(message.body, name_, o_.spec.self.rank);
    default:
      return Error(ErrorCode::lost, format("{}: a message that is invalid for puts", name_));
  }
}

void IbOneSidedLink::look_at_control() {
  if (error_ || !control_) return;
  auto pumped = control_->pump();
  // The peer's last messages matter more than the broken connection.
  while (auto message = control_->next())
    if (Status heard = hear(*message); !heard) return fail(std::move(heard.error()));
  if (pumped) return;
  Error error = std::move(pumped.error());
  error.code = ErrorCode::lost;
  error.message = format("{}: {}", name_, error.message);
  fail(std::move(error));
}

// It may be gone itself: then nothing is to be told.
void IbOneSidedLink::tell_failure() {
  if (!control_ || told_ || left()) return;
  control_->push(IbControlKind::failed, encode_failure(*error_));
  (void)control_->pump();
}

void IbOneSidedLink::say_goodbye() {
  if (error_ || !control_) return;
  control_->push(IbControlKind::goodbye);
  look_at_control();
}

}  // namespace collctl::transport
