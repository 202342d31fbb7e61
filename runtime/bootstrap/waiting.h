// The one loop in which a rank's thread waits for its peers, and what it makes of a wait that does
// not end well: who is late, who is lost, or what an abort says that ended it.
//
// Used by the rank's thread only. Owns the service, whose thread takes the connections that are
// sorted here; knows, but does not own, the roster, the mailbox and the data links, which outlive
// it. Internal to the bootstrap.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/wait_policy.h"
#include "runtime/bootstrap/link.h"
#include "runtime/bootstrap/mailbox.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/bootstrap/service.h"

namespace collctl::runtime::boot {

// Data of collectives: the ring's two links for few ranks, else the tree's.
struct DataLinks {
  std::unique_ptr<DataLink> ring_next, ring_previous, parent;
  std::vector<std::unique_ptr<DataLink>> children;
};

class Waiting {
 public:
  using Links = std::vector<DataLink*>;
  Waiting(const Roster& roster, Mailbox& mailbox, DataLinks& data)
      : roster_(roster), mailbox_(mailbox), data_(data) {}

  // Null until the rank has its place, and of a rank that is alone.
  Service* service() const { return service_.get(); }
  void begin(std::unique_ptr<Service> service) { service_ = std::move(service); }

  void wait_by(base::WaitPolicy* policy) { policy_ = policy; }

  // Takes new connections; the error of an abort or lost neighbour when there is one.
  Status news();
  // Becomes ready when there may be news.
  void add_interest(std::vector<pollfd>& fds) const;
  // Moves `links` and the incoming messages until done(). `what` opens the error's text.
  Status drive(const Links& links, Deadline deadline, const std::string& what,
               const std::function<bool()>& done, int awaited_sender = -1);
  // A link to `peer` failed, while this rank waited as drive() does: the notice that explains it,
  // if one arrives soon, else the link's own error.
  Error lost(int peer, const std::string& what, const Error& cause, const Links& links = {},
             int awaited_sender = -1);
  // This rank's own attempt to connect to `peer` had no answer.
  Error unreachable(const RankAt& peer, const Error& cause) const;
  // A peer that does not get what this rank has sent: whoever is waited for, that is why.
  std::optional<Error> cannot_reach() const;
  // The deadline passed: whom it waits for, unless nothing passes any more to a peer.
  Error late(const Links& links, const std::string& what, int awaited_sender) const;

 private:
  void adopt(Incoming in);
  // A wait that another's abort has ended.
  Error ended(const Error& notice, const Links& links, const std::string& what,
              int awaited_sender) const;
  Error waits(const Links& links, const std::string& what, int awaited_sender,
              const char* how) const;

  const Roster& roster_;
  Mailbox& mailbox_;
  DataLinks& data_;
  base::WaitPolicy* policy_ = nullptr;
  std::unique_ptr<Service> service_;
};

}  // namespace collctl::runtime::boot
