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
#define COLL_DATA_TYPE(id, ...) id,
#include "kernels/contract/data_types.inc"
};
inline constexpr int kDataTypeCount = 0
#define COLL_DATA_TYPE(...) +1
#include "kernels/contract/data_types.inc"
    ;
// integer and real compute in their storage, narrow (a float in bits) in float32.
enum class NumberKind : uint8_t { integer, real, narrow };

template <DataType kType>
struct DataTypeFacts;
#define COLL_DATA_TYPE(id, number_kind, storage, ...)            \
  template <>                                                    \
  struct DataTypeFacts<DataType::id> {                           \
    using Storage = storage;                                     \
    static constexpr NumberKind kKind = NumberKind::number_kind; \
    static constexpr bool kIsSigned = storage(-1) < storage(0);  \
  };
#include "kernels/contract/data_types.inc"
template <DataType kType>
using StorageOf = typename DataTypeFacts<kType>::Storage;

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

enum class AlgorithmId : uint8_t;  // kernels/algo/ids.h

inline constexpr int kMaxChannels = 64;
inline constexpr int kMaxFanIn =
    3;  // two children in the tree between nodes and one in the chain inside
inline constexpr int kMaxFanOut = 3;

// Four bits a type: on GPUs a switch would be a branch a type.
inline constexpr uint64_t kElementSizes = 0
#define COLL_DATA_TYPE(id, kind, storage, ...) \
  | uint64_t(sizeof(storage)) << (4 * int(DataType::id))
#include "kernels/contract/data_types.inc"
    ;
static_assert(kDataTypeCount <= 16);
COLL_FN constexpr uint32_t element_size(DataType t) {
  return uint32_t(kElementSizes >> (4 * int(t))) & 15;
}
COLL_FN constexpr NumberKind number_kind(DataType t) {
  switch (t) {
#define COLL_DATA_TYPE(id, kind, ...) \
  case DataType::id:                  \
    return NumberKind::kind;
#include "kernels/contract/data_types.inc"
  }
  return NumberKind::integer;
}
COLL_FN constexpr bool is_float8(DataType t) {
  return number_kind(t) == NumberKind::narrow && element_size(t) == 1;
}
COLL_FN constexpr bool is_signed_integer(DataType t) {
  return false
#define COLL_DATA_TYPE(id, ...)                                    \
  || (DataTypeFacts<DataType::id>::kKind == NumberKind::integer && \
      DataTypeFacts<DataType::id>::kIsSigned && t == DataType::id)
#include "kernels/contract/data_types.inc"
      ;
}
// The unsigned integer of a signed one's width; any other type is its own.
COLL_FN constexpr DataType unsigned_of(DataType t) {
  if (!is_signed_integer(t)) return t;
#define COLL_DATA_TYPE(id, kind, storage, ...)                                       \
  if (NumberKind::kind == NumberKind::integer && !is_signed_integer(DataType::id) && \
      sizeof(storage) == element_size(t))                                            \
    return DataType::id;
#include "kernels/contract/data_types.inc"
  return t;
}

// Names as on the command line and in JSON ("float32", "sum", "allreduce", "simple"); host
// only, names.cc.
const char* name_of(DataType);
const char* name_of(RedOp);
const char* name_of(Collective);
const char* name_of(Protocol);

// A type in other programs; host only.
struct DataTypeRow {
  const char* name;
  int nccl_number;              // in nccl.h; -1: NCCL has no such type
  const char* nccl_tests_name;  // as it prints it
  const char* other_names;      // of frameworks, in small letters, with blanks between
};
const DataTypeRow& row_of(DataType);

}  // namespace collctl::kernels
