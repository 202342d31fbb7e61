// Tree: sums move up to the root chunk by chunk, then the result moves down the same tree. Called
// by run_algorithm on the backend's threads; owns nothing. Few steps for many ranks, so it suits
// small messages; all chunks move up before the first moves down (tree_split.h overlaps the two).
//
// all_reduce, n = 4 (binary tree, tree_shape.h), one chunk:
//
//        0  = root: receives, reduces, post          step 1:  1 -> 2, 3 -> 2    up
//        |                                           step 2:  2 -> 0            (post at 0)
//        2                                           step 3:  0 -> 2            down
//       / \                                          step 4:  2 -> 1, 2 -> 3
//      1   3
//
// steps: 2 x depth, ceil(log2 n) being the depth of the binary tree.
// elements sent by a rank: count x (one up, unless root, + one per child down); all ranks together
//   2(n-1) x count.
// Slots: the flow up and the flow down each have no cycle, so one slot is enough.
#pragma once
#include <bit>

#include "kernels/algo/tree_shape.h"
#include "kernels/block.h"
#include "kernels/chunk.h"

namespace collctl::kernels {

inline constexpr uint32_t kTreeServes =
    collective_bit(Collective::all_reduce) | collective_bit(Collective::barrier);

COLL_FN bool tree_is_root(const Work& work) {
  return work.tree.up < 0;
}
COLL_FN bool tree_is_leaf(const Work& work) {
  return work.tree.down[0] < 0;
}

// Fan-in from the children, one send up.
COLL_FN BlockSpec tree_up_spec(const Work& work) {
  BlockSpec spec;
  for (int i = 0; i < kMaxFanIn; ++i) spec.recv[i] = work.tree.down[i];
  spec.send[0] = work.tree.up;
  spec.input = work.input;
  spec.output = work.output;
  return spec;
}

// From the parent, fan-out to the children.
COLL_FN BlockSpec tree_down_spec(const Work& work) {
  BlockSpec spec;
  spec.recv[0] = work.tree.up;
  for (int i = 0; i < kMaxFanOut; ++i) spec.send[i] = work.tree.down[i];
  spec.input = work.input;
  spec.output = work.output;
  return spec;
}

// The sums moving up; the root keeps the result.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void tree_reduce_up(Backend& backend, const Work& work) {
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<kMaxFanIn, 1>(tree_up_spec(work), [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
      if (tree_is_root(work))
        b.recv_reduce(row.at(k), row.at(k), row.size(k), kPost);
      else if (tree_is_leaf(work))
        b.send(row.at(k), row.size(k));
      else
        b.recv_reduce_send(row.at(k), row.size(k));
    }
  });
}

// The result moving down from the root's output.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void tree_send_down(Backend& backend, const Work& work) {
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<1, kMaxFanOut>(tree_down_spec(work), [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
      if (tree_is_root(work))
        b.send_from_output(row.at(k), row.size(k));
      else if (tree_is_leaf(work))
        b.recv(row.at(k), row.size(k));
      else
        b.recv_copy_send(row.at(k), row.size(k));
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void tree_all_reduce(Backend& backend, const Work& work) {
  tree_reduce_up(backend, work);
  tree_send_down(backend, work);
}

struct Tree {
  static constexpr uint32_t kServes = kTreeServes;
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    tree_all_reduce(backend, work);
  }
  static uint64_t steps(Collective, int nranks) {
    return 2 * static_cast<uint64_t>(std::bit_width(static_cast<unsigned>(nranks - 1)));
  }
  static uint64_t sent_elements(Collective, int nranks, uint64_t count, int rank, int) {
    const TreeLinks links = binary_tree(rank, nranks);
    return count * static_cast<uint64_t>((links.up >= 0 ? 1 : 0) + child_count(links));
  }
};

}  // namespace collctl::kernels
