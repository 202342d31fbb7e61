#include "topology/cluster/double_tree.h"

#include <bit>

#include "base/check.h"

namespace collctl::topology {
namespace {

BinaryPlace first_tree(int n, int p) {
  BinaryPlace place;
  // The root stands as if it hung below a power of two that is no position.
  const int bit = p == 0 ? int(std::bit_ceil(unsigned(n))) : p & -p;
  if (p != 0) {
    const int without = p & ~bit, above = without | 2 * bit;
    place.up = above < n ? above : without;
    place.side = p < place.up ? 0 : 1;
  }
  int children = 0;
  if (p != 0 && bit > 1) place.down[children++] = p - bit / 2;
  int offset = bit / 2;
  while (offset > 0 && p + offset >= n) offset /= 2;
  if (offset > 0) place.down[children] = p + offset;
  return place;
}

}  // namespace

BinaryPlace double_binary_tree(int tree, int n, int position) {
  COLL_CHECK(position >= 0 && position < n);
  if (tree == 0) return first_tree(n, position);
  const bool mirror = n % 2 == 0;
  const auto to_first = [&](int p) { return mirror ? n - 1 - p : (p + n - 1) % n; };
  const auto back = [&](int p) { return p < 0 ? -1 : mirror ? n - 1 - p : (p + 1) % n; };
  BinaryPlace place = first_tree(n, to_first(position));
  place.up = back(place.up);
  for (int& down : place.down) down = back(down);
  return place;
}

int double_tree_depth(int n) {
  return n <= 1 ? 0 : int(std::bit_width(unsigned(n - 1)));
}

}  // namespace collctl::topology
