// The bootstrap's own thread in each rank: it answers handshakes at the rank's listener, holds the
// control connections to both ring neighbours, the line to the root during start-up, and passes
// abort notices on. It sleeps in poll. The rank's thread (Bootstrap) talks to it through the
// functions below and polls wake_fd() beside its own descriptors. Internal to the bootstrap.
//
// Threads: the public functions may be called by any thread; the callback given to watch() is
// called by the service's thread, without locks held.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/wire.h"

namespace collctl::runtime::boot {

using AbortNotice = Bootstrap::AbortNotice;

struct Incoming {  // a connection that a peer opened to this rank
  Purpose purpose{};
  int from = -1;
  SealedFd fd;
};

class Service {
 public:
  struct Setup {
    int rank = 0, size = 1, groups = 1;
    std::unique_ptr<base::AuthListener> listener;
    SealedFd root_line;  // empty: the root called back and keeps no line
    FrameReader root_reader;
    std::string root_text;
    RankAt next, previous;
  };
  static Result<std::unique_ptr<Service>> start(Setup setup);
  ~Service();  // ends the thread; neighbours without a bye see a lost rank

  int wake_fd() const { return news_.get(); }  // readable when there may be news
  void clear_news();
  std::vector<Incoming> take_incoming();
  // A notice from elsewhere is visible once the callback has returned: a call that it ends finds
  // its consequences complete.
  std::optional<AbortNotice> notice();
  bool has_previous();

  void adopt_next(SealedFd control);
  void report_connected();  // to the root: from here on its end is no failure
  void leave_root();
  void watch(std::function<void(const AbortNotice&)> on_event);
  void announce(const Error& error);
  void cancel();  // the rank's thread stops waiting; no other rank is told
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  void say_bye();
  bool byes_received();

 private:
  enum Side { kNext, kPrevious, kSides };
  struct Control {
    SealedFd fd;
    FrameReader reader;
    RankAt peer;
    bool bye = false;
  };
  explicit Service(Setup setup);
  void run();
  void add_interest(std::vector<pollfd>& fds);
  void handle_ready(const std::vector<pollfd>& fds);
  void accept_peers();
  void adopt_control(Side side, SealedFd fd);
  void read_control(Side side);
  void read_root();
  void close_root();
  // Keeps the first notice and passes it on, except to where it came from.
  void raise(AbortNotice notice, int from_side);
  void send_notice(Side side);
  void call_watcher();
  static void signal(const Fd& event);

  std::atomic<bool> cancelled_{false};
  const int rank_, size_, groups_;
  const std::string root_text_;
  std::unique_ptr<base::AuthListener> listener_;  // the service's thread only
  Fd news_, work_;  // eventfds: for the rank's thread, for the service's thread
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards what follows
  Control control_[kSides];
  SealedFd root_line_;
  FrameReader root_reader_;
  bool connected_ = false, leaving_ = false;
  std::vector<Incoming> incoming_;
  std::optional<AbortNotice> notice_;
  bool notice_is_ours_ = false, told_ = false, watcher_knows_ = false;
  std::function<void(const AbortNotice&)> on_event_;
  std::thread thread_;
};

}  // namespace collctl::runtime::boot
