#include "runtime/plan/shared.h"

#include <algorithm>

#include "base/format.h"
#include "kernels/algo/ids.h"
#include "kernels/algo/symmetric.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/gpu_cost.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Protocol;

// By which name of the table it goes: all-reduce sums slices and spreads them.
AlgorithmId named(Collective c) {
  return c == Collective::all_reduce ? AlgorithmId::two_shot : AlgorithmId::one_shot;
}

bool have_kernels(const Operation& op, const CommShape& shape) {
  if (!shape.gpu) return shape.window_bytes > 0;
  return shape.gpu_window && shape.window_direct != nullptr &&
         shape.window_direct(op.collective, op.type, op.op, shape.nranks, detail::bytes_of(op));
}

bool may_share(const Operation& op, const CommShape& shape, const Choices& choices) {
  return shape.nranks > 1 && op.count > 0 && have_kernels(op, shape) &&
         (kernels::kSymmetricServes & kernels::collective_bit(op.collective)) != 0 &&
         choices.allows(named(op.collective)) && choices.allows(Protocol::simple);
}

Prediction shared_time(const Operation& op, const CommShape& shape, int channels) {
  const uint64_t bytes = detail::bytes_of(op);
  if (shape.gpu)
    return predict_direct({op.collective, named(op.collective), Protocol::simple, shape.nranks,
                           bytes, path_of_windows(*shape.model, false)});
  return predict({.collective = op.collective,
                  .algorithm = named(op.collective),
                  .protocol = Protocol::simple,
                  .bytes = bytes,
                  .chunk_bytes = std::max<uint64_t>(1, bytes),
                  .channels = channels,
                  .shared = true},
                 shape);
}

// The staged plan's works, made to share their buffers.
void share(PlannedOp& planned, const Operation& op, const CommShape& shape, int channels,
           const Prediction& time) {
  const std::string next = format("{}/{} {:.1f} us", kernels::name_of(planned.algorithm),
                                  kernels::name_of(planned.protocol), planned.expected_us);
  const kernels::Work first = planned.works.at(0);
  planned.works.clear();
  const auto parts = detail::cut_parts(op.count, channels);
  for (size_t c = 0; c < parts.size(); ++c) {
    kernels::Work w = first;
    w.part_offset = parts[c].offset;
    w.part_count = parts[c].count;
    w.chunk_count = kernels::chunk_grain(op.type);  // of no account
    w.pairs = nullptr;
    w.pair_count = 0;
    w.rank = shape.rank;
    w.algorithm = named(op.collective);
    w.protocol = Protocol::simple;
    w.channel = uint16_t(c);
    w.mark = kernels::kSharedMark;
    planned.works.push_back(w);
  }
  planned.algorithm = named(op.collective);
  planned.protocol = Protocol::simple;
  planned.channels = int(planned.works.size());
  planned.direct = true;
  planned.by_window_kernel = shape.gpu;
  if (shape.gpu) planned.threads = 0;
  planned.expected_us = time.us;
  planned.expected = detail::expected_of(time, planned.by_window_kernel, shape);
  planned.why =
      format("direct between the users' windows, model: {:.1f} us, next {}", time.us, next);
}

}  // namespace

Result<Plan> make_shared_plan(std::span<const Operation> operations, const CommShape& shape,
                              const Choices& choices) {
  COLL_ASSIGN(Plan plan, detail::plan_all(operations, shape, choices, true));
  bool pairs_left = false;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    PlannedOp& planned = plan.ops[i];
    if (may_share(op, shape, choices)) {
      // A kernel of GPUs has one work for all of the operation.
      const int most = shape.gpu ? 1 : std::max(1, shape.window_channels);
      const int channels = std::clamp(planned.channels, 1, most);
      const Prediction time = shared_time(op, shape, channels);
      const bool tuned =
          planned.tuned && planned.tuned->followed && tuner_algorithm(planned.algorithm);
      if (!tuned && (!choices.algo.empty() || time.us < planned.expected_us))
        share(planned, op, shape, channels, time);
    }
    for (const kernels::Work& w : planned.works) pairs_left = pairs_left || w.pairs != nullptr;
  }
  if (!pairs_left) plan.pairs.clear();
  return plan;
}

}  // namespace collctl::runtime
