// One-sided operations between hosts over NET/IB (transport/net/ib/one_sided/one_sided.h): the
// waiting, and the thread that serves what other ranks do here. Used by one_sided only, which goes
// over sockets (network.h) where a link or a window cannot use RDMA.
//
// Data goes from the caller's buffer where that lies in a shared window of this rank, else through
// memory of our own that adapters know. A call returns only when nothing uses the caller's memory
// any more, with an error as well.
// Threads: as OneSidedNetwork. A mutex guards all; the thread sleeps without it.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/one_sided/network.h"
#include "transport/net/ib/one_sided/one_sided.h"

namespace collctl::runtime {

class OneSidedRdma {
 public:
  using WaitLimit = OneSidedNetwork::WaitLimit;
  using Range = OneSidedNetwork::Range;

  struct RdmaPeer {
    transport::LinkSpec spec;
    base::Fd control;  // connected, authenticated, non-blocking
  };
  struct Options {
    std::vector<RdmaPeer> peers;
    transport::Services services;
    SignalBoard* board = nullptr;
    // Between a caller's buffer and memory of ours; the caller's may be a GPU's.
    std::function<Status(void* to, const void* from, uint64_t bytes, Deadline deadline)> copy;
  };
  // Both ends of every pair of `peers` together. Peers that cannot be linked are not an error:
  // `refused` says why, at both ends.
  static Result<std::unique_ptr<OneSidedRdma>> start(Options options, Deadline deadline,
                                                     std::map<int, std::string>& refused);
  ~OneSidedRdma();  // says goodbye when all that was started has ended; waits a little at most

  struct Shared {
    uint64_t number = 0;
    transport::IbOneSided::Range window, pages;  // pages: around it, whole
  };
  // Tells all peers of this rank's windows, and waits for theirs.
  Status share(std::span<const Shared> windows, const WaitLimit& limit);
  void forget(uint64_t number);   // the peers' windows: no longer used
  void dismiss(uint64_t number);  // this rank's

  bool links(int peer) const;
  std::string via(int peer) const;
  // The peer's window can be used with RDMA.
  bool reaches(int peer, uint64_t window) const;
  // A window of the peer that cannot, and why; empty: all can.
  std::string refused_by(int peer) const;
  // The error that has ended the link to the peer, if one has.
  Status health(int peer);
  // It is linked and has not said goodbye; from one that has, nothing more will arrive.
  bool may_signal(int peer);

  // Returns when `data` may be used again. signal: to raise behind it; -1: none.
  Status put(int peer, const Range& to, const void* data, int signal, const WaitLimit& limit);
  Status get(int peer, const Range& from, void* data, const WaitLimit& limit);
  Status signal(int peer, int signal);
  // All that was put to the peer is in place.
  Status fence(int peer, const WaitLimit& limit);

 private:
  using Link = transport::IbOneSidedLink;
  using Lock = std::unique_lock<std::mutex>;

  explicit OneSidedRdma(Options options) : o_(std::move(options)) {}
  Status shake_hands(Deadline deadline, std::map<int, std::string>& refused);
  void serve();
  Result<Link*> open_link(int peer);
  Status wait_for(Lock& lock, Link& link, const char* what, const WaitLimit& limit,
                  const std::function<bool()>& done);
  Status give(Lock& lock, Link& link, const char* what, const WaitLimit& limit,
              const std::function<Result<bool>()>& post);
  Status copy(Lock& lock, void* to, const void* from, uint64_t bytes, Deadline deadline);
  Status put_pieces(Lock& lock, Link& link, const Range& to, const uint8_t* data, int signal,
                    const WaitLimit& limit);
  Status read_back(Lock& lock, Link& link, const WaitLimit& limit);

  Options o_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<transport::IbOneSided> ib_;
  uint64_t rounds_ = 0;  // of share()
  int sleepers_ = 0;     // callers that wait for their completions
  bool stopping_ = false;
  base::Fd bell_;
  std::thread thread_;
};

}  // namespace collctl::runtime
