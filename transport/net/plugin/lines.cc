#include "transport/net/plugin/lines.h"

#include <atomic>

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"

namespace collctl::transport {

namespace {

// Between two looks at what a plugin has not done yet: soon at first, then seldom.
constexpr int64_t kFirstPauseNs = 20'000, kLongestPauseNs = 2'000'000;

class Pause {
 public:
  int64_t next() {
    const int64_t now = pause_ns_;
    pause_ns_ = std::min(pause_ns_ * 2, kLongestPauseNs);
    return now;
  }

 private:
  int64_t pause_ns_ = kFirstPauseNs;
};

bool used(const NetEnd& end, int stream) {
  return end.streams[stream].window != 0;
}

bool aborted(const PluginWait& wait) {
  return wait.abort_word != nullptr &&
         std::atomic_ref<uint32_t>(*wait.abort_word).load(std::memory_order_acquire) != 0;
}

// Null: go on waiting.
Status may_wait(const PluginWait& wait) {
  if (aborted(wait)) return Error(ErrorCode::lost, "stopped because the communicator was aborted");
  if (wait.deadline.passed())
    return Error(ErrorCode::deadline, format("waits for {}", wait.what),
                 "check what that rank and its network are doing (-v there); --start-timeout "
                 "(COLLCTL_START_TIMEOUT) allows more time");
  return {};
}

// A close that fails changes nothing about what was done.
void note(const NetPlugin& plugin, const char* call, NetPluginCode code) {
  if (code == kNetPluginOk) return;
  COLL_INFO(net, "{}", net_plugin_error(plugin.entry(), call, code, ErrorCode::lost).message);
}

}  // namespace

const NetPluginCalls& PluginLines::calls() const {
  return net_calls(plugin_->entry());
}

const NetPluginDevice& PluginLines::device() const {
  return plugin_->session().devices()[size_t(device_)];
}

Error PluginLines::error(const char* call, int code) const {
  return net_plugin_error(plugin_->entry(), call, code, ErrorCode::lost);
}

PluginLines::~PluginLines() {
  if (plugin_ == nullptr) return;  // moved from
  for (void* line : lines_) {
    if (line == nullptr) continue;
    if (direction_ == Direction::send)
      note(*plugin_, "closeSend", calls().close_send(line));
    else
      note(*plugin_, "closeRecv", calls().close_receive(line));
  }
}

Status connect_lines(PluginLines& lines, const NetEnd& end,
                     const std::array<PluginHandle, kernels::kProtocolCount>& handles,
                     const PluginWait& wait) {
  Pause pause;
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    if (!used(end, s)) continue;
    PluginHandle handle = handles[size_t(s)];  // plugins keep what they have begun in it
    while (true) {
      COLL_ASSIGN(lines[s], lines.plugin().session().connect(lines.device_index(), handle.data()));
      if (lines[s] != nullptr) break;
      COLL_TRY(may_wait(wait));
      base::sleep_until(Deadline::after_ns(pause.next()));
    }
  }
  return {};
}

PluginListener::~PluginListener() {
  stop();
  close_listeners();
}

void PluginListener::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void PluginListener::close_listeners() {
  for (void*& listener : listeners_) {
    if (listener != nullptr)
      note(lines_.plugin(), "closeListen", lines_.calls().close_listener(listener));
    listener = nullptr;
  }
}

Result<std::array<PluginHandle, kernels::kProtocolCount>> PluginListener::start() {
  std::array<PluginHandle, kernels::kProtocolCount> handles{};
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    if (!used(end_, s)) continue;
    COLL_ASSIGN(listeners_[size_t(s)],
                lines_.plugin().session().listen(lines_.device_index(), handles[size_t(s)].data()));
  }
  thread_ = std::thread([this] { run(); });
  return handles;
}

void PluginListener::run() {
  Pause pause;
  Status failed;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const bool all = accept_more(failed);
    lock.lock();
    if (all || !failed) break;
    // Ended by stop(); the pause is only how soon the plugin is asked again.
    base::wait_for(changed_, lock, Deadline::after_ns(pause.next()), [&] { return stopping_; });
  }
  outcome_ = std::move(failed);
  done_ = true;
  changed_.notify_all();
}

// True when every stream has its line.
bool PluginListener::accept_more(Status& failed) {
  bool all = true;
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    if (!used(end_, s) || lines_[s] != nullptr) continue;
    auto line = lines_.plugin().session().accept(listeners_[size_t(s)]);
    if (!line) {
      failed = std::move(line.error());
      return false;
    }
    lines_[s] = *line;
    all = all && *line != nullptr;
  }
  return all;
}

Result<PluginLines> PluginListener::take(const PluginWait& wait) {
  constexpr int64_t kAbortLookMs = 50;
  {
    std::unique_lock lock(mutex_);
    while (!base::wait_for(changed_, lock, wait.deadline.earlier(Deadline::after_ms(kAbortLookMs)),
                           [&] { return done_; }))
      COLL_TRY(may_wait(wait));
  }
  stop();
  close_listeners();
  COLL_TRY(std::move(outcome_));
  return std::move(lines_);
}

}  // namespace collctl::transport
