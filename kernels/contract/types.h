// The enumerations that host and device share. Values are part of blobs and reports: append, never
// renumber.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define COLL_FN __host__ __device__ inline
#else
#define COLL_FN inline
#endif

namespace collctl::kernels {

enum class DataType : uint8_t {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8e4m3,
  float8e5m2
};
inline constexpr int kDataTypeCount = 12;

enum class RedOp : uint8_t { sum, prod, min, max, avg };
inline constexpr int kRedOpCount = 5;

enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  send_recv,
  barrier
};
inline constexpr int kCollectiveCount = 10;

// Does arithmetic.
constexpr bool has_op(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

enum class Protocol : uint8_t { simple, ll, ll128 };
inline constexpr int kProtocolCount = 3;

enum class AlgorithmId : uint8_t {
  ring,
  tree,
  tree_split,
  pairwise,
  one_shot,
  two_shot,
  collnet,
  doubling
};
inline constexpr int kAlgorithmCount = 8;

inline constexpr int kMaxChannels = 64;
inline constexpr int kMaxFanIn =
    3;  // two children in the tree between nodes and one in the chain inside
inline constexpr int kMaxFanOut = 3;

COLL_FN uint32_t element_size(DataType t) {
  switch (t) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::float8e4m3:
    case DataType::float8e5m2:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::uint64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

// Names as on the command line and in JSON ("float32", "sum", "allreduce", "ring", "simple"); host
// only, names.cc.
const char* name_of(DataType);
const char* name_of(RedOp);
const char* name_of(Collective);
const char* name_of(Protocol);
const char* name_of(AlgorithmId);

}  // namespace collctl::kernels
