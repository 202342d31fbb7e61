#include <array>
#include <cstddef>

#include "base/check.h"
#include "kernels/contract/types.h"

namespace collctl::kernels {
namespace {

template <size_t kCount, class Enum>
const char* pick(const std::array<const char*, kCount>& names, Enum value) {
  COLL_CHECK_NOTE(static_cast<size_t>(value) < kCount, "an enumeration holds no known value");
  return names[static_cast<size_t>(value)];
}

constexpr std::array<const char*, kDataTypeCount> kTypes = {
    "int8",    "uint8",    "int32",   "uint32",  "int64",      "uint64",
    "float16", "bfloat16", "float32", "float64", "float8e4m3", "float8e5m2"};
constexpr std::array<const char*, kRedOpCount> kOps = {"sum", "prod", "min", "max", "avg"};
constexpr std::array<const char*, kCollectiveCount> kCollectives = {
    "allreduce", "allgather", "reducescatter", "broadcast", "reduce",
    "gather",    "scatter",   "alltoall",      "sendrecv",  "barrier"};
constexpr std::array<const char*, kProtocolCount> kProtocols = {"simple", "ll", "ll128"};
constexpr std::array<const char*, kAlgorithmCount> kAlgorithms = {
    "ring", "tree", "tree-split", "pairwise", "one-shot", "two-shot", "collnet", "doubling"};

}  // namespace

const char* name_of(DataType type) {
  return pick(kTypes, type);
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
const char* name_of(AlgorithmId algorithm) {
  return pick(kAlgorithms, algorithm);
}

}  // namespace collctl::kernels
