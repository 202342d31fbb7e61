// The bootstrap network: check-in at the root, then all-gather, barrier, point-to-point and fd
// passing between ranks over TCP and Unix sockets. Slow and dependable; used at start-up, to
// exchange connection blobs, and to spread aborts.
//
// Threads: one thread per Bootstrap at a time (collective calls in the same order on every rank),
// except abort watching, which the communicator's watch thread does through `watch`. Every call has
// a deadline; errors name who is missing.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/cancel.h"
#include "base/wait_policy.h"
#include "runtime/bootstrap/unique_id.h"
#include "transport/transport.h"

namespace collctl::runtime {

// The root: a thread that collects the check-ins of `size` ranks and sends each its place.
// Lives in the process of rank 0 (or in a test); its destructor stops the thread.
class BootstrapRoot {
 public:
  struct Options {
    Address listen_at;  // address family and interface; port 0 for any
    base::Secret secret;
    bool reuse_port = false;           // for a fixed port (COMM_ID)
    std::vector<std::string> hosts{};  // of the ranks, as far as the caller knows: for errors
    size_t lines_at_most = 0;  // connections kept open to waiting ranks; 0: by the open-file limit
    std::string missing_hint{};  // why ranks may not come, for that error
  };
  static Result<std::unique_ptr<BootstrapRoot>> start(const Options& options);
  ~BootstrapRoot();
  const Address& address() const;
  // If a rank has declined: waits until every rank has been told, late ones included, or
  // *cancelled is not 0. Any thread but the root's.
  void await_told(Deadline deadline, uint32_t* cancelled = nullptr) const;

 private:
  BootstrapRoot();
  struct State;
  std::unique_ptr<State> state_;
};

// The network interface used for out-of-band traffic, by NCCL's rules (SOCKET_IFNAME, ib*,
// same subnet as COMM_ID, no docker/lo/virbr, docker, lo, virbr).
using transport::Interface;
Result<std::vector<Interface>> find_interfaces(const std::string& ifname_list,
                                               const std::string& family,
                                               const Address* same_subnet_as, size_t at_most = 16);

struct PhaseTimes {  // seconds
  double listen = 0, check_in = 0, wait_root = 0, connect = 0, total = 0;
};

class Bootstrap : public transport::FdExchange {
 public:
  struct Options {
    UniqueId id;
    std::vector<UniqueId> roots;  // more than one: several roots; empty: only `id`
    int rank = 0;
    int size = 1;
    Interface interface;  // where this rank listens
    std::string host;     // shown in errors
    Deadline deadline = Deadline::after_seconds(60);
    // The task that this rank was started for, in lines "name\tvalue". Where ranks differ, joining
    // fails on all of them with code usage, naming the first rank that differs from rank 0.
    std::string task{};
    // Cancels joining, for a reason that the other ranks are told; null: cannot be cancelled.
    std::shared_ptr<base::Cancel> cancel{};
    // Called once the root knows this rank, or is known to be missing: from then on a failure is
    // not to be declined (below).
    std::function<void()> checks_in{};
  };
  static Result<std::unique_ptr<Bootstrap>> join(const Options& options);
  ~Bootstrap() override;

  int rank() const;
  int size() const;
  const PhaseTimes& times() const;

  // In place: data holds size() blocks of `bytes`, this rank's filled in.
  Status all_gather(void* data, size_t bytes, Deadline deadline);
  // The same with lengths that differ between ranks (bounded by 64 MiB each).
  Result<std::vector<Bytes>> all_gather_blobs(ByteView mine, Deadline deadline);
  Status barrier(Deadline deadline);
  Status send(int peer, uint32_t tag, ByteView data, Deadline deadline);
  // Messages with another (peer, tag) that arrive first are kept for later calls.
  Result<Bytes> recv(int peer, uint32_t tag, Deadline deadline);

  // Node-local variants. `members` are the ranks of this host in ascending order (from the peer
  // infos).
  void set_local_ranks(std::vector<int> members);
  // How waits for peers pass the time from now on, before they sleep; it outlives this. Without it
  // they sleep at once.
  void wait_by(base::WaitPolicy* policy);
  Status local_all_gather(void* data, size_t bytes, Deadline deadline);  // members.size() blocks
  Status local_barrier(Deadline deadline);

  // FdExchange, between processes of one host (same network namespace).
  Status send_fd(int peer, uint64_t tag, int fd, Deadline deadline) override;
  Result<Fd> recv_fd(int peer, uint64_t tag, Deadline deadline) override;
  // The sending half of it for another thread than the rank's; this outlives it.
  std::unique_ptr<transport::FdExchange> fd_sender() const;

  // Abort spreading. After start-up the communicator starts watching: a thread inside the bootstrap
  // reads the ring neighbours' control connections; `on_event` is called once (from that thread)
  // when a rank announces an abort or a neighbour's connection breaks. announce_abort() sends both
  // directions round the ring; every rank passes it on. Calls that an announced abort ends return
  // after on_event has.
  struct AbortNotice {
    int origin = -1;                    // the rank that announced it
    Error error;                        // what it said; code lost when a neighbour vanished
    Error as_heard_by(int rank) const;  // names the rank that aborted, unless it was this one
  };
  Status start_watch(std::function<void(const AbortNotice&)> on_event);
  void announce_abort(const Error& error);
  // A rank that does not get what this one has sent to it in exchanges, as far as this end can see.
  std::optional<Error> cannot_reach() const;
  // Any thread: calls in progress on this rank, and later ones, end with code interrupted.
  void cancel();
  // A clean end: from here on a vanishing neighbour is not a failure. Collective, with a deadline.
  Status finish(Deadline deadline);

 private:
  Bootstrap();
  struct State;
  std::unique_ptr<State> state_;
};

// Instead of joining, tells the root that `rank` cannot take part: the ranks present, and
// those that arrive later, fail at once with `why`, naming this rank and its host. Returns
// when the root has it. Errors: lost, deadline: there is no root, or it is of another job, or
// *cancelled has become nonzero.
Status decline_start(const UniqueId& id, int rank, int size, const std::string& host,
                     const Error& why, Deadline deadline, uint32_t* cancelled = nullptr);

// Why `rank` aborts its start, as the other ranks are told: with its name, unless the reason
// names a rank.
Error start_aborted(Error why, int rank, const std::string& host);

}  // namespace collctl::runtime
