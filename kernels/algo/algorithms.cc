#include "kernels/algo/algorithms.h"

#include <bit>

#include "base/check.h"
#include "kernels/algo/dispatch.h"
#include "kernels/algo/tree_shape.h"

namespace collctl::kernels {
namespace {

// LL128 by GPUs only: links of CPU ranks have no slots for it.
constexpr uint32_t kAllProtocols =
    1u << int(Protocol::simple) | 1u << int(Protocol::ll) | 1u << int(Protocol::ll128);
constexpr uint32_t kSimpleOnly = 1u << int(Protocol::simple);

uint64_t ring_steps(Collective c, int nranks) {
  const bool twice = c == Collective::all_reduce || c == Collective::barrier;
  return (twice ? 2 : 1) * static_cast<uint64_t>(nranks - 1);
}

uint64_t ring_sent(Collective c, int nranks, uint64_t count, int rank, int root) {
  const uint64_t hops = static_cast<uint64_t>(nranks - 1);
  if (hops == 0) return 0;
  switch (c) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return hops * count;
    case Collective::broadcast:
      return (rank + 1) % nranks == root ? 0 : count;
    case Collective::reduce:
      return rank == root ? 0 : count;
    default:
      return 2 * hops * count / static_cast<uint64_t>(nranks);
  }
}

uint64_t tree_steps(Collective, int nranks) {
  return 2 * static_cast<uint64_t>(std::bit_width(static_cast<unsigned>(nranks - 1)));
}

uint64_t tree_sent(Collective, int nranks, uint64_t count, int rank, int) {
  const TreeLinks links = binary_tree(rank, nranks);
  return count * static_cast<uint64_t>((links.up >= 0 ? 1 : 0) + child_count(links));
}

uint64_t pairwise_steps(Collective c, int nranks) {
  if (c == Collective::send_recv) return nranks > 1 ? 1 : 0;
  return static_cast<uint64_t>(nranks - 1);
}

uint64_t pairwise_sent(Collective c, int nranks, uint64_t count, int rank, int root) {
  const uint64_t others = static_cast<uint64_t>(nranks - 1);
  switch (c) {
    case Collective::gather:
      return rank == root ? 0 : count;
    case Collective::scatter:
      return rank == root ? others * count : 0;
    case Collective::all_to_all:
      return others * count;
    default:
      return others > 0 ? count : 0;
  }
}

uint64_t doubling_steps(Collective, int nranks) {
  const int core = doubling_core(nranks), outsiders = nranks - core;
  const int around = outsiders == 0 ? 0 : outsiders <= core / 2 ? 1 : 2;
  return static_cast<uint64_t>(std::countr_zero(static_cast<unsigned>(core)) + around);
}

uint64_t doubling_sent(Collective, int nranks, uint64_t count, int rank, int) {
  if (nranks == 1) return 0;
  const int core = doubling_core(nranks);
  if (rank >= core) return count;
  const int exchanges = std::countr_zero(static_cast<unsigned>(core));
  return count * static_cast<uint64_t>(exchanges + (rank + core < nranks ? 1 : 0));
}

uint64_t one_shot_steps(Collective, int nranks) {
  return nranks > 1 ? 1 : 0;
}

uint64_t one_shot_sent(Collective c, int nranks, uint64_t count, int rank, int root) {
  const uint64_t others = static_cast<uint64_t>(nranks - 1);
  switch (c) {
    case Collective::broadcast:
    case Collective::scatter:
      return rank == root ? others * count : 0;
    case Collective::reduce:
    case Collective::gather:
      return rank == root ? 0 : count;
    default:
      return others * count;
  }
}

uint64_t two_shot_sent(Collective, int nranks, uint64_t count, int, int) {
  return 2 * static_cast<uint64_t>(nranks - 1) * count / static_cast<uint64_t>(nranks);
}

uint64_t two_shot_steps(Collective, int nranks) {
  return nranks > 1 ? 2 : 0;
}

constexpr AlgorithmRow kRows[] = {
    {AlgorithmId::ring, "ring", kRingServes, kAllProtocols, 2, false, false, ring_steps, ring_sent,
     "each rank passes chunks to the next; best bandwidth, 2(n-1) steps"},
    {AlgorithmId::tree, "tree", kTreeServes, kAllProtocols, 1, false, false, tree_steps, tree_sent,
     "reduces up a binary tree, then broadcasts down; few steps"},
    {AlgorithmId::tree_split, "tree-split", kTreeServes, kAllProtocols, 1, false, false, tree_steps,
     tree_sent, "the tree with reduction and broadcast running at the same time"},
    {AlgorithmId::pairwise, "pairwise", kPairwiseServes, kAllProtocols, 1, false, false,
     pairwise_steps, pairwise_sent,
     "rounds of one direct send and one receive between pairs of ranks"},
    {AlgorithmId::doubling, "doubling", kDoublingServes, kAllProtocols, 1, false, false,
     doubling_steps, doubling_sent,
     "recursive doubling: partners exchange everything, log2 n times; least latency over links"},
    {AlgorithmId::one_shot, "one-shot", kOneShotServes, kSimpleOnly, 1, true, false, one_shot_steps,
     one_shot_sent, "each rank reads what it needs from memory mapped by all ranks of the host"},
    {AlgorithmId::two_shot, "two-shot", kTwoShotServes, kSimpleOnly, 1, true, false, two_shot_steps,
     two_shot_sent, "each rank reduces its slice in that memory, then reads the others' slices"},
    {AlgorithmId::collnet, "collnet", kTreeServes, kSimpleOnly, 1, false, true, tree_steps,
     tree_sent, "chains inside hosts, in-network reduction (a plugin's CollNet) between them"},
};

}  // namespace

std::span<const AlgorithmRow> algorithms() {
  return kRows;
}

const AlgorithmRow& algorithm(AlgorithmId id) {
  for (const AlgorithmRow& row : kRows)
    if (row.id == id) return row;
  base::check_failed("the algorithm has a row", __FILE__, __LINE__, name_of(id));
}

const AlgorithmRow* find_algorithm(std::string_view name) {
  for (const AlgorithmRow& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace collctl::kernels
