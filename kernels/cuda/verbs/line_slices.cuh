// The common parts of LL and LL128: the data announces itself, so only free slots are waited for
// before a slice; all threads move, each looks for the flags of its own lines, and they synchronize
// behind.
//
// Lines is a protocol: kProtocol, wire_bytes(data bytes), Copy and Reduce<type, op>, each with
// run(LineArguments), called by all threads of the team.
#pragma once
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/verbs/fifo_ends.cuh"

namespace collctl::kernels::cuda {

static __device__ WaitFor line_of(const Team& team, int i, uint64_t wanted) {
  const TeamScratch& scratch = team.scratch;
  return {scratch.source_peer[team.side()][i], WaitSide::recv, scratch.source_step[team.side()][i],
          wanted};
}
// For a thread that has waited for a line of source i since `start`: true when it must stop.
static __device__ __noinline__ bool line_must_abort(Team& team, int i, uint64_t seen,
                                                    uint64_t wanted, int64_t start) {
  if (!team.must_abort(line_of(team, i, wanted), seen, start, team.index < kWarp)) return false;
  team.fail();
  return true;
}

// The wait for lines of source i, as read_slot asks: whether this warp looks at the clock at once,
// whether this thread must stop, and that the wait is over.
struct LineWait {
  Team& team;
  const int i;
  const uint64_t wanted;
  __device__ bool counts() const { return team.counts_waits() && team.index < kWarp; }
  __device__ bool must_abort(uint64_t seen, int64_t start) const {
    return line_must_abort(team, i, seen, wanted, start);
  }
  __device__ void over(int64_t start) const {
    if (team.index == 0) team.waited(line_of(team, i, wanted), start);
  }
};

struct LineArguments {
  Team* team;
  const TeamScratch* scratch;
  uint32_t side;      // of the scratch
  const uint8_t* in;  // the caller's data, or null
  uint8_t* out;       // likewise
  int in_count, out_count;
  int index, count;  // this thread of all that move
  uint64_t bytes;    // of data
  Finish finish;

  __device__ const uint8_t* source(int i) const { return scratch->source[side][i]; }
  __device__ uint64_t source_step(int i) const { return scratch->source_step[side][i]; }
  __device__ uint8_t* target(int i) const { return scratch->target[side][i]; }
  __device__ uint64_t target_step(int i) const { return scratch->target_step[side][i]; }
  __device__ uint32_t target_fill(int i) const { return scratch->target_fill[side][i]; }
  __device__ LineWait wait(int i, uint64_t wanted) const { return {*team, i, wanted}; }
};

// --- A thread's words of 8 bytes in the caller's memory: `words` of them side by side at `at`, at
// + stride, ... of `bytes`. Whole aligned words are moved here, all else out of line.

struct WordPlaces {
  uint64_t bytes, at;
  uint32_t stride;
  int words;
  __device__ uint64_t of(int u, int w) const { return at + uint64_t(u) * stride + 8 * w; }
};
static __device__ __noinline__ void load_odd_words(const uint8_t* in, const WordPlaces& places,
                                                   int count, int width, uint64_t* data) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const uint64_t at = places.of(i / width, i % width);
    if (i % width < places.words && at < places.bytes)
      data[i] = load_word(in + at, int64_t(places.bytes - at));
  }
}
static __device__ __noinline__ void store_odd_words(uint8_t* out, const WordPlaces& places,
                                                    int count, int width, const uint64_t* data) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const uint64_t at = places.of(i / width, i % width);
    if (i % width < places.words && at < places.bytes)
      store_word(out + at, int64_t(places.bytes - at), data[i]);
  }
}

// Bytes behind the end are zero.
template <int kWidth, int kCount>
__device__ __forceinline__ void load_words(const uint8_t* in, const WordPlaces& places,
                                           uint64_t (&data)[kCount]) {
  const bool aligned = reinterpret_cast<uintptr_t>(in) % 8 == 0;
  bool odd = false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint64_t at = places.of(i / kWidth, i % kWidth);
    const bool mine = i % kWidth < places.words && at < places.bytes;
    data[i] = 0;
    if (mine && aligned && at + 8 <= places.bytes)
      data[i] = *reinterpret_cast<const volatile uint64_t*>(in + at);
    else
      odd |= mine;
  }
  if (!odd) return;
  uint64_t all[kCount] = {};
  load_odd_words(in, places, kCount, kWidth, all);
#pragma unroll
  for (int i = 0; i < kCount; ++i) data[i] = all[i];
}
template <int kWidth, int kCount>
__device__ __forceinline__ void store_words(uint8_t* out, const WordPlaces& places,
                                            const uint64_t (&data)[kCount]) {
  const bool aligned = reinterpret_cast<uintptr_t>(out) % 8 == 0;
  bool odd = false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint64_t at = places.of(i / kWidth, i % kWidth);
    const bool mine = i % kWidth < places.words && at < places.bytes;
    if (mine && aligned && at + 8 <= places.bytes)
      *reinterpret_cast<uint64_t*>(out + at) = data[i];
    else
      odd |= mine;
  }
  if (!odd) return;
  uint64_t all[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) all[i] = data[i];
  store_odd_words(out, places, kCount, kWidth, all);
}

template <class Lines>
struct LineSlices {
  static constexpr Protocol kProtocol = Lines::kProtocol;
  static constexpr bool kPoster = false;

  __device__ void move(Team& team, FifoEnds& ends, const Motion& m, uint64_t bytes) {
    const bool receives = ends.receives(m), sends = ends.sends(m);
    if (receives) ends.offer_source(team, false);
    if (sends) ends.offer_target(team);
    team.sync();
    if (team.failed()) return;
    LineArguments a{};
    a.team = &team;
    a.scratch = &team.scratch;
    a.side = team.side();
    a.index = team.index;
    a.count = team.count;
    a.in = m.in;
    a.out = m.out;
    a.in_count = m.receive ? ends.in_count : 0;
    a.out_count = m.send ? ends.out_count : 0;
    a.bytes = bytes;
    a.finish = {m.divisor, is_signed_integer(team.work().type)};
    if (m.in != nullptr && (a.in_count > 0 || m.divisor > 1))
      with_type_and_op<Lines::template Reduce>(team.work().type, team.work().op, a);
    else
      Lines::Copy::run(a);
    team.sync();
    if (team.failed()) return;
    if (sends) {
      if (ends.proxied()) {
        ends.record(ends.fills_slot() ? ends.slot_bytes() : Lines::wire_bytes(bytes));
        if (!ends.flags_tell()) fence_system();
      }
      ends.publish();
    }
    if (receives) ends.release();
  }
  __device__ void close(Team&, FifoEnds&) {}
};

}  // namespace collctl::kernels::cuda
