#include "cmd/plan/pattern.h"

#include <algorithm>
#include <bit>

#include "base/format.h"
#include "cmd/verify/buffer_shape.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

namespace {

using kernels::Collective;

constexpr int kMostUnevenRanks = 8192;  // their shares are dealt block by block

// An all-to-all with as much for each rank as the busiest one has.
Result<runtime::Expected> uneven_time(SendPattern of, uint64_t count,
                                      const runtime::CommShape& shape,
                                      const runtime::Choices& choices, kernels::Protocol protocol) {
  const auto others = uint64_t(std::max(1, shape.nranks - 1));
  const uint64_t busiest = uneven_totals(shape.nranks, of).busiest;
  const runtime::Operation even{.collective = Collective::all_to_all,
                                .count = (count * busiest + others - 1) / others};
  runtime::Choices one = choices;
  one.protocols = 1u << int(protocol);
  auto chosen = choose_collective(even, shape, one);
  if (!chosen) chosen = choose_collective(even, shape, choices);
  if (!chosen) return std::move(chosen.error());
  return chosen->expected;
}

}  // namespace

Result<PatternChoice> choose_pattern(const BenchOp& op, uint64_t count,
                                     const runtime::CommShape& shape,
                                     const runtime::Choices& choices) {
  COLL_TRY(check_ranks(op, shape.nranks));
  if (is_uneven(op) && shape.nranks > kMostUnevenRanks)
    return Error(ErrorCode::usage, format("{} is planned for up to {} ranks, not {}", name_of(op),
                                          kMostUnevenRanks, shape.nranks));
  runtime::CommShape mine = shape;
  // An uneven exchange is planned by the messages of the rank that has most; else all do the same.
  mine.rank = is_uneven(op) ? uneven_totals(shape.nranks, op.pattern).busiest_rank : 0;
  const RowKey key{.collective = op, .type = kernels::DataType::float32, .size = {0, count}};
  // Nothing is at these addresses, and nobody looks.
  const auto address = [](uintptr_t at) { return std::bit_cast<void*>(at); };
  const std::vector<Submission> submissions =
      submissions_at(key, {mine.rank, shape.nranks, 0}, address(uintptr_t{1} << 20),
                     address(uintptr_t{1} << 60), false);
  std::vector<runtime::Plan> plans;
  for (const Submission& submission : submissions) {
    COLL_ASSIGN(runtime::Plan plan, make_plan(submission, mine, choices));
    plans.push_back(std::move(plan));
  }
  PatternChoice chosen;
  chosen.steps = int(submissions.size());
  const PlannedSteps all = planned_steps(plans);
  if (all.largest == nullptr) return chosen;
  chosen.choice = {.algorithm = all.largest->algorithm,
                   .protocol = all.largest->protocol,
                   .channels = all.largest->channels,
                   .expected = all.expected,
                   .why = all.largest->why};
  if (is_uneven(op)) {
    COLL_ASSIGN(chosen.choice.expected,
                uneven_time(op.pattern, count, shape, choices, chosen.choice.protocol));
    chosen.choice.why += "; time: of an alltoall that moves what the busiest rank does";
  } else if (chosen.steps > 1) {
    chosen.choice.why += format("; {} steps, each after the one before", chosen.steps);
  }
  return chosen;
}

}  // namespace collctl::cmd
