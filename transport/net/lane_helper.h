// A thread that serves some lanes of one socket connection, so that large slots do not depend on
// the progress thread's time. Made and joined by SocketConnection; sleeps in poll on its sockets
// and its own eventfd.
#pragma once
#include <atomic>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace collctl::transport {

class SocketConnection;

class LaneHelper {
 public:
  // Its thread runs on this NUMA node as far as it may; -1: anywhere.
  static Result<std::unique_ptr<LaneHelper>> create(int node);
  ~LaneHelper();
  void start(SocketConnection& connection, std::vector<int> lanes);
  void wake();  // after a push to one of its lanes
  bool serves(int lane) const;

 private:
  LaneHelper(base::Fd bell, int node) : bell_(std::move(bell)), node_(node) {}
  void run(SocketConnection& connection);
  void rest(SocketConnection& connection);

  base::Fd bell_;
  int node_;
  std::vector<int> lanes_;
  std::atomic<uint32_t> sleeps_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace collctl::transport
