// Which sizes a bench runs, what they mean for each collective, and the factors of its numbers.
// Pure functions; called by bench_rank and by reports. Sizes follow nccl-tests:
// all_reduce, broadcast, reduce and send_recv move count elements, the others nranks x count.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cmd/verify/uneven.h"

namespace collctl::cmd {

// The asked sizes in bytes, ascending, min_bytes first: times `step_factor` (0 is followed by 8),
// or plus `step_bytes` when that is not 0. Usage error when the series cannot end or is longer than
// kMaxSizes.
inline constexpr uint64_t kMostBytesOnCores = 16u << 20;  // unless it is given
struct SizeRange {
  uint64_t min_bytes = 8, max_bytes = kMostBytesOnCores, step_factor = 2, step_bytes = 0;
};
inline constexpr uint64_t kMaxSizes = 100'000;
Result<std::vector<uint64_t>> size_series(const SizeRange& range);

// One asked size rounded down to whole elements per rank: `bytes` is what is really moved.
struct SizePoint {
  uint64_t bytes = 0, count = 0;
};
SizePoint size_point(const BenchOp& op, uint64_t asked_bytes, int nranks, uint32_t element_bytes);

// Elements of the buffers one rank hands over. An in-place form has one buffer of
// max(input, output) elements, in which input and output begin at the offsets given.
struct BufferShape {
  uint64_t input = 0, output = 0;
  bool has_in_place = true;
  uint64_t in_place_elements = 0, in_place_input = 0, in_place_output = 0;
};
BufferShape buffer_shape(const BenchOp& op, uint64_t count, const Place& place);
// Elements of the largest input and output of any rank, and any root.
uint64_t most_input(const BenchOp& op, uint64_t count, int nranks);
uint64_t most_output(const BenchOp& op, uint64_t count, int nranks);
// As size_point, but with blocks so small that no rank's buffer has more than `room` bytes.
SizePoint fitting_size(const BenchOp& op, uint64_t asked_bytes, int nranks, uint32_t element_bytes,
                       uint64_t room);

// busbw = algbw x factor. Source: nccl-tests (what each link must carry at least); of uneven
// exchanges what the busiest rank must send or take.
double bus_factor(const BenchOp& op, int nranks);

}  // namespace collctl::cmd
