// A thread that serves some lanes of one socket connection, so that large messages do not depend on
// the progress thread's time. Made and joined by SocketConnection. While messages are small the
// connection's driver serves the lanes, as it would wait for this thread to wake up; it hands them
// over with the first large one, and has them again when nothing has moved for a while. Sleeps in
// poll on its sockets, while it serves them, and its own eventfd.
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
  void take_over();  // the driver's: from now on this thread moves what its lanes carry
  // It does. False: the driver does, and sees all that this thread has left.
  bool serving() const { return serving_.load(std::memory_order_acquire); }
  void wake();  // after a push to one of its lanes
  bool serves(int lane) const;

 private:
  LaneHelper(base::Fd bell, int node) : bell_(std::move(bell)), node_(node) {}
  void run(SocketConnection& connection);
  void rest(SocketConnection& connection);
  void give_back(SocketConnection& connection);

  base::Fd bell_;
  int node_;
  std::vector<int> lanes_;
  std::atomic<uint32_t> sleeps_{0};
  std::atomic<bool> stop_{false}, serving_{false};
  std::thread thread_;
};

}  // namespace collctl::transport
