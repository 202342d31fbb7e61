// The level every machine has: one element at a time, no machine flags. Also home of the public
// conversions.
#define COLL_SIMD_LEVEL scalar
#define COLL_SIMD_BYTES 0
#include "base/check.h"
#include "kernels/cpu/reduce_loops.h"

namespace collctl::kernels {

const ReduceTable* scalar_reduce_table() {
  return &scalar::kTable;
}

namespace {

template <DataType kType>
float widened(uint32_t bits) {
  if constexpr (number_kind(kType) == NumberKind::narrow) {
    const auto raw = StorageOf<kType>(bits);
    return scalar::NarrowLanes<scalar::NarrowFloat<kType>, 1>::load(
        reinterpret_cast<const uint8_t*>(&raw));
  }
  COLL_CHECK_NOTE(false, "not a narrow float");
}

template <DataType kType>
uint32_t narrowed(float value) {
  StorageOf<kType> raw{};
  if constexpr (number_kind(kType) == NumberKind::narrow) {
    scalar::NarrowLanes<scalar::NarrowFloat<kType>, 1>::store(reinterpret_cast<uint8_t*>(&raw),
                                                              value);
    return raw;
  }
  COLL_CHECK_NOTE(false, "not a narrow float");
}

}  // namespace

float widen_to_float32(DataType type, uint32_t bits) {
  switch (type) {
#define COLL_DATA_TYPE(id, ...) \
  case DataType::id:            \
    return widened<DataType::id>(bits);
#include "kernels/contract/data_types.inc"
  }
  COLL_CHECK_NOTE(false, "not a type");
}

uint32_t narrow_from_float32(DataType type, float value) {
  switch (type) {
#define COLL_DATA_TYPE(id, ...) \
  case DataType::id:            \
    return narrowed<DataType::id>(value);
#include "kernels/contract/data_types.inc"
  }
  COLL_CHECK_NOTE(false, "not a type");
}

}  // namespace collctl::kernels
