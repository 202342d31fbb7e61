// The binary tree that formulas and proofs count on: rank 0 is the root, a rank with lowest set bit
// b is a child of the rank without b but with 2b (without b alone when that is none), and has the
// children b/2 to either side. Depth ceil(log2 n), every rank at most two children. Called by the
// table's formulas and by tests; values only. Planners may wire other trees.
#pragma once
#include "kernels/contract/work.h"

namespace collctl::kernels {

COLL_FN TreeLinks binary_tree(int rank, int nranks) {
  TreeLinks links = {-1, {-1, -1, -1}};
  int lowest = 1;
  if (rank == 0) {
    while (lowest < nranks) lowest *= 2;  // as if the root hung below the top
  } else {
    while ((rank & lowest) == 0) lowest *= 2;
    const int above = (rank & ~lowest) | (2 * lowest);
    links.up = above < nranks ? above : rank & ~lowest;
  }
  int children = 0;
  if (rank != 0 && lowest > 1) links.down[children++] = rank - lowest / 2;
  int right = lowest / 2;
  while (right > 0 && rank + right >= nranks) right /= 2;
  if (right > 0) links.down[children] = rank + right;
  return links;
}

COLL_FN int child_count(const TreeLinks& links) {
  int children = 0;
  while (children < kMaxFanIn && links.down[children] >= 0) ++children;
  return children;
}

}  // namespace collctl::kernels
