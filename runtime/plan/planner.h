// The planner: from operations and the communicator's shape to a Plan. Pure: no clock, no world;
// called by the communicator before anything runs, on the caller's thread, and by tests.
//
// All ranks must get the same plan, so a choice depends only on what is the same everywhere:
// the shape, the choices and the operation; what a tuner says (tuner.h) the ranks compare. For
// sends and receives it depends on the message alone, because only its two ends know of it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/plan/operation.h"
#include "runtime/plan/plan.h"
#include "runtime/request/choices.h"

namespace collctl::runtime {

// Usage errors: null buffers, root or peer out of range, sizes that overflow, buffers that overlap
// in a way that the operation does not allow.
Status check_operation(const Operation& operation, int rank, int nranks);

// Plans one submission. Collectives keep their order; all sends and receives of the submission are
// paired into one schedule behind them, whose round d has every rank r send to r + d and receive
// from r - d, so that no order of calls deadlocks. A barrier is an all-reduce of the one int32 that
// its operation points to.
Result<Plan> make_plan(std::span<const Operation> operations, const CommShape& shape,
                       const Choices& choices);

// The choice of make_plan for a collective, which needs no buffers for that. Usage error: nothing
// that is allowed supports it.
struct CollectiveChoice {
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  int channels = 1;
  Expected expected;
  std::string why;
  std::optional<TunedChoice> tuned = {};  // a tuner was asked
};
Result<CollectiveChoice> choose_collective(const Operation& operation, const CommShape& shape,
                                           const Choices& choices);

// Every candidate for a collective on GPU ranks that supports it and that `choices` allow, in the
// order of the table: what it would take, or why it is unavailable. For `plan`.
struct WeighedChoice {
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  int channels = 1, threads = 0;  // threads of a channel's block; 0: as the kernel likes
  double us = 0;
  std::string limited_by;
  std::string unavailable;  // empty: all else counts
};
std::vector<WeighedChoice> weigh_on_gpus(const Operation& operation, const CommShape& shape,
                                         const Choices& choices);

// Elements of the largest chunk that a protocol moves well, and never more than `slots` slots.
uint64_t slot_data_bytes(const CommShape& shape, kernels::Protocol protocol);

namespace detail {
// make_plan(); `registered`: all buffers lie in users' windows.
Result<Plan> plan_all(std::span<const Operation> operations, const CommShape& shape,
                      const Choices& choices, bool registered);
// Rounds for all_to_all, gather and scatter; one list for the part of a channel.
std::vector<kernels::PairStep> exchange_rounds(const Operation& operation, const CommShape& shape,
                                               uint64_t part_offset, uint64_t part_count);
// The pairwise schedules of grouped sends and receives, in bytes: a PlannedOp for each protocol in
// use.
Status plan_messages(std::span<const Operation> messages, const CommShape& shape,
                     const Choices& choices, Plan& plan);
// Cuts [0, count) into at most `channels` parts on a grid of 16 elements; parts left empty are
// dropped, but the first.
struct Part {
  uint64_t offset, count;
};
std::vector<Part> cut_parts(uint64_t count, int channels);
}  // namespace detail

}  // namespace collctl::runtime
