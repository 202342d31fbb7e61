// Rooted tree: a binary tree below the operation's root, whichever rank that is; chunks follow one
// another down it (broadcast) or up it, added on the way (reduce). Called by run_algorithm on the
// backend's threads; owns nothing. A ring's chain takes n - 1 steps: between many nodes its latency
// is milliseconds. An inner rank sends everything twice, so large broadcasts are a chain's.
//
// broadcast, n = 6, root 0 (binary_tree of tree_shape.h; other roots: all numbers + root, mod n):
//
//        0                                          step 1:  0 -> 4
//         \                                         step 2:  4 -> 2, 4 -> 5
//          4                                        step 3:  2 -> 1, 2 -> 3
//         / \                                       reduce: the same from the last to the first
//        2   5
//       / \                                         (chunk 2 leaves the root while chunk 1 is at 4)
//      1   3
//
// steps: ceil(log2 n), the depth of the tree.
// elements sent by a rank: broadcast: count for each child; reduce: count, the root none.
// Slots: data flows one way and without a cycle, so one slot is enough.
// Partners are at most three of the ranks at a distance of a power of two.
#pragma once
#include <bit>

#include "kernels/algo/tree_shape.h"
#include "kernels/block.h"
#include "kernels/chunk.h"

namespace collctl::kernels {

// This rank's place in the tree below `root`.
COLL_FN TreeLinks rooted_tree(int rank, int nranks, int root) {
  TreeLinks links = binary_tree((rank - root + nranks) % nranks, nranks);
  if (links.up >= 0) links.up = (links.up + root) % nranks;
  for (int32_t& child : links.down)
    if (child >= 0) child = (child + root) % nranks;
  return links;
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void rooted_tree_broadcast(Backend& backend, const Work& work) {
  const TreeLinks tree = rooted_tree(work.rank, work.nranks, work.root);
  BlockSpec spec;
  spec.recv[0] = tree.up;
  for (int i = 0; i < kMaxFanOut; ++i) spec.send[i] = tree.down[i];
  spec.input = work.input;
  spec.output = work.output;
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<1, kMaxFanOut>(spec, [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
      if (tree.up < 0)
        b.copy_send(row.at(k), row.at(k), row.size(k));
      else if (tree.down[0] < 0)
        b.recv(row.at(k), row.size(k));
      else
        b.recv_copy_send(row.at(k), row.size(k));
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void rooted_tree_reduce(Backend& backend, const Work& work) {
  const TreeLinks tree = rooted_tree(work.rank, work.nranks, work.root);
  BlockSpec spec;
  for (int i = 0; i < kMaxFanIn; ++i) spec.recv[i] = tree.down[i];
  spec.send[0] = tree.up;
  spec.input = work.input;
  spec.output = work.output;
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<kMaxFanIn, 1>(spec, [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
      if (tree.up < 0)
        b.recv_reduce(row.at(k), row.at(k), row.size(k), kPost);
      else if (tree.down[0] < 0)
        b.send(row.at(k), row.size(k));
      else
        b.recv_reduce_send(row.at(k), row.size(k));
    }
  });
}

struct RootedTree {
  static constexpr uint32_t kServes =
      collective_bit(Collective::broadcast) | collective_bit(Collective::reduce);
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    if (work.collective == Collective::broadcast)
      rooted_tree_broadcast(backend, work);
    else
      rooted_tree_reduce(backend, work);
  }
  static uint64_t steps(Collective, int nranks) {
    return static_cast<uint64_t>(std::bit_width(static_cast<unsigned>(nranks - 1)));
  }
  static uint64_t sent_elements(Collective c, int nranks, uint64_t count, int rank, int root) {
    const TreeLinks tree = rooted_tree(rank, nranks, root);
    const int sends = c == Collective::broadcast ? child_count(tree) : tree.up >= 0 ? 1 : 0;
    return count * static_cast<uint64_t>(sends);
  }
  template <class Visit>
  static void partners(int rank, int nranks, int root, Visit visit) {
    const TreeLinks tree = rooted_tree(rank, nranks, root);
    if (tree.up >= 0) visit(tree.up);
    for (int32_t child : tree.down)
      if (child >= 0) visit(child);
  }
};

}  // namespace collctl::kernels
