// One process's part of the stand-in: the objects behind the handles, and the engine, a thread that
// does what happens without a call: retries, delays, events, requests that wait. Objects of a
// process that forked are foreign to the child: each call on them fails and is written down.
#pragma once
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/fake_verbs/control.h"
#include "tests/fake_verbs/mover.h"
#include "tests/fake_verbs/world.h"

namespace fake_verbs {

struct QueuePair;

struct Context {
  ibv_context base;
  int device;
  int event_fd;            // the end that the engine writes
  uint32_t fork_serial;    // of the process that opened it
  std::atomic<int> users;  // domains, queues, channels
};
struct Domain {
  ibv_pd base;
  uint32_t number;
  std::atomic<int> users;
};
struct MemoryRegion {
  ibv_mr base;
  int index;
};
struct Channel {
  ibv_comp_channel base;
  int write_fd;
};
struct Queue {
  ibv_cq base;
  int index;
  uint32_t serial;
  std::atomic<int> users;
  uint32_t comp_got = 0, async_got = 0;  // events that the application has, by base.mutex
};

// The content of a channel's pipe.
struct ChannelNotice {
  uint64_t queue;
  uint32_t serial;
};

// The engine of this process.
class Engine {
 public:
  explicit Engine(int process);
  ~Engine();  // ends the thread
  void add(QueuePair* pair);
  void remove(QueuePair* pair);  // waits until the engine has its hands off it
  void add(Queue* queue);
  void remove(Queue* queue);
  void add(Context* context);
  void remove(Context* context);
  // An event that was read is handed out, and counted, only while its object is still there.
  bool claim(const Event& event, const Context& context);
  Queue* claim(const ChannelNotice& notice);

 private:
  void run();
  uint64_t advance_pairs();  // returns when the next one is due
  void pass_events();
  bool concerns(const Event& event, const Context& context) const;
  void notify_channels();

  const int process_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // of the sets below
  std::condition_variable hands_off_;
  std::set<QueuePair*> pairs_;
  QueuePair* busy_ = nullptr;
  std::set<Queue*> queues_;
  std::set<Context*> contexts_;
  std::thread thread_;
};

class Local {
 public:
  // Requests that go by way of another process are in order for the threads of this one all the
  // same: who posts counts up the one, who polls reads the other; the mover does the opposite
  // around each job that comes from elsewhere.
  std::atomic<uint64_t> offered{0}, moved{0};
  Local();
  ~Local();
  const Setup& setup() const { return setup_; }
  void set_setup(const Setup& setup) { setup_ = setup; }
  int open_contexts() const { return contexts_.load(); }
  // A context comes or goes; the first brings the engine, the last ends it.
  int enter();  // the process's row, or -1: the table is full
  void leave();
  int process() const { return process_; }
  Engine& engine() { return *engine_; }
  void need_mover();  // from now on there is one
  uint32_t fork_serial() const { return fork_serial_.load(); }
  void forked();

 private:
  Setup setup_;
  std::mutex mutex_;
  std::atomic<int> contexts_{0};
  int process_ = -1;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Mover> mover_;
  std::atomic<uint32_t> fork_serial_{1};
};
Local& local();

// False, with a line in violations(), where the context was opened before a fork.
bool ours(const ibv_context* context, const char* call);
inline Context* context_of(ibv_context* base) {
  return reinterpret_cast<Context*>(base);
}

Process& process_row(int index);
inline Process& my_row() {
  return process_row(local().process());
}
bool process_lives(int index);
void ring(int process);  // wakes that process's engine
// An asynchronous event for a queue pair or completion queue of a process, or a port of its device.
void tell(int process, const Event& event);

// Completion queues, for every process.
void push(int queue, const Completion& completion);
// Those of a queue pair that goes away.
void forget(int queue, uint64_t pair);

}  // namespace fake_verbs
