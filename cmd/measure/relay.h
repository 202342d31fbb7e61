// Ranks that reach each other through their launcher, whatever becomes of the network between them:
// for what measures that network. Slow (two hops of its connections); messages of one rank to
// another arrive in their order. Threads: any, but one receives at a time.
#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "base/wait.h"

namespace collctl::cmd {

class RankRelay {
 public:
  static constexpr int kAll = -1;  // every other rank of the job
  virtual ~RankRelay() = default;
  // Error lost: the launcher is gone.
  virtual Status send(int rank, ByteView bytes, Deadline deadline) = 0;
  // Errors: deadline, with the rank that is waited for; or why the job ends.
  virtual Result<Bytes> receive(int from, Deadline deadline) = 0;
};

}  // namespace collctl::cmd
