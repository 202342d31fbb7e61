// Point-to-point messages, and what is node-local on top of them. One link for each direction and
// peer, made on first use.
//
// Used by the rank's thread only. Knows, but does not own, the roster, the mailbox and the loop in
// which it waits. Internal to the bootstrap.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "runtime/bootstrap/gather.h"
#include "runtime/bootstrap/mailbox.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/bootstrap/waiting.h"

namespace collctl::runtime::boot {

class Messages {
 public:
  Messages(const Roster& roster, Mailbox& mailbox, Waiting& waiting)
      : roster_(roster), mailbox_(mailbox), waiting_(waiting) {}
  void set_secret(const base::Secret& secret) { secret_ = secret; }

  Status send(int peer, uint64_t tag, ByteView data, Deadline deadline, const std::string& what);
  Result<Bytes> recv(int peer, uint64_t tag, Deadline deadline, const std::string& what);

  void set_local_ranks(std::vector<int> ranks) { local_ = std::move(ranks); }
  const std::vector<int>& local_ranks() const { return local_; }
  // Among those; up and down a tree over their places, in messages that carry whole sets.
  Status local_gather(ByteView mine, Deadline deadline, const std::string& what,
                      const Deliver& deliver);

 private:
  Result<DataLink*> link_to(int peer, Deadline deadline, const std::string& what);

  const Roster& roster_;
  Mailbox& mailbox_;
  Waiting& waiting_;
  base::Secret secret_;
  std::map<int, std::unique_ptr<DataLink>> outgoing_;
  std::vector<int> local_;
  uint32_t local_sequence_ = 0;
};

}  // namespace collctl::runtime::boot
