// The proxy engine's inside, shared by proxy.cc (driving, block threads) and proxy_thread.cc (the
// thread, the listener). Nobody else includes it.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/links/proxy.h"

namespace collctl::runtime {

struct ProxyEngine::State {
  struct Driven {
    transport::Link* link;
    bool failed = false;
  };

  Options options;
  base::Fd bell, control;  // bell: blocks and helper threads; control: for the thread itself

  // The holder of `driver` moves the links and owns what stands below it.
  std::mutex driver;
  std::vector<Driven> links;
  bool armed = false;
  std::vector<pollfd> fds;

  std::atomic<int> link_count{0};
  std::atomic<int64_t> assisted_ns{0};      // when a block thread last drove
  std::atomic<bool> block_sleeps{false};    // a block thread sleeps on the links' descriptors
  std::atomic<bool> thread_in_poll{false};  // the engine's thread does
  std::atomic<int> operations{0};           // of GPUs, in flight
  int64_t moved_ns = 0;                     // when polling last paid off; the thread's
  int64_t listened_ns = 0;                  // when it last looked for callers; the thread's
  std::atomic<int> wanted_node{-1};         // for the thread to move to
  std::atomic<bool> closing{false}, stopping{false};
  uint32_t moves = 0;     // futex word: how often driving changed something
  uint32_t sleepers = 0;  // block threads that sleep on it

  std::vector<std::unique_ptr<base::AuthListener>> listeners;  // the thread's once it runs
  std::mutex acceptor;
  std::condition_variable accepted;
  std::set<uint64_t> expected;
  std::map<uint64_t, base::Accepted> connections;

  std::mutex start_mutex;
  std::thread thread;

  template <class Move>
  bool move_all(Move move);
  bool progress_all(const kernels::Fifo* awaited = nullptr);
  bool arm_all();
  void disarm_all();
  bool drained() const;
  void take_over();

  uint32_t moves_now() const;
  void note_moves();
  bool missed_moves() const;
  void announce_moves();
  void sleep_as_driver(Deadline until);
  // Sleeps until a descriptor is ready; a failure of poll itself is reported and bounded.
  void wait_on(std::vector<pollfd>& on, Deadline until);

  void ensure_thread();
  void end_thread();
  void thread_main();
  void keep_off();
  void drive();
  bool drive_busily();
  void handle_listeners();
  void add_listeners(std::vector<pollfd>& on) const;
  void deliver(base::Accepted connection);
  Status drain(Deadline deadline);
};

}  // namespace collctl::runtime
