// The plans of a communicator's operations: the cached ones, apart for operations whose buffers lie
// in windows, and the one that a program repeats. Threads: the one that starts operations.
#pragma once
#include "runtime/plan/cache.h"
#include "runtime/plan/shared.h"

namespace collctl::runtime {

class Plans {
 public:
  // `in_windows`: all buffers point into the flat range. The entry stays until 15 others were made.
  Result<CachedPlan*> get(std::span<const Operation> operations, bool in_windows,
                          const CommShape& shape, const Choices& choices) {
    forget();
    return (in_windows ? in_windows_ : usual_).get(operations, shape, choices);
  }
  void clear() {
    forget();
    usual_.clear();
    in_windows_.clear();
  }

  // CPU ranks: what this thread ran last if it was one operation alone, and its plan, which still
  // has that operation's buffers. A program that repeats it needs no look into caches and windows.
  // Forgotten by whatever plans, chooses or moves windows.
  void remember(const Operation& operation, CachedPlan* plan) {
    repeated_ = operation;
    repeated_plan_ = plan;
  }
  void forget() { repeated_plan_ = nullptr; }
  CachedPlan* repeated(const Operation& operation) const {
    return repeated_plan_ != nullptr && operation == repeated_ ? repeated_plan_ : nullptr;
  }

 private:
  PlanCache usual_;
  PlanCache in_windows_{&make_shared_plan};
  Operation repeated_;
  CachedPlan* repeated_plan_ = nullptr;
};

}  // namespace collctl::runtime
