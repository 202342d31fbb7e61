// The double binary tree: two binary trees over positions 0..n-1 whose inner places are leaves of
// the other, so that together they use every position's links evenly. Between nodes it carries the
// trees of a cluster, inside a host those of CPU ranks. Used by cluster and by runtime/plan/shape.
// Pure; threads: any.
#pragma once

namespace collctl::topology {

// A place in a tree; -1 for none, children from the front.
struct BinaryPlace {
  int up = -1;
  int down[2] = {-1, -1};
  int side = 0;  // which child it is of `up`: 0 below it in the tree's own count, 1 above
};

// tree 0: root 0; with b = lowest set bit of p: parent (p without b) with bit 2b set, or p without
// b when that is >= n; children p - b/2 and p + b/2, the offset of the second halved while it falls
// outside; the root's one child is the highest power of two below n. tree 1: the same, mirrored for
// even n, shifted by one for odd n (where position 0 is an inner place of both). Source:
// NCCL's published trees. Requires 0 <= position < n.
BinaryPlace double_binary_tree(int tree, int n, int position);

// Levels below the root, equal for both: ceil(log2 n). The lowest is reached from the root by
// 2^k, 2^(k-1), ..., 1 with 2^k the highest power of two below n: k + 1 steps.
int double_tree_depth(int n);

}  // namespace collctl::topology
