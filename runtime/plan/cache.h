// PlanCache: the last few plans of a communicator, so that repeating an operation costs no planning
// and no allocation. Collectives that move whole buffers are found by their shape, and the pointers
// of the call are put in; schedules of pairs hold pointers and are found by them too. Used by the
// thread that starts operations; an entry is only run while nothing else of the communicator runs.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/planner.h"

namespace collctl::runtime {

struct CudaPlan;  // runtime/executor/cuda.h

struct CachedPlan {
  std::vector<Operation> operations;
  Plan plan;
  bool patchable = false;  // no pair steps: input and output may differ from call to call
  bool wired = false;      // all links it uses are there
  std::shared_ptr<CudaPlan> on_device;  // GPU ranks: what the executor made of it
};

class PlanCache {
 public:
  using Make = Result<Plan> (*)(std::span<const Operation>, const CommShape&, const Choices&);
  explicit PlanCache(Make make = &make_plan) : make_(make) {}
  // The entry for these operations, checked and with their buffers; plans it when it is new.
  Result<CachedPlan*> get(std::span<const Operation> operations, const CommShape& shape,
                          const Choices& choices);
  void clear();

 private:
  CachedPlan* find(std::span<const Operation> operations);
  Make make_;
  std::array<CachedPlan, 16> entries_;
  size_t last_ = 0, next_ = 0;
};

}  // namespace collctl::runtime
