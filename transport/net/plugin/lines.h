// The plugin's own connections of one end, one for each stream that is used ("lines"), from listen
// to close.
//
// A plugin's connect may need the peer to accept at the same time, and a rank makes all its send
// ends before its receive ends: so a receive end accepts on a thread of its own from describe() on,
// which ends when all lines are there, when it fails, or when the listener goes.
#pragma once
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "transport/net/net.h"
#include "transport/net/plugin/plugin.h"

namespace collctl::transport {

using PluginHandle = std::array<uint8_t, kNetPluginHandleBytes>;

// Closes what it holds.
class PluginLines {
 public:
  PluginLines(std::shared_ptr<NetPlugin> plugin, int device, Direction direction)
      : plugin_(std::move(plugin)), device_(device), direction_(direction) {}
  PluginLines(PluginLines&&) = default;
  PluginLines& operator=(PluginLines&&) = delete;
  ~PluginLines();

  const NetPlugin& plugin() const { return *plugin_; }
  const NetPluginCalls& calls() const;
  const NetPluginDevice& device() const;
  int device_index() const { return device_; }
  void*& operator[](int stream) { return lines_[size_t(stream)]; }
  Error error(const char* call, int code) const;  // of a connection: code lost

 private:
  std::shared_ptr<NetPlugin> plugin_;
  int device_;
  Direction direction_;
  std::array<void*, kernels::kProtocolCount> lines_{};
};

struct PluginWait {
  Deadline deadline;
  uint32_t* abort_word;
  std::string what;  // "rank 5 (host b1) to accept ..."
};

// Fills `lines` by the peer's handles. Errors: unavailable, deadline, lost (aborted).
Status connect_lines(PluginLines& lines, const NetEnd& end,
                     const std::array<PluginHandle, kernels::kProtocolCount>& handles,
                     const PluginWait& wait);

class PluginListener {
 public:
  PluginListener(PluginLines lines, const NetEnd& end) : lines_(std::move(lines)), end_(end) {}
  ~PluginListener();
  // Listens for every stream and begins to accept.
  Result<std::array<PluginHandle, kernels::kProtocolCount>> start();
  // All lines, once. Errors as above.
  Result<PluginLines> take(const PluginWait& wait);

 private:
  void run();
  bool accept_more(Status& failed);
  void stop();
  void close_listeners();

  PluginLines lines_;
  NetEnd end_;
  std::array<void*, kernels::kProtocolCount> listeners_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, done_ = false;
  Status outcome_;  // of the thread, when done_
  std::thread thread_;
};

}  // namespace collctl::transport
