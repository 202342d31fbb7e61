// One-sided operations on windows (runtime/window/user_window.h): one rank puts into and gets from
// another rank's window without the other's help; signals tell it that data has arrived.
//
// Between ranks of a team a put is a store and a get a load. Between hosts they are RDMA writes and
// reads where the network is IB and the window's memory can be registered with it
// (rdma.h); else a thread of each rank moves them over sockets (network.h).
//
// Order: a signal arrives after everything this rank has put to the same peer before it; a rank
// that has waited for the signal sees that data. Puts to different peers, and puts without a
// signal, are ordered by barrier() only, after which all puts of all ranks are in place; after
// flush() this rank's puts to one peer are. Concurrent puts to the same bytes: either may remain.
// Threads: one at a time, the communicator's. Buffers: may be used again when the call returns.
// Errors: usage for misuse (beyond the window, not shared, no such rank or signal), deadline naming
// the rank waited for, lost. After deadline or lost the peer cannot be used any more.
// On GPU ranks windows are GPU memory: team members copy through the GPU; between hosts adapters
// reach it, else it goes through memory of the hosts and over sockets, with the reason in why().
#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_work.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/services.h"
#include "runtime/one_sided/network.h"
#include "runtime/one_sided/rdma.h"
#include "runtime/one_sided/signal_board.h"
#include "runtime/window/memory.h"

namespace collctl::runtime {

// Bytes of the window of `rank`, from `offset` on.
struct WindowPlace {
  WindowPointer window;
  int rank = 0;
  uint64_t offset = 0;
};

class OneSided {
 public:
  // All ranks together; the communicator must outlive it. Opened on all ranks or on none, which end
  // at once with the reason of the one that failed; unless that was lack of memory
  // (unavailable) the communicator has failed. `fault` (tests): a put of that rank arrives
  // with a wrong bit.
  static Result<std::unique_ptr<OneSided>> open(Communicator& communicator, Deadline deadline,
                                                const kernels::Fault& fault = {});
  // Disconnects from the other hosts; waits a little at most. Operations must be over: barrier().
  ~OneSided();
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  // Lets ranks of other hosts put into and get from these windows of this rank; their memory is
  // held until they are withdrawn. All ranks together, the same windows.
  Status share(std::span<const WindowPointer> windows, Deadline deadline);
  Status withdraw(std::span<const WindowPointer> windows, Deadline deadline);

  Status put(const WindowPlace& to, const void* from, uint64_t bytes, Deadline deadline);
  Status get(const WindowPlace& from, void* to, uint64_t bytes, Deadline deadline);
  // Puts and adds one to the signal, in one call.
  Status put_signal(const WindowPlace& to, const void* from, uint64_t bytes, int signal,
                    Deadline deadline);
  // Adds one to signal 0..kSignals-1 of this rank at the peer. Does not wait.
  Status signal(int peer, int signal);
  // Waits until the peer's signal has arrived `times` times more than was waited for before.
  Status wait(int peer, int signal, uint64_t times, Deadline deadline);
  Status flush(int peer, Deadline deadline);
  Status barrier(Deadline deadline);

  // Data is moved by stores and loads.
  bool direct(int peer) const;
  // In words: "own", "window" (loads and stores), "NET/IB/0", "NET/Socket".
  std::string path(int peer) const;
  // Why it is not RDMA, where it goes over sockets; else empty.
  std::string why(int peer) const;

 private:
  explicit OneSided(Communicator& communicator)
      : communicator_(communicator), services_(communicator) {}
  Status connect_peers(Deadline deadline);
  Error fail_open(Error mine, Deadline deadline);
  Status connect(uint64_t number, Deadline deadline);
  Status connect_rdma(std::vector<OneSidedRdma::RdmaPeer> peers, Deadline deadline);
  std::string refuses_rdma(int peer) const;
  // Whether the peer's window is reached by RDMA; what took the other path before is in place.
  Status put_then(const WindowPlace& to, const void* from, uint64_t bytes, int signal,
                  Deadline deadline);
  Status put_remote(const WindowPlace& to, const void* from, uint64_t bytes, int signal,
                    Deadline deadline);
  Result<bool> take_route(const WindowPlace& to, Deadline deadline);
  OneSidedNetwork::WaitLimit wait_limit(Deadline deadline) const;
  Status check_window(const WindowPointer& window) const;
  Status check(const WindowPlace& place, uint64_t bytes) const;
  Status check_peer(int peer, int signal) const;
  Status raise(int peer, int line, Deadline deadline);
  Status await(int peer, int line, uint64_t times, Deadline deadline);
  Status move(void* to, const void* from, uint64_t bytes, Deadline deadline);
  Status copy_by(const transport::DeviceStream& stream, void* to, const void* from, uint64_t bytes,
                 Deadline deadline) const;
  Error named(Error error, int peer, Deadline deadline);

  Communicator& communicator_;
  CommunicatorServices services_;
  kernels::Fault fault_{};
  uint64_t puts_ = 0;
  SignalBoard board_;
  std::unique_ptr<OneSidedNetwork> network_;  // null: every peer is of the team
  std::unique_ptr<OneSidedRdma> rdma_;        // null: no peer's network is IB
  std::map<int, std::string> why_;            // peers that RDMA does not link
  std::vector<bool> by_rdma_;                 // by rank: where the last put went, and signals go
  transport::DeviceStream stream_;            // GPU ranks: the caller's copies
  transport::DeviceStream socket_stream_;     // and those of what goes over sockets
  std::vector<bool> team_;                    // by rank
  std::set<int> lost_peers_;                  // lost peers, whose reason was waited for
  std::map<uint64_t, WindowHold> shared_;     // memory that peers use over networks, by window
};

}  // namespace collctl::runtime
