// One row of a measurement: what it runs, and on which memory. Pure but for the buffers' addresses;
// used by BenchRun, the soak, the diagnosis and the comparison with another library.
#pragma once
#include <vector>

#include "cmd/verify/data_check.h"
#include "runtime/plan/operation.h"

namespace collctl::cmd {

// What one row runs: everything but the placement.
struct RowKey {
  kernels::Collective collective{};
  kernels::DataType type{};
  kernels::RedOp op{};
  int root = -1;  // -1: the collective has none
  SizePoint size;
};

// The operations of a row on these buffers: one, or a send and a receive.
std::vector<runtime::Operation> operations_for(const RowKey& key, const Place& place,
                                               const RunBuffers& buffers);
// Where input and output of a row lie in the two buffers.
RunBuffers place_buffers(const RowKey& key, const Place& place, bool in_place, GuardedBuffer& input,
                         GuardedBuffer& output);

}  // namespace collctl::cmd
