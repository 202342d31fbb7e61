// Types and reductions by their numbers in nccl.h, as NCCL itself and its plugins take them.
// Pure; any thread.
#pragma once
#include "base/drivers/nccl.h"
#include "kernels/contract/types.h"

namespace collctl::transport {

// -1: NCCL has no such type.
inline int nccl_type(kernels::DataType type) {
  return kernels::row_of(type).nccl_number;
}

inline int nccl_op(kernels::RedOp op) {
  switch (op) {
    case kernels::RedOp::sum:
      return base::drivers::kNcclSum;
    case kernels::RedOp::prod:
      return base::drivers::kNcclProd;
    case kernels::RedOp::min:
      return base::drivers::kNcclMin;
    case kernels::RedOp::max:
      return base::drivers::kNcclMax;
    case kernels::RedOp::avg:
      return base::drivers::kNcclAvg;
  }
  return -1;
}

}  // namespace collctl::transport
