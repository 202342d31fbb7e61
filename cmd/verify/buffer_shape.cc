#include "cmd/verify/buffer_shape.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::cmd {

using kernels::Collective;

Result<std::vector<uint64_t>> size_series(const SizeRange& range) {
  if (range.min_bytes > range.max_bytes)
    return Error{ErrorCode::usage, format("the smallest size ({} bytes) is above the largest ({})",
                                          range.min_bytes, range.max_bytes)};
  if (range.step_bytes == 0 && range.step_factor < 2 && range.min_bytes != range.max_bytes)
    return Error{ErrorCode::usage,
                 format("the step factor is {}; expected 2 or more", range.step_factor)};
  std::vector<uint64_t> sizes;
  uint64_t size = range.min_bytes;
  for (;;) {
    sizes.push_back(size);
    if (sizes.size() > kMaxSizes)
      return Error{ErrorCode::usage,
                   format("more than {} sizes between {} and {} bytes", kMaxSizes, range.min_bytes,
                          range.max_bytes),
                   "use a larger step"};
    if (range.step_bytes != 0) {
      if (range.max_bytes - size < range.step_bytes) break;
      size += range.step_bytes;
    } else {
      if (size == range.max_bytes) break;
      if (size > range.max_bytes / range.step_factor) break;
      // Nothing, and then what holds an element of each type.
      size = size == 0 ? std::min<uint64_t>(8, range.max_bytes) : size * range.step_factor;
    }
  }
  return sizes;
}

SizePoint size_point(const BenchOp& op, uint64_t asked_bytes, int nranks, uint32_t element_bytes) {
  SizePoint point;
  const uint64_t elements = asked_bytes / element_bytes;
  switch (like(op)) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      point.count = elements;
      point.bytes = elements * element_bytes;
      break;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
      point.count = elements / uint64_t(nranks);
      point.bytes = point.count * uint64_t(nranks) * element_bytes;
      break;
    case Collective::barrier:
      break;
  }
  return point;
}

BufferShape buffer_shape(const BenchOp& op, uint64_t count, const Place& place) {
  const uint64_t all = count * uint64_t(place.nranks);
  const uint64_t mine = count * uint64_t(place.rank);
  const bool at_root = place.rank == place.root;
  BufferShape shape;
  shape.has_in_place = has_in_place_form(op);
  switch (like(op)) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      shape.input = shape.output = count;
      break;
    case Collective::all_gather:
      shape.input = count;
      shape.output = all;
      shape.in_place_input = mine;
      break;
    case Collective::reduce_scatter:
      shape.input = all;
      shape.output = count;
      shape.in_place_output = mine;
      break;
    case Collective::gather:  // only the root has an output, only there the two can overlap
      shape.input = count;
      shape.output = at_root ? all : 0;
      shape.in_place_input = at_root ? mine : 0;
      break;
    case Collective::scatter:
      shape.input = at_root ? all : 0;
      shape.output = count;
      shape.in_place_output = at_root ? mine : 0;
      break;
    case Collective::all_to_all:
      shape.input = shape.output = all;
      break;
    case Collective::barrier:
      break;
  }
  if (is_uneven(op)) {
    const auto share = uneven_share(place.rank, place.nranks, op.pattern);
    shape.input = count * share->sends;
    shape.output = count * share->room;
  }
  shape.in_place_elements = std::max(shape.input, shape.output);
  return shape;
}

uint64_t most_input(const BenchOp& op, uint64_t count, int nranks) {
  if (is_uneven(op)) return count * uneven_totals(nranks, op.pattern).input;
  return buffer_shape(op, count, {0, nranks, 0}).input;
}

uint64_t most_output(const BenchOp& op, uint64_t count, int nranks) {
  if (is_uneven(op)) return count * uneven_totals(nranks, op.pattern).room;
  return buffer_shape(op, count, {0, nranks, 0}).output;
}

SizePoint fitting_size(const BenchOp& op, uint64_t asked_bytes, int nranks, uint32_t element_bytes,
                       uint64_t room) {
  const SizePoint asked = size_point(op, asked_bytes, nranks, element_bytes);
  const uint64_t each = std::max(most_input(op, 1, nranks), most_output(op, 1, nranks));
  const uint64_t most = each == 0 ? asked.count : room / (each * element_bytes);
  if (asked.count <= most) return asked;
  return size_point(op, asked.bytes / asked.count * most, nranks, element_bytes);
}

double bus_factor(const BenchOp& op, int nranks) {
  const double n = nranks;
  if (is_uneven(op)) return double(uneven_totals(nranks, op.pattern).busiest) / n;
  switch (like(op)) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
    case Collective::barrier:
      return 1;
  }
  return 1;
}

}  // namespace collctl::cmd
