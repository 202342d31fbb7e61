// Two-shot: a reduce-scatter and an all-gather through memory that all ranks map. Each rank reduces
// its own slice from all ranks' memory, then takes the others' finished slices: two barriers per
// piece, and each element is moved as often as by a ring but in two steps. Called by run_algorithm
// on the backend's threads; owns nothing.
//
// all_reduce, n = 4, slices 0 to 3 of a piece, letters are the ranks' contributions:
//
//   rank   stage         arrive   reduce_and_stage    arrive   copy_from_peer
//    0     a1 a2 a3         |     0: a+b+c+d             |     1 2 3
//    1     b0 b2 b3         |     1: a+b+c+d             |     2 3 0
//    2     c0 c1 c3         |     2: a+b+c+d             |     3 0 1
//    3     d0 d1 d2         |     3: a+b+c+d             |     0 1 2
//
// A finished slice goes into its owner's bank where its own contribution would have been: nobody
// reads that place before the second arrival. Each slice is reduced once, so all ranks get the
// same bits.
//
// steps: 2. elements sent by a rank (read by others from its memory): 2(n-1)/n x count.
// A piece is n slices of at most chunk_count elements.
#pragma once
#include "kernels/algo/one_shot.h"

namespace collctl::kernels {

inline constexpr uint32_t kTwoShotServes =
    collective_bit(Collective::all_reduce) | collective_bit(Collective::barrier);

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void two_shot_all_reduce(Backend& backend, const Work& work) {
  const uint64_t ranks = uint64_t(work.nranks), own = uint64_t(work.rank);
  backend.window({work.input, work.output}, [&](auto& w) {
    for (uint64_t done = 0; done < work.part_count && !backend.failed();) {
      const ChunkRow row = ring_loop(work, done, ranks);
      w.next_piece(row.rest < ranks * row.each ? row.rest : ranks * row.each);
      for (int k = 1; k < work.nranks; ++k) {
        const uint64_t peer = uint64_t(one_shot_peer(work, k));
        w.stage(row.at(peer), row.at(peer) - row.first, row.size(peer));
      }
      w.arrive_and_wait();
      w.reduce_and_stage(row.at(own), row.at(own) - row.first, row.at(own), row.size(own), true);
      w.arrive_and_wait();
      for (int k = 1; k < work.nranks; ++k) {
        const int peer = one_shot_peer(work, k);
        const uint64_t slice = uint64_t(peer);
        w.copy_from_peer(peer, row.at(slice) - row.first, row.at(slice), row.size(slice));
      }
      done += ranks * row.each;
    }
  });
}

struct TwoShot {
  static constexpr uint32_t kServes = kTwoShotServes;
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    two_shot_all_reduce(backend, work);
  }
  static uint64_t steps(Collective, int nranks) { return nranks > 1 ? 2 : 0; }
  static uint64_t sent_elements(Collective, int nranks, uint64_t count, int, int) {
    return 2 * static_cast<uint64_t>(nranks - 1) * count / static_cast<uint64_t>(nranks);
  }
};

}  // namespace collctl::kernels
