// Tree split: the tree of tree.h with reduction and broadcast side by side, each with a share
// of the workers, so that chunk k moves down while chunk k + 1 moves up. Called by run_algorithm on
// the backend's threads; owns nothing. The root does both at once in one verb with all workers.
//
// n = 4, three chunks a b c (capitals: final):
//
//        0        step     1     2     3     4     5     6
//        |        1 -> 2   a     b     c
//        2        2 -> 0         a     b     c
//       / \       0 -> 2               A     B     C
//      1   3      2 -> 1,3                   A     B     C
//
// steps and elements: those of the tree (2 x depth; count x (one up + one per child)).
// Slots: one is enough; the broadcast always drains, so the root's verb always continues. In place:
// a chunk is read in the reduction before its sum can arrive, on every rank.
#pragma once
#include "kernels/algo/tree.h"

namespace collctl::kernels {

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void tree_turn_at_root(Backend& backend, const Work& work) {
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  BlockSpec spec = tree_up_spec(work);
  for (int i = 0; i < kMaxFanOut; ++i) spec.send[i] = work.tree.down[i];
  backend.template block<kMaxFanIn, kMaxFanOut>(spec, [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k)
      b.recv_reduce_copy_send(row.at(k), row.at(k), row.size(k), kPost);
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void tree_split_all_reduce(Backend& backend, const Work& work) {
  if (tree_is_root(work)) {
    tree_turn_at_root(backend, work);
    return;
  }
  backend.split([&](auto& part) { tree_reduce_up(part, work); },
                [&](auto& part) { tree_send_down(part, work); });
}

struct TreeSplit : Tree {
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    tree_split_all_reduce(backend, work);
  }
};

}  // namespace collctl::kernels
