// Symmetric: every rank's buffers are mapped by all, so data goes from input to output in one move,
// without a bank or a fifo between. Two arrivals: all are there, all are done. Called by
// run_algorithm on the backend's threads; owns nothing.
//
// all_reduce, n = 4, slices 0 to 3, letters are the ranks' contributions; each slice is summed
// once, in the order of ranks, so all have the same bits:
//
//   rank   arrive   reduce (reads all inputs, writes all outputs)   arrive
//    0       |      0: a+b+c+d                                         |
//    1       |      1: a+b+c+d                                         |
//    2       |      2: a+b+c+d                                         |
//    3       |      3: a+b+c+d                                         |
//
// In place, too: a slice of a rank's buffer is read and written by the slice's rank alone.
// reduce alike, to the root's output only: all ranks share its work. Others:
//   reduce_scatter   by load: each rank sums its own block of all inputs
//   all_gather       by store: each rank puts its input into all outputs
//   all_to_all       by store: each rank puts its blocks into the others' outputs
//   broadcast        by load: each rank takes the root's input; scatter: its block of it
//   gather           by store: each rank puts its input into the root's output
//
// steps: 2 (the two arrivals).
// elements sent by a rank (read by others from its input, or stored by it into others' outputs):
//   all_reduce            2(n-1)/n x count
//   reduce                (n-1)/n x count, and 1/n x count more from all but the root: its slice
//   all_gather, reduce_scatter, all_to_all   (n-1) x count
//   gather                count, the root none
//   broadcast, scatter    (n-1) x count from the root
//
// Source: the symmetric kernels of GPU libraries (two-shot by load and store).
#pragma once
#include "kernels/algo/one_shot.h"
#include "kernels/shared_block.h"

namespace collctl::kernels {

inline constexpr uint32_t kSymmetricServes =
    collective_bit(Collective::all_reduce) | collective_bit(Collective::all_gather) |
    collective_bit(Collective::reduce_scatter) | collective_bit(Collective::broadcast) |
    collective_bit(Collective::reduce) | collective_bit(Collective::gather) |
    collective_bit(Collective::scatter) | collective_bit(Collective::all_to_all);

// The part in one slice for each rank.
COLL_FN ChunkRow symmetric_slices(const Work& work) {
  const uint64_t grain = chunk_grain(work.type), ranks = uint64_t(work.nranks);
  const uint64_t share = (work.part_count + ranks - 1) / ranks;
  return {work.part_offset, (share + grain - 1) / grain * grain, work.part_count};
}

COLL_NO_EXEC_CHECK
template <class Shared>
COLL_FN void symmetric_moves(Shared& s, const Work& work) {
  const uint64_t at = work.part_offset, n = work.part_count;
  const uint64_t own = uint64_t(work.rank), mine = own * work.count + at;
  const uint64_t slice = symmetric_slices(work).at(own), slice_n = symmetric_slices(work).size(own);
  switch (work.collective) {
    case Collective::all_gather:
      return s.copy(work.rank, at, kEverybody, mine, n);
    case Collective::reduce_scatter:
      return s.reduce(work.rank, mine, at, n, true);
    case Collective::broadcast:
      return s.copy(work.root, at, work.rank, at, n);
    case Collective::scatter:
      return s.copy(work.root, mine, work.rank, at, n);
    case Collective::gather:
      return s.copy(work.rank, at, work.root, mine, n);
    case Collective::all_to_all:
      for (int k = 0; k < work.nranks; ++k) {
        const int peer = one_shot_peer(work, k);
        s.copy(work.rank, uint64_t(peer) * work.count + at, peer, mine, n);
      }
      return;
    case Collective::reduce:
      return s.reduce(work.root, slice, slice, slice_n, true);
    default:
      return s.reduce(kEverybody, slice, slice, slice_n, true);
  }
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void run_symmetric(Backend& backend, const Work& work) {
  if (work.part_count == 0) return;
  backend.shared([&](auto& s) {
    s.arrive_and_wait();
    symmetric_moves(s, work);
    s.arrive_and_wait();
  });
}

}  // namespace collctl::kernels
