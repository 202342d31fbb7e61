#include "cmd/verify/data_check.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {

using kernels::Collective;

namespace {

constexpr uint64_t kShareBytes = uint64_t(1) << 20;  // less is looked at by one thread

Segment reduced(uint64_t at, uint64_t count, uint64_t first) {
  return {at, count, Segment::Source::reduced, -1, first};
}
Segment from_rank(uint64_t at, uint64_t count, int rank, uint64_t first) {
  return {at, count, Segment::Source::input, rank, first};
}
Segment untouched(uint64_t at, uint64_t count) {
  return {at, count, Segment::Source::untouched, -1, 0};
}

// Every sender's blocks, and nothing where it sends none.
std::vector<Segment> uneven_segments(const BenchOp& op, uint64_t count, const Place& place) {
  const auto share = uneven_share(place.rank, place.nranks, op.pattern);
  std::vector<Segment> segments;
  uint64_t at = 0;
  for (int r = 0; r < place.nranks; ++r) {
    const uint32_t blocks = share->from[size_t(r)];
    segments.push_back(blocks == 0
                           ? untouched(at, count)
                           : from_rank(at, blocks * count, r, share->before[size_t(r)] * count));
    at += room_of(blocks) * count;
  }
  return segments;
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

std::vector<Segment> output_segments(const BenchOp& op, uint64_t count, const Place& place,
                                     bool in_place) {
  if (is_uneven(op)) return uneven_segments(op, count, place);
  const Collective collective = like(op);
  const uint64_t mine = uint64_t(place.rank) * count;
  const int n = place.nranks;
  std::vector<Segment> segments;
  switch (collective) {
    case Collective::all_reduce:
      return {reduced(0, count, 0)};
    case Collective::reduce:
      if (place.rank == place.root) return {reduced(0, count, 0)};
      if (in_place) return {from_rank(0, count, place.rank, 0)};
      return {untouched(0, count)};
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

std::vector<Segment> input_segments(const BenchOp& op, uint64_t count, const Place& place,
                                    bool in_place) {
  const BufferShape shape = buffer_shape(op, count, place);
  if (!in_place) return {from_rank(0, shape.input, place.rank, 0)};
  // The parts of a larger input around the block that is input and output at once.
  if (shape.input <= shape.output) return {};
  const uint64_t begin = shape.in_place_output, end = begin + shape.output;
  return {from_rank(0, begin, place.rank, 0), from_rank(end, shape.input - end, place.rank, end)};
}

DataOracle::DataOracle(const DataKind& kind, int rank)
    : kind_(kind), rank_(rank), own_(input_pattern(kind, rank)) {
  if (kind.reduces) reduced_ = reduced_pattern(kind);
}

Status DataOracle::fill_input(GuardedBuffer& buffer, uint64_t at, uint64_t elements) const {
  const uint64_t size = kernels::element_size(kind_.type);
  return buffer.write(at, elements * size, kPatternPeriod * size,
                      [&](uint8_t* piece, uint64_t offset, uint64_t bytes) {
                        own_.fill(piece, offset / size, bytes / size);
                      });
}

// Elements [first, first + elements) of the segment.
Mismatch DataOracle::compare_piece(const Segment& segment, const Pattern& pattern, uint64_t first,
                                   uint64_t elements, const uint8_t* piece) const {
  Mismatch found = segment.source == Segment::Source::untouched
                       ? compare_poison(piece, elements, kernels::element_size(kind_.type))
                       : pattern.compare(piece, segment.first + first, elements);
  found.first += segment.at + first;
  found.last += segment.at + first;
  return found;
}

Result<Mismatch> DataOracle::compare(const Segment& segment, const GuardedBuffer& buffer,
                                     uint64_t at, int threads) const {
  const uint64_t size = kernels::element_size(kind_.type);
  Pattern other;
  const Pattern* pattern = &reduced_;
  if (segment.source == Segment::Source::input) {
    pattern = &own_;
    if (segment.rank != rank_) {
      other = input_pattern(kind_, segment.rank, {segment.first, segment.count});
      pattern = &other;
    }
  }
  Mismatch total;
  const auto look = [&](const uint8_t* piece, uint64_t offset, uint64_t bytes) {
    const uint64_t elements = bytes / size;
    const uint64_t shares = bytes < kShareBytes ? 1 : uint64_t(std::max(threads, 1));
    std::vector<Mismatch> found(shares);
    const auto compare_share = [&](uint64_t share) {
      const uint64_t from = elements * share / shares, to = elements * (share + 1) / shares;
      found[share] =
          compare_piece(segment, *pattern, offset / size + from, to - from, piece + from * size);
    };
    std::vector<std::jthread> helpers;
    for (uint64_t share = 1; share < shares; ++share) helpers.emplace_back(compare_share, share);
    compare_share(0);
    for (std::jthread& helper : helpers) helper.join();
    for (const Mismatch& part : found) {
      if (part.bad == 0) continue;
      if (total.bad == 0) total.first = part.first;
      total.bad += part.bad;
      total.last = part.last;
    }
  };
  COLL_TRY(buffer.read(at + segment.at * size, segment.count * size, look));
  return total;
}

namespace {

// Elements that nobody has written, from first to last of the output that begins at byte `at`.
Result<uint64_t> count_poisoned(const GuardedBuffer& buffer, uint64_t at, const CheckResult& result,
                                uint32_t size) {
  uint64_t poisoned = 0;
  const uint64_t bytes = (result.last_output - result.first_output + 1) * size;
  COLL_TRY(buffer.read(at + result.first_output * size, bytes,
                       [&](const uint8_t* piece, uint64_t, uint64_t n) {
                         for (uint64_t i = 0; i < n; i += size)
                           poisoned += is_poison(piece + i, size);
                       }));
  return std::min(poisoned, result.bad_outputs);
}

}  // namespace

Result<CheckResult> check_run(const DataOracle& oracle, const BenchOp& op, uint64_t count,
                              const Place& place, const RunBuffers& buffers, int threads) {
  const bool in_place = buffers.input == buffers.output;
  const uint32_t size = kernels::element_size(oracle.kind().type);
  CheckResult result;
  for (const Segment& segment : output_segments(op, count, place, in_place)) {
    COLL_ASSIGN(const Mismatch found,
                oracle.compare(segment, *buffers.output, buffers.output_at, threads));
    if (found.bad == 0) continue;
    if (result.bad_outputs == 0) result.first_output = found.first;
    result.bad_outputs += found.bad;
    result.last_output = found.last;
  }
  if (result.bad_outputs != 0) {
    COLL_ASSIGN(result.still_poisoned,
                count_poisoned(*buffers.output, buffers.output_at, result, size));
  }
  for (const Segment& segment : input_segments(op, count, place, in_place)) {
    COLL_ASSIGN(const Mismatch found,
                oracle.compare(segment, *buffers.input, buffers.input_at, threads));
    if (found.bad == 0) continue;
    if (result.bad_inputs == 0) result.first_input = found.first;
    result.bad_inputs += found.bad;
  }
  COLL_ASSIGN(result.guard_bytes, buffers.output->damaged(buffers.output_bytes));
  if (!in_place) {
    COLL_ASSIGN(const uint64_t more, buffers.input->damaged(buffers.input_bytes));
    result.guard_bytes += more;
  }
  return result;
}

}  // namespace collctl::cmd
