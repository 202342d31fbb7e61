// Types and reductions by their numbers in nccl.h, as NCCL itself and its plugins take them.
// Pure; any thread.
#pragma once
#include "base/drivers/nccl.h"
#include "kernels/contract/types.h"

namespace collctl::transport {

inline int nccl_type(kernels::DataType type) {
  switch (type) {
    case kernels::DataType::int8:
      return base::drivers::kNcclInt8;
    case kernels::DataType::uint8:
      return base::drivers::kNcclUint8;
    case kernels::DataType::int32:
      return base::drivers::kNcclInt32;
    case kernels::DataType::uint32:
      return base::drivers::kNcclUint32;
    case kernels::DataType::int64:
      return base::drivers::kNcclInt64;
    case kernels::DataType::uint64:
      return base::drivers::kNcclUint64;
    case kernels::DataType::float16:
      return base::drivers::kNcclFloat16;
    case kernels::DataType::bfloat16:
      return base::drivers::kNcclBfloat16;
    case kernels::DataType::float32:
      return base::drivers::kNcclFloat32;
    case kernels::DataType::float64:
      return base::drivers::kNcclFloat64;
    case kernels::DataType::float8e4m3:
      return base::drivers::kNcclFloat8e4m3;
    case kernels::DataType::float8e5m2:
      return base::drivers::kNcclFloat8e5m2;
  }
  return -1;
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
