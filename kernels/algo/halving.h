// Halving: Bruck's all-gather (bruck.h) backwards. Every rank has sums of all blocks, at first its
// own input alone; in each step it hands on the farther ones, to rank + 2^k, and adds what it gets
// to the nearer ones. Called by run_algorithm on the backend's threads; owns nothing. log2 n
// messages instead of a ring's n - 1: the least latency of a reduce-scatter over links.
//
// reduce_scatter, n = 5. Distance d is the block of rank + d; every rank does the same:
//
//            keeps        hands on
//   start    0 1 2 3 4
//   step 0   0 1 2 3      4, to rank + 4, whose distance 0 it is
//   step 1   0 1          2 and 3, to rank + 2: its 0 and 1
//   step 2   0            1, to the next rank: its 0, now of all
//
// Sums lie in Work::scratch, by distance and without gaps, so chunks run across blocks; but for the
// first step's, which are in the input.
//
// steps: with chunks of a block each, n - 1 transfers of one rank, in ceil(log2 n) messages.
// elements sent by a rank: count x (n - 1).
// Slots: a rank sends a chunk before it receives one, so a chunk of s slices needs s slots.
//
// Source: as bruck.h, in reverse.
#pragma once
#include "kernels/algo/bruck.h"

namespace collctl::kernels {

// The distance of the first step: the largest power of two below n.
COLL_FN int halving_first(int n) {
  int have = 1;
  while (have * 2 < n) have *= 2;
  return have;
}

COLL_FN BlockSpec halving_spec(const Work& work, int distance, const void* input) {
  BlockSpec spec;
  spec.send[0] = (work.rank + distance) % work.nranks;
  spec.recv[0] = (work.rank - distance + work.nranks) % work.nranks;
  spec.input = input;
  spec.output = distance == 1 ? element_at(work, work.output, work.part_offset) : work.scratch;
  return spec;
}

// From the input; what gets nothing yet is kept as it is.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void halving_begin(Backend& backend, const Work& work, int have) {
  const int n = work.nranks, more = n - have;
  for (int d = more; d < have; ++d)
    backend.copy(
        element_at(work, work.input,
                   static_cast<uint64_t>((work.rank + d) % n) * work.count + work.part_offset),
        element_at(work, work.scratch, static_cast<uint64_t>(d) * work.part_count),
        work.part_count);
  const BlockSpec spec = halving_spec(work, have, work.input);
  backend.template block<1, 1>(spec, [&](auto& b) {
    BruckBlocks out{work, spec.send[0], more}, in{work, work.rank, more};
    uint64_t at = 0, size = 0, done = 0;
    for (bool moves = true; moves && !backend.failed();) {
      moves = out.next(at, size);
      if (moves) b.send(at, size);
      if (in.next(at, size)) {
        b.recv_reduce(at, done, size, have == 1);
        done += size;
        moves = true;
      }
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void halving_reduce_scatter(Backend& backend, const Work& work) {
  int have = halving_first(work.nranks);
  halving_begin(backend, work, have);
  for (have /= 2; have > 0 && !backend.failed(); have /= 2) {
    const uint64_t half = static_cast<uint64_t>(have) * work.part_count;
    const ChunkRow far = chunk_sequence(work, half, half), near = chunk_sequence(work, 0, half);
    backend.template block<1, 1>(halving_spec(work, have, work.scratch), [&](auto& b) {
      for (uint64_t k = 0; k < chunks_in(near) && !backend.failed(); ++k) {
        b.send(far.at(k), far.size(k));
        b.recv_reduce(near.at(k), near.at(k), near.size(k), have == 1);
      }
    });
  }
}

// Bruck's messages, the other way.
struct Halving : Bruck {
  static constexpr uint32_t kServes = collective_bit(Collective::reduce_scatter);
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    halving_reduce_scatter(backend, work);
  }
  static uint64_t scratch_parts(int nranks) {
    return nranks > 2 ? static_cast<uint64_t>(halving_first(nranks)) : 0;
  }
};

}  // namespace collctl::kernels
