// Operation: one collective (or one direction of a send/receive) as the user states it. A plain
// value; made by whoever calls the communicator, read by the planner.
#pragma once
#include <cstdint>

#include "kernels/contract/work.h"

namespace collctl::runtime {

using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

// count as in kernels/contract/work.h; for send_recv `peer` and direction are used. Block layouts:
// all_gather and gather: output holds nranks blocks of count; reduce_scatter and scatter: input
// does; all_to_all: both do. `op` is ignored where nothing is reduced, `root` where there is none.
struct Operation {
  Collective collective = Collective::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  uint64_t count = 0;
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  int root = 0;
  int peer = -1;  // send_recv: one direction each; exactly one of input, output is set
  uint64_t chunk_elements = 0;  // largest chunk; 0: planned (diagnosis repeats another type's cuts,
                                // as far as the slots hold such chunks)
  bool operator==(const Operation&) const = default;
};

}  // namespace collctl::runtime
