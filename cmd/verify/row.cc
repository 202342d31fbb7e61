#include "cmd/verify/row.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::cmd {

using kernels::Collective;
using runtime::Operation;

namespace {

// The planned operation with the largest message, which its channels share.
const runtime::PlannedOp* largest_of(const runtime::Plan& plan) {
  const runtime::PlannedOp* largest = nullptr;
  const auto bytes = [](const runtime::PlannedOp& op) {
    uint64_t sum = 0;
    for (const kernels::Work& work : op.works) sum += work.count;
    return op.by_copies ? 0 : sum;
  };
  for (const runtime::PlannedOp& op : plan.ops)
    if (largest == nullptr || bytes(op) > bytes(*largest)) largest = &op;
  return largest;
}

}  // namespace

PlannedSteps planned_steps(std::span<const runtime::Plan> plans, const TimedBlock& block) {
  PlannedSteps all;
  double us = 0;
  for (const runtime::Plan& plan : plans) {
    const runtime::PlannedOp* const most = largest_of(plan);
    if (most == nullptr) continue;
    all.largest = most;
    all.expected = most->expected;
    double& step_us = all.expected.us;
    const double launch_us = most->expected.host.launch_us;
    // It is over before the host has launched the next.
    if (block.times > 0 && !block.by_graph && launch_us > step_us) {
      step_us = launch_us;
      all.expected.limited_by = format("launches: the host makes one in {:.4g} us", launch_us);
    }
    us += step_us;
  }
  const double block_us = all.expected.host.block_us;
  if (block.times > 0 && block_us > us * block.times)
    all.expected.limited_by =
        format("begin and end of {} timed together: {:.4g} us", block.times, block_us);
  all.expected.us = us + (block.times > 0 ? block_us / block.times : 0);
  return all;
}

Status prepare(const PlacedRow& row, const DataOracle& oracle) {
  const RunBuffers& buffers = row.buffers;
  const BufferShape shape = buffer_shape(row.key.collective, row.key.size.count, row.place);
  COLL_TRY(buffers.output->poison(buffers.output_bytes));
  COLL_TRY(oracle.fill_input(*buffers.input, buffers.input_at, shape.input));
  return row.in_place() ? Status() : buffers.input->set_guards(buffers.input_bytes);
}

std::vector<Submission> submissions_for(const RowKey& key, const Place& place,
                                        const RunBuffers& buffers) {
  return submissions_at(key, place, buffers.input->data() + buffers.input_at,
                        buffers.output->data() + buffers.output_at,
                        buffers.input == buffers.output);
}

std::vector<Submission> submissions_at(const RowKey& key, const Place& place, const void* input,
                                       void* output, bool in_place) {
  Operation op;
  op.collective = key.collective.calls;
  op.input = input;
  op.output = output;
  op.count = key.size.count;
  op.type = key.type;
  op.op = key.op;
  op.root = std::max(key.root, 0);
  if (op.collective != Collective::send_recv) return {{op}};
  const uint64_t size = kernels::element_size(key.type);
  std::vector<Submission> submissions;
  for (const PatternStep& step :
       row_of(key.collective.pattern).steps(key.size.count, place, in_place)) {
    Submission& submission = submissions.emplace_back();
    for (const PatternMessage& message : step) {
      Operation& half = submission.emplace_back(op);
      half.peer = message.peer;
      half.count = message.count;
      const void* const from = message.from_output ? op.output : op.input;
      half.input = message.sends ? static_cast<const uint8_t*>(from) + message.at * size : nullptr;
      half.output = message.sends ? nullptr : static_cast<uint8_t*>(op.output) + message.at * size;
    }
  }
  return submissions;
}

RunBuffers place_buffers(const RowKey& key, const Place& place, bool in_place, GuardedBuffer& input,
                         GuardedBuffer& output) {
  const BufferShape shape = buffer_shape(key.collective, key.size.count, place);
  const uint64_t size = kernels::element_size(key.type);
  if (!in_place) return {&input, &output, 0, 0, shape.input * size, shape.output * size};
  const uint64_t bytes = shape.in_place_elements * size;
  return {&output, &output, shape.in_place_input * size, shape.in_place_output * size,
          bytes,   bytes};
}

}  // namespace collctl::cmd
