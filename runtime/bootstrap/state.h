// What a Bootstrap holds, and the one loop in which its thread waits. Files: join.cc
// (start-up), bootstrap.cc (waiting, abort), gather.cc (all-gather, barrier),
// messages.cc (point-to-point, node-local, descriptors). Internal to the bootstrap;
// everything here belongs to the rank's thread, the Service locks for itself.
#pragma once
#include <deque>
#include <functional>
#include <map>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/fd.h"
#include "runtime/bootstrap/link.h"
#include "runtime/bootstrap/service.h"
#include "runtime/bootstrap/wire.h"

namespace collctl::runtime {

struct Bootstrap::State {
  struct Member {
    Address address;  // where it accepts peers
    std::string host;
    uint64_t fd_nonce = 0;
  };
  using Links = std::vector<boot::DataLink*>;

  explicit State(const Options& o) : options(o), rank(o.rank), size(o.size) {}
  ~State();

  Options options;
  const int rank, size;
  int groups = 1;  // roots
  base::Secret secret;
  uint64_t job = 0;
  PhaseTimes times;
  std::vector<uint64_t> tasks;  // by rank: hashes, while joining
  std::vector<Member> members;  // by rank; hosts of neighbours only until the table is there
  std::unique_ptr<boot::FdDoor> door;
  std::unique_ptr<boot::Service> service;
  std::optional<Error> broken;  // the first failure: collectives cannot continue after it
  bool finished = false;

  // Data of collectives: the ring's two links for few ranks, else the tree's.
  std::unique_ptr<boot::DataLink> ring_next, ring_previous, parent;
  std::vector<std::unique_ptr<boot::DataLink>> children;
  uint32_t sequence = 0;

  // Point-to-point: one link for each direction and peer, made on first use.
  std::map<int, std::unique_ptr<boot::DataLink>> outgoing, incoming;
  std::map<std::pair<int, uint64_t>, std::deque<Bytes>> queue;
  uint64_t queued_bytes = 0, queued_messages = 0;
  std::vector<int> local;
  uint32_t local_sequence = 0;

  // Start-up (join.cc).
  struct Joining;
  Status join();
  Status same_task();  // task.cc

  // Waiting (bootstrap.cc).
  std::string name(int of_rank) const;
  // Takes new connections; the error of an abort or lost neighbour when there is one.
  Status news();
  void adopt(boot::Incoming in);
  // Moves `links` and the incoming messages until done(). `what` opens the error's text.
  Status drive(const Links& links, Deadline deadline, const std::string& what,
               const std::function<bool()>& done, int awaited_sender = -1);
  // A link to `peer` failed: the notice that explains it, if one arrives soon, else the link's own
  // error.
  Error lost(int peer, const std::string& what, const Error& cause);
  Error late(const Links& links, const std::string& what, int awaited_sender) const;
  Status keep(Status outcome);  // remembers a failure of a collective

  // Collectives (gather.cc). `deliver` gets every rank's bytes, this rank's too.
  using Deliver = std::function<Status(int of_rank, ByteView bytes)>;
  Status gather(ByteView mine, Deadline deadline, const std::string& what, const Deliver& deliver);
  Status gather_ring(ByteView mine, Deadline deadline, const std::string& what,
                     const Deliver& deliver);
  Status gather_tree(ByteView mine, Deadline deadline, const std::string& what,
                     const Deliver& deliver);

  // Messages (messages.cc).
  Status receive_messages(int awaited_sender);
  bool may_read(const boot::DataLink& link, int awaited_sender) const;
  Result<boot::DataLink*> link_to(int peer, Deadline deadline, const std::string& what);
  Status send(int peer, uint64_t tag, ByteView data, Deadline deadline, const std::string& what);
  Result<Bytes> recv(int peer, uint64_t tag, Deadline deadline, const std::string& what);
  Status local_gather(ByteView mine, Deadline deadline, const std::string& what,
                      const Deliver& deliver);
};

}  // namespace collctl::runtime
