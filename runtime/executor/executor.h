// Executor: runs a planned submission on this rank and returns when it is done. One per
// communicator; one call at a time, from whichever thread has the submission's turn.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "runtime/plan/plan.h"

namespace collctl::runtime {

class Executor {
 public:
  virtual ~Executor() = default;
  // All links that the plan uses must exist. Numbers the plan's operations from `first_op_count`
  // on. The error of an aborted submission names who waited for whom; code `interrupted`
  // with an empty message when it merely followed the abort word.
  virtual Status run(Plan& plan, uint64_t first_op_count) = 0;
};

}  // namespace collctl::runtime
