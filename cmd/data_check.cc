#include "cmd/data_check.h"

#include <algorithm>
#include <cstring>

namespace collctl::cmd {

using kernels::Collective;

namespace {

Segment reduced(uint64_t at, uint64_t count, uint64_t first) {
  return {at, count, Segment::Source::reduced, -1, first};
}
Segment from_rank(uint64_t at, uint64_t count, int rank, uint64_t first) {
  return {at, count, Segment::Source::input, rank, first};
}
Segment untouched(uint64_t count) {
  return {0, count, Segment::Source::untouched, -1, 0};
}

bool is_poison(const uint8_t* bytes, uint64_t n) {
  return n == 0 || (bytes[0] == kPoison && std::memcmp(bytes, bytes + 1, n - 1) == 0);
}

Mismatch compare_poison(const uint8_t* bytes, uint64_t elements, uint32_t element_bytes) {
  Mismatch found;
  if (is_poison(bytes, elements * element_bytes)) return found;
  for (uint64_t i = 0; i < elements; ++i) {
    if (is_poison(bytes + i * element_bytes, element_bytes)) continue;
    if (found.bad++ == 0) found.first = i;
    found.last = i;
  }
  return found;
}

}  // namespace

std::vector<Segment> output_segments(Collective collective, uint64_t count, const Place& place,
                                     bool in_place) {
  const uint64_t mine = uint64_t(place.rank) * count;
  const int n = place.nranks;
  std::vector<Segment> segments;
  switch (collective) {
    case Collective::all_reduce:
      return {reduced(0, count, 0)};
    case Collective::reduce:
      if (place.rank == place.root) return {reduced(0, count, 0)};
      if (in_place) return {from_rank(0, count, place.rank, 0)};
      return {untouched(count)};
    case Collective::reduce_scatter:
      return {reduced(0, count, mine)};
    case Collective::broadcast:
      return {from_rank(0, count, place.root, 0)};
    case Collective::send_recv:
      return {from_rank(0, count, (place.rank + n - 1) % n, 0)};
    case Collective::scatter:
      return {from_rank(0, count, place.root, mine)};
    case Collective::all_gather:
    case Collective::gather:
      if (collective == Collective::gather && place.rank != place.root) return {};
      for (int r = 0; r < n; ++r) segments.push_back(from_rank(uint64_t(r) * count, count, r, 0));
      return segments;
    case Collective::all_to_all:
      for (int r = 0; r < n; ++r)
        segments.push_back(from_rank(uint64_t(r) * count, count, r, mine));
      return segments;
    case Collective::barrier:
      return {};
  }
  return {};
}

std::vector<Segment> input_segments(Collective collective, uint64_t count, const Place& place,
                                    bool in_place) {
  const BufferShape shape = buffer_shape(collective, count, place);
  if (!in_place) return {from_rank(0, shape.input, place.rank, 0)};
  // Of the larger buffer, what lies around the block that is input and output at once.
  if (shape.input <= shape.output) return {};
  const uint64_t begin = shape.in_place_output, end = begin + shape.output;
  return {from_rank(0, begin, place.rank, 0), from_rank(end, shape.input - end, place.rank, end)};
}

DataOracle::DataOracle(const DataKind& kind, int rank)
    : kind_(kind), rank_(rank), own_(input_pattern(kind, rank)) {
  if (kind.reduces) reduced_ = reduced_pattern(kind);
}

void DataOracle::fill_input(void* out, uint64_t elements) const {
  own_.fill(out, 0, elements);
}

Mismatch DataOracle::compare(const Segment& segment, const void* buffer) const {
  const uint32_t size = kernels::element_size(kind_.type);
  const uint8_t* bytes = static_cast<const uint8_t*>(buffer) + segment.at * size;
  Mismatch found;
  switch (segment.source) {
    case Segment::Source::untouched:
      found = compare_poison(bytes, segment.count, size);
      break;
    case Segment::Source::reduced:
      found = reduced_.compare(bytes, segment.first, segment.count);
      break;
    case Segment::Source::input:
      if (segment.rank == rank_) {
        found = own_.compare(bytes, segment.first, segment.count);
      } else {
        const Pattern other = input_pattern(kind_, segment.rank, {segment.first, segment.count});
        found = other.compare(bytes, segment.first, segment.count);
      }
      break;
  }
  found.first += segment.at;
  found.last += segment.at;
  return found;
}

CheckResult check_run(const DataOracle& oracle, Collective collective, uint64_t count,
                      const Place& place, const RunBuffers& buffers) {
  const bool in_place = buffers.input == buffers.output;
  const uint32_t size = kernels::element_size(oracle.kind().type);
  CheckResult result;
  const uint8_t* output = buffers.output->data() + buffers.output_at;
  for (const Segment& segment : output_segments(collective, count, place, in_place)) {
    const Mismatch found = oracle.compare(segment, output);
    if (found.bad == 0) continue;
    if (result.bad_outputs == 0) result.first_output = found.first;
    result.bad_outputs += found.bad;
    result.last_output = found.last;
  }
  if (result.bad_outputs != 0) {
    for (uint64_t e = result.first_output; e <= result.last_output; ++e)
      result.still_poisoned += is_poison(output + e * size, size);
    result.still_poisoned = std::min(result.still_poisoned, result.bad_outputs);
  }
  const uint8_t* input = buffers.input->data() + buffers.input_at;
  for (const Segment& segment : input_segments(collective, count, place, in_place)) {
    const Mismatch found = oracle.compare(segment, input);
    if (found.bad == 0) continue;
    if (result.bad_inputs == 0) result.first_input = found.first;
    result.bad_inputs += found.bad;
  }
  result.guard_bytes = buffers.output->damaged(buffers.output_bytes);
  if (!in_place) result.guard_bytes += buffers.input->damaged(buffers.input_bytes);
  return result;
}

}  // namespace collctl::cmd
