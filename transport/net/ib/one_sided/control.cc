// What the two ends of a one-sided link say beside the RDMA: windows, failures, the goodbye.
#include <algorithm>

#include "base/format.h"
#include "transport/net/ib/one_sided/link.h"

namespace collctl::transport {

namespace {

constexpr size_t kWindowsAtOnce = 128;  // so that a message, and their number, stay in their bounds
constexpr size_t kMostWindowWhy = 300;
constexpr size_t kMostRemoteWindows = 65536;

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
    ByteWriter w;
    w.put(uint8_t(first + count == windows.size() ? 1 : 0)).put(uint8_t(count));
    for (const LocalWindow& window : windows.subspan(first, count)) {
      w.put(window.number).put(window.address).put(window.bytes);
      w.put(uint8_t(window.memory != nullptr ? o_.uses.size() : 0));
      if (window.memory != nullptr)
        for (const size_t use : o_.uses) w.put(window.memory->remote_key(use));
      w.put_string(window.memory == nullptr && !told_why ? window.why.substr(0, kMostWindowWhy)
                                                         : "");
      told_why = told_why || window.memory == nullptr;
    }
    control_->push(IbControlKind::windows, w.bytes());
    first += count;
  } while (first < windows.size());
  look_at_control();
}

Status IbOneSidedLink::hear_windows(const IbMessage& message) {
  ByteReader r(message.body);
  const auto last = r.get<uint8_t>();
  const auto count = r.get<uint8_t>();
  for (int i = 0; i < count && r.ok(); ++i) {
    const auto number = r.get<uint64_t>();
    IbRemoteWindow window;
    window.address = r.get<uint64_t>();
    window.bytes = r.get<uint64_t>();
    const auto keys = r.get<uint8_t>();
    if (keys != 0 && keys != peer_rails_) r.fail();
    for (int k = 0; k < keys && r.ok(); ++k) window.keys.push_back(r.get<uint32_t>());
    std::string why = r.get_string(kMostWindowWhy);
    if (!why.empty()) why_ = std::move(why);
    if (keys == 0) window.why = why_;
    if (windows_.size() >= kMostRemoteWindows) r.fail();
    if (r.ok()) windows_[number] = std::move(window);
  }
  if (!r.ok() || !r.at_end())
    return Error(ErrorCode::lost, format("{}: its list of windows is malformed", name_));
  if (last != 0) ++rounds_;
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
  // What it said last counts more than that it is gone.
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
