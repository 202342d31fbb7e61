// How the ranks of `rails` tell each other what they find: through their launcher, so that a link
// that is broken is a result and not the end of the job; or over the bootstrap, where nobody passes
// messages on (ranks that others started, or threads of one process).
//
// Threads: one thread's, abort() any's. Every rank gathers the same number of times, in the same
// order between its other messages.
#pragma once
#include <memory>
#include <vector>

#include "cmd/measure/task.h"
#include "runtime/bootstrap/bootstrap.h"

namespace collctl::runtime {

class RailMeeting {
 public:
  virtual ~RailMeeting() = default;
  virtual Status send(int peer, ByteView bytes, Deadline deadline) = 0;
  // Errors: deadline, lost: blamed on the rank that is waited for.
  virtual Result<Bytes> receive(int peer, Deadline deadline) = 0;
  // The word of every rank, by rank.
  virtual Result<std::vector<Bytes>> gather(ByteView mine, Deadline deadline) = 0;
  virtual void abort(const Error& why) = 0;
  virtual Status finish(Deadline deadline) = 0;
};

std::unique_ptr<RailMeeting> meet_over(std::unique_ptr<Bootstrap> bootstrap);
std::unique_ptr<RailMeeting> meet_through(cmd::RankRelay& relay, int rank, int size);

}  // namespace collctl::runtime
