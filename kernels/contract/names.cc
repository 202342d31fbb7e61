#include <array>
#include <cstddef>

#include "base/check.h"
#include "kernels/contract/types.h"

namespace collctl::kernels {
namespace {

template <class Entry, size_t kCount, class Enum>
const Entry& pick(const std::array<Entry, kCount>& entries, Enum value) {
  COLL_CHECK_NOTE(static_cast<size_t>(value) < kCount, "an enumeration holds no known value");
  return entries[static_cast<size_t>(value)];
}

constexpr std::array<DataTypeRow, kDataTypeCount> kTypes{{
#define COLL_DATA_TYPE(id, kind, storage, nccl, nccl_tests, others) {#id, nccl, nccl_tests, others},
#include "kernels/contract/data_types.inc"
}};
constexpr std::array<const char*, kRedOpCount> kOps = {"sum", "prod", "min", "max", "avg"};
constexpr std::array<const char*, kCollectiveCount> kCollectives = {
    "allreduce", "allgather", "reducescatter", "broadcast", "reduce",
    "gather",    "scatter",   "alltoall",      "sendrecv",  "barrier"};
constexpr std::array<const char*, kProtocolCount> kProtocols = {"simple", "ll", "ll128"};

}  // namespace

const DataTypeRow& row_of(DataType type) {
  return pick(kTypes, type);
}
const char* name_of(DataType type) {
  return row_of(type).name;
}
const char* name_of(RedOp op) {
  return pick(kOps, op);
}
const char* name_of(Collective collective) {
  return pick(kCollectives, collective);
}
const char* name_of(Protocol protocol) {
  return pick(kProtocols, protocol);
}

}  // namespace collctl::kernels
