// The proxy engine: one per communicator. It moves the links that need the host (NET), and owns the
// listener where peers' network connections arrive (NetAcceptor).
//
// Driving: a block thread that waits calls assist() in its wait loop and assist_sleep() instead of
// sleeping on the fifo; then it moves the links itself and no other thread is in the path of a
// message. While block threads do so the engine's own thread keeps off; it takes over when none did
// for kHandsOffNs, or at once when it is told that something is left, and sleeps in poll on the
// links' descriptors and the bell when there is nothing to do. One thread drives at a time.
//
// GPUs poll by themselves and wake no thread: while the executor reports operations in flight
// (busy) the engine's thread looks at the links again and again, with short sleeps when nothing
// moves.
//
// Fifos of links added here carry the engine's eventfd as bell_fd. The communicator owns the links;
// remove() them (or stop()) before they die. Threads: any, except start, add, remove and stop,
// which are the thread's that sets up.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/auth.h"
#include "transport/transport.h"

namespace collctl::runtime {

class ProxyEngine : public transport::NetAcceptor {
 public:
  struct Options {
    Address listen_at;  // interface for NET connections, port 0 for any; family 0: no listener
    std::string interface = {};  // only connections through it are accepted; empty: any
    std::vector<Address> also_listen_at = {};  // of further interfaces
    base::Secret secret;
    uint32_t* abort_word = nullptr;  // nonzero: waits end early
    // The first error of each link, from whichever thread drives. Must not call back into the
    // engine.
    std::function<void(const Error&)> on_error;
  };
  static constexpr int64_t kHandsOffNs = 4'000'000;

  static Result<std::unique_ptr<ProxyEngine>> start(Options options);
  ~ProxyEngine() override;  // stops without draining when stop() was not called
  // Where the listener is, for PeerInfo; family 0 without one.
  Address address() const;
  // The same, and those of `also_listen_at` behind it.
  std::vector<Address> addresses() const;

  // Links that need no progress are ignored. `sends`: the link joins that one first, which is here
  // already.
  void add(transport::Link* link, transport::Link* sends = nullptr);
  void remove(transport::Link* link);

  void expect(uint64_t key) override;
  Result<Fd> take(uint64_t key, Deadline deadline, base::Session* session = nullptr) override;

  // Moves what can be moved now unless another thread is doing so; true when something moved.
  // `awaited`: what the caller waits to receive from, if it is that alone; null: anything.
  bool assist(const kernels::Fifo* awaited = nullptr);
  // Sleeps until a link's descriptor or a bell moves, at most until `until_ns` (monotonic), and
  // moves the links. May return early; the caller looks at its condition again. The caller must
  // have looked at its condition after its last assist() or assist_sleep(), or not at all.
  void assist_sleep(int64_t until_ns);
  // A block thread is about to wait for something other than a proxied fifo: the engine's thread
  // takes over at once.
  void hand_back();
  // The end of an operation in a block thread: sends what was published last and tells freed slots;
  // the engine's thread takes over if that is not all done.
  void finish_operation();
  // An operation of a block thread has failed: what the links were to receive into its memory goes
  // nowhere any more. Waits for who drives, 50 ms at most.
  void take_back();
  // An operation of a GPU begins (true) or is over (false); calls are counted. Any thread.
  void busy(bool begins);
  // The engine's thread runs on this NUMA node from now on, as far as it may: the GPU's, whose
  // pinned memory it reads and writes. Nothing changes for -1.
  void run_on_node(int node);
  // The same as plain functions, for CpuContext; the argument is the engine. assist_sleep_hook with
  // until_ns 0 is hand_back().
  static bool assist_hook(void* engine, const kernels::Fifo* awaited);
  static void assist_sleep_hook(void* engine, int64_t until_ns);
  static void take_back_hook(void* engine);

  // Until all that was published has been sent, a link has failed (on_error) or the communicator
  // was aborted; code deadline as of stop(). Nothing may publish meanwhile.
  Status flush(Deadline deadline);
  // From here on peers may close their ends without it being an error (after the last barrier).
  void expect_close();
  // Sends what is left (until the deadline; code deadline names what is stuck), says goodbye on
  // every link, ends the thread. Nothing may use the links' fifos any more.
  Status stop(Deadline deadline);

 private:
  ProxyEngine();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::runtime
