// One-sided operations between hosts: one connection to each rank that is not of the team, and one
// thread that moves all of them: what peers put is received in the window, what they get
// is sent from it, their signals go onto the board. Used by one_sided only.
//
// On a connection everything happens in the order in which it was sent, so a signal follows the
// puts before it, and the answer to a fence says that they are in place. The thread never waits for
// one peer: none can hold up the others, and two ranks that get from each other cannot block.
// Trust: peers belong to the job (base/auth), yet what they request is checked against the windows
// admitted here; a connection that asks for anything else is ended.
// Threads: put, get, signal and fence are the communicator's thread's, which they keep waiting;
// everything else is guarded.
#pragma once
#include <sys/uio.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/one_sided/signal_board.h"

namespace collctl::runtime {

struct NetworkPeer {
  int rank = -1;
  std::string name;  // "rank 3 (host b)"
  base::Fd fd;       // connected, authenticated, non-blocking
};

class OneSidedNetwork {
 public:
  struct WaitLimit {
    Deadline deadline;
    std::function<Status()> alive;  // what has broken elsewhere meanwhile
  };
  // A range of the peer's window.
  struct Range {
    uint64_t window = 0, offset = 0, bytes = 0;
  };

  // Copies to, from or between memory that this process cannot touch itself, and waits for it.
  using Copy = std::function<Status(void* to, const void* from, uint64_t bytes)>;

  // `copy`: of GPU ranks, whose data goes through memory of the host; called by either thread, one
  // at a time. Empty: all memory is the host's.
  static Result<std::unique_ptr<OneSidedNetwork>> start(std::vector<NetworkPeer> peers,
                                                        SignalBoard& board, Copy copy = {});
  // Says goodbye, sends what is left for a moment, ends the thread.
  ~OneSidedNetwork();

  // Peers may use this memory as window `number`, until it is dismissed.
  void admit(uint64_t number, uint8_t* address, uint64_t bytes);
  void dismiss(uint64_t number);

  // Returns when `data` may be used again.
  Status put(int peer, const Range& to, const void* data, const WaitLimit& limit);
  Status get(int peer, const Range& from, void* data, const WaitLimit& limit);
  Status signal(int peer, int signal);
  // All that was put to the peer is in place.
  Status fence(int peer, const WaitLimit& limit);
  // The error that has ended the connection to the peer, or that the peer has left; nothing of one
  // that has no connection.
  Status health(int peer);
  // The error of `rank` itself that has ended a connection: this rank's where it failed to copy.
  Status failure_of(int rank);

 private:
  static constexpr size_t kMostQueued = 4096;  // of answers and signals to one peer
  enum class Kind : uint32_t { put = 1, get, data, fence, fenced, signal, goodbye };
  struct Head {  // as it travels
    Kind kind = Kind::goodbye;
    uint32_t signal = 0;
    uint64_t window = 0, offset = 0, bytes = 0, ticket = 0;
  };
  static_assert(sizeof(Head) == 40);
  struct Outgoing {
    Head head;
    const uint8_t* body = nullptr;
    uint64_t moved = 0;        // of head and body together
    uint64_t done_ticket = 0;  // finished when it is sent; 0: no waiter
  };
  struct Connection {
    int rank = -1;
    std::string name;
    base::Fd fd;
    std::deque<Outgoing> out;
    Head in;
    uint64_t in_moved = 0;  // of the head
    uint8_t* in_at = nullptr;
    uint64_t in_left = 0;
    // With `copy`: what has arrived and is not in place yet; a part of the first outgoing body,
    // from `out_first` on.
    Bytes in_stage, out_stage;
    uint64_t in_staged = 0, out_first = 0, out_staged = 0;
    bool leaving = false;   // the peer has said goodbye
    bool unfenced = false;  // it was put to since the last fence
    std::optional<Error> broken;
  };
  struct Admitted {
    uint8_t* address;
    uint64_t bytes;
  };
  struct Wanted {  // an answer that a caller waits for
    Connection* from = nullptr;
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
    bool done = false;
  };

  OneSidedNetwork(SignalBoard& board, Copy copy) : board_(board), copy_(std::move(copy)) {}
  void serve();
  void turn(Connection& connection, short events);
  Status send(Connection& connection);
  Status receive(Connection& connection);
  Result<uint64_t> read_body(Connection& connection) const;  // 0: nothing there now
  Result<iovec> body_from(Connection& connection, uint64_t sent) const;
  Status begin(Connection& connection);  // a head has arrived
  void finish(Connection& connection);   // and its body
  Result<uint8_t*> admitted(const Connection& connection) const;
  void end(Connection& connection, Error why);
  static Error left_error(const Connection& connection);
  Result<Connection*> open_connection(int peer);
  Status post(Connection& connection, const Outgoing& what);
  Status wait_for(std::unique_lock<std::mutex>& lock, Connection& connection, uint64_t ticket,
                  const char* what, const WaitLimit& limit);

  SignalBoard& board_;
  const Copy copy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Connection> connections_;  // by rank; never added to while the thread runs
  std::map<uint64_t, Admitted> windows_;
  std::map<uint64_t, Wanted> wanted_;  // by ticket
  uint64_t tickets_ = 0;
  bool stopping_ = false;
  base::Fd bell_;
  std::thread thread_;
};

}  // namespace collctl::runtime
