// Point-to-point messages on their way in: what peers have sent is kept by sender and tag until
// somebody asks for it. Used by the rank's thread only. Internal to the bootstrap; the roster
// outlives it.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/wait.h"
#include "runtime/bootstrap/link.h"
#include "runtime/bootstrap/roster.h"

namespace collctl::runtime::boot {

class Mailbox {
 public:
  explicit Mailbox(const Roster& roster) : roster_(roster) {}

  // A connection that a peer opened for its messages.
  void adopt(int from, SealedFd fd);
  // Takes what has arrived; with much kept already only from the awaited sender (-1: none). Error
  // (defect): a peer sends what nobody asks for.
  Status receive(int awaited_sender);
  void add_interest(std::vector<pollfd>& fds, int awaited_sender) const;
  void put(int from, uint64_t tag, Bytes body);
  bool has(int from, uint64_t tag) const { return kept_.contains({from, tag}); }
  Bytes take(int from, uint64_t tag);  // the oldest; has() it
  bool gone(int from) const;           // its connection has ended

 private:
  bool may_read(const DataLink& link, int awaited_sender) const;

  const Roster& roster_;
  std::map<int, std::unique_ptr<DataLink>> incoming_;
  std::map<std::pair<int, uint64_t>, std::deque<Bytes>> kept_;
  uint64_t bytes_ = 0, messages_ = 0;  // kept
};

}  // namespace collctl::runtime::boot
