// One row of a measurement: what it runs, and on which memory. Pure but for the buffers' addresses;
// used by BenchRun, the soak, the diagnosis and the comparison with another library.
#pragma once
#include <span>
#include <vector>

#include "cmd/verify/data_check.h"
#include "runtime/plan/operation.h"
#include "runtime/plan/plan.h"

namespace collctl::cmd {

// One row's operation: everything but the placement.
struct RowKey {
  BenchOp collective{};
  kernels::DataType type{};
  kernels::RedOp op{};
  int root = -1;  // -1: the collective has none
  SizePoint size;
};

// One placement of a row, and where its data are on this rank.
struct PlacedRow {
  RowKey key;
  Place place;
  RunBuffers buffers;
  bool in_place() const { return buffers.input == buffers.output; }
};

// Poisoned outputs, then this rank's input where it belongs. Errors: a GPU's.
Status prepare(const PlacedRow& row, const DataOracle& oracle);

// Operations that are one submission: a collective, or the messages of a step of a pattern.
using Submission = std::vector<runtime::Operation>;
// Submissions of a row on these buffers, each after the one before. None: nothing is to move.
std::vector<Submission> submissions_for(const RowKey& key, const Place& place,
                                        const RunBuffers& buffers);
inline std::vector<Submission> submissions_for(const PlacedRow& row) {
  return submissions_for(row.key, row.place, row.buffers);
}
// The same at these addresses, which are not looked at.
std::vector<Submission> submissions_at(const RowKey& key, const Place& place, const void* input,
                                       void* output, bool in_place);
// A block of a measurement: it runs a row so many times, and then waits for all of them.
struct TimedBlock {
  int times = 0;  // 0: no block, the row by itself
  bool by_graph = false;
};
// Expected time of a row's submissions together, and the part that has most of the data; a
// collective's plan has one. In a block it is each time's share, the host's part included.
struct PlannedSteps {
  runtime::Expected expected = {};              // steps come after one another
  const runtime::PlannedOp* largest = nullptr;  // of the last step; null: nothing moves
};
PlannedSteps planned_steps(std::span<const runtime::Plan> plans, const TimedBlock& block = {});
// Where input and output of a row lie in the two buffers.
RunBuffers place_buffers(const RowKey& key, const Place& place, bool in_place, GuardedBuffer& input,
                         GuardedBuffer& output);

}  // namespace collctl::cmd
