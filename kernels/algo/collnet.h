// CollNet: a chain inside each host reduces to its head; the network reduces what the heads give
// it and returns the sum to every head, which sends it down the chain again. Called by
// run_algorithm on the backend's threads; owns nothing. The head's parent is itself: what it sends
// to its own rank goes into the network, what it receives from there is the network's result
// (transport/net/plugin/reducer.h).
//
// n = 4 on two hosts, chains 0 - 1 and 2 - 3, three chunks a b c (capitals: final):
//
//      network        step      1     2     3     4     5
//      /      \       1 -> 0    a     b     c                   the same on the other host: 3 -> 2,
//     0        2      0 -> net        a     b     c             2 -> net, net -> 2, 2 -> 3
//     |        |      net -> 0              A     B     C
//     1        3      0 -> 1                      A     B ...
//
// steps: 2 x length of the longest chain. elements sent by a rank: count x (one up + one per rank
//   behind it). Ranks that are joined into one tree without a network are the split tree.
// Slots: one is enough; the paths up and down have no cycle, and the network takes a chunk when all
//   heads have it and room for its sum. An average is a sum that the network's link divides.
#pragma once
#include "kernels/algo/tree_split.h"

namespace collctl::kernels {

struct Collnet : TreeSplit {};

}  // namespace collctl::kernels
