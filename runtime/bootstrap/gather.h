// All-gather and barrier over the data links of collectives. Few ranks pass blocks along a ring;
// many gather up a tree of kTreeArity and send everything down again: 2 * depth rounds in place of
// n - 1. The first failure is kept: collectives cannot continue after it.
//
// Used by the rank's thread only. Knows, but does not own, the roster, the links and the loop in
// which it waits. Internal to the bootstrap.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "runtime/bootstrap/roster.h"
#include "runtime/bootstrap/waiting.h"

namespace collctl::runtime::boot {

// Gets every rank's bytes, this rank's too.
using Deliver = std::function<Status(int of_rank, ByteView bytes)>;

class Gathering {
 public:
  Gathering(const Roster& roster, DataLinks& data, Waiting& waiting)
      : roster_(roster), data_(data), waiting_(waiting) {}

  // `deliver` may be null: a barrier.
  Status gather(ByteView mine, Deadline deadline, const std::string& what, const Deliver& deliver);
  const std::optional<Error>& broken() const { return broken_; }
  Status keep(Status outcome);  // of another collective, too

 private:
  Status ring(ByteView mine, Deadline deadline, const std::string& what, const Deliver& deliver);
  Status tree(ByteView mine, Deadline deadline, const std::string& what, const Deliver& deliver);

  const Roster& roster_;
  DataLinks& data_;
  Waiting& waiting_;
  uint32_t sequence_ = 0;
  std::optional<Error> broken_;
};

}  // namespace collctl::runtime::boot
