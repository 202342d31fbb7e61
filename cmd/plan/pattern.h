// The plan of a pattern of sends and receives (cmd/verify/bench_op.h): the messages that a rank of
// a run would plan, step by step, with the time that a run is held against. An uneven exchange,
// whose time a run does not expect, has that of an all-to-all in which every rank moves what the
// busiest one does. Pure.
#pragma once
#include "cmd/verify/buffer_shape.h"
#include "runtime/plan/planner.h"

namespace collctl::cmd {

inline bool is_pattern(const BenchOp& op) {
  return op.calls == kernels::Collective::send_recv && op.pattern != SendPattern::next;
}

struct PatternChoice {
  runtime::CollectiveChoice choice;  // of the largest messages; all steps' time
  int steps = 0;                     // that wait for one another
};
// `count` elements of float32 a block. Errors: usage: so many ranks cannot do it, or nothing is
// left to choose from.
Result<PatternChoice> choose_pattern(const BenchOp& op, uint64_t count,
                                     const runtime::CommShape& shape,
                                     const runtime::Choices& choices);

}  // namespace collctl::cmd
