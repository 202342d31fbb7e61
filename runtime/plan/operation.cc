// Checks of an operation's arguments that return to the caller at once.
#include "runtime/plan/operation.h"

#include <limits>

#include "base/format.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/shared.h"

namespace collctl::runtime {
namespace {

Error wrong(const Operation& op, const std::string& what) {
  return {ErrorCode::usage, format("{}: {}", kernels::name_of(op.collective), what)};
}

struct Extent {
  uint64_t input = 0, output = 0;  // elements this rank reads and writes
  // Where, in elements, the input may stand inside the output or the output inside the input.
  uint64_t input_in_output = 0, output_in_input = 0;
  bool in_place = true;
};

Extent extent_of(const Operation& op, int rank, int nranks) {
  const uint64_t n = uint64_t(nranks), mine = uint64_t(rank) * op.count;
  const bool root = op.root == rank;
  switch (op.collective) {
    case Collective::all_gather:
      return {op.count, n * op.count, mine, 0, true};
    case Collective::reduce_scatter:
      return {n * op.count, op.count, 0, mine, true};
    case Collective::gather:
      return {op.count, root ? n * op.count : 0, root ? mine : 0, 0, true};
    case Collective::scatter:
      return {root ? n * op.count : 0, op.count, 0, root ? mine : 0, true};
    case Collective::all_to_all:
      return {n * op.count, n * op.count, 0, 0, false};
    case Collective::broadcast:
      return {root ? op.count : 0, op.count, 0, 0, true};
    case Collective::reduce:
      return {op.count, root ? op.count : 0, 0, 0, true};
    default:
      return {op.count, op.count, 0, 0, true};
  }
}

Status check_buffers(const Operation& op, int rank, int nranks) {
  const Extent e = extent_of(op, rank, nranks);
  const uint64_t size = kernels::element_size(op.type);
  if (e.input > 0 && op.input == nullptr)
    return wrong(op, format("the input buffer of rank {} is null", rank));
  if (e.output > 0 && op.output == nullptr)
    return wrong(op, format("the output buffer of rank {} is null", rank));
  if (e.input == 0 || e.output == 0) return {};
  const auto in = reinterpret_cast<uintptr_t>(op.input);
  const auto out = reinterpret_cast<uintptr_t>(op.output);
  const bool apart = in + e.input * size <= out || out + e.output * size <= in;
  if (apart) return {};
  if (!e.in_place) return wrong(op, "input and output overlap; it cannot run in place");
  if (in + e.output_in_input * size != out + e.input_in_output * size)
    return wrong(
        op, format("input and output of rank {} overlap, but not as its in-place form requires "
                   "(the smaller one must be this rank's own block of the larger)",
                   rank));
  return {};
}

Status check_message(const Operation& op, int nranks) {
  if (op.peer < 0 || op.peer >= nranks)
    return wrong(op, format("peer {} is outside 0..{}", op.peer, nranks - 1));
  if ((op.input != nullptr) == (op.output != nullptr))
    return wrong(op, "exactly one of input (to send) and output (to receive) must be given");
  return {};
}

}  // namespace

OperationBytes operation_bytes(const Operation& op, int rank, int nranks) {
  const Extent e = extent_of(op, rank, nranks);
  const uint64_t size = kernels::element_size(op.type);
  return {e.input * size, e.output * size};
}

Status check_operation(const Operation& op, int rank, int nranks) {
  const uint64_t size = kernels::element_size(op.type);
  if (int(op.collective) >= kernels::kCollectiveCount || int(op.type) >= kernels::kDataTypeCount ||
      int(op.op) >= kernels::kRedOpCount)
    return Error(ErrorCode::usage, "unknown collective, data type or reduction");
  const uint64_t most = uint64_t(std::numeric_limits<int64_t>::max()) / size / uint64_t(nranks);
  if (op.count > most)
    return wrong(op, format("{} elements of {} on {} ranks overflow", op.count,
                            kernels::name_of(op.type), nranks));
  switch (op.collective) {
    case Collective::send_recv:
      return check_message(op, nranks);
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::gather:
    case Collective::scatter:
      if (op.root < 0 || op.root >= nranks)
        return wrong(op, format("root {} is outside 0..{}", op.root, nranks - 1));
      break;
    default:
      break;
  }
  return check_buffers(op, rank, nranks);
}

}  // namespace collctl::runtime
