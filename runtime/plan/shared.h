// Plans of operations whose buffers all ranks map: direct between them (kernels/shared_block.h;
// of GPU ranks kernels/cuda/window/direct.cuh) where the model expects that to be faster, else as
// staged ones. Pure; called through the plan cache of such operations.
#pragma once
#include "runtime/plan/planner.h"

namespace collctl::runtime {

// As make_plan(), of collectives whose `input` and `output` lie in this rank's slot of the flat
// range. Choices that name algorithms: those that work over windows mean the direct path.
Result<Plan> make_shared_plan(std::span<const Operation> operations, const CommShape& shape,
                              const Choices& choices);

// Bytes that this rank reads and writes.
struct OperationBytes {
  uint64_t input = 0, output = 0;
};
OperationBytes operation_bytes(const Operation& operation, int rank, int nranks);

}  // namespace collctl::runtime
