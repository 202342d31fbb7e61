// THE table of algorithms (algorithms.inc) as values: what each supports, what it needs, and its
// formulas. Planner, proof, help and tests read it. To add one: a header beside it and a row there.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "kernels/algo/texts.h"
#include "kernels/contract/work.h"

namespace collctl::kernels {

struct AlgorithmRow {
  AlgorithmId id;
  const char* name;
  uint32_t collectives;  // bit per Collective it supports
  uint32_t protocols;    // bit per Protocol
  uint32_t min_slots;    // of chunks of one slice; fewer deadlock (shown by the recorder)
  Over over;
  bool window;   // over memory that all ranks map, not over fifos
  bool network;  // needs in-network reduction (without it, a tree's text)
  // Formulas for one channel, `nranks` ranks and a part that is one loop of equal chunks. steps:
  // the transfers that must follow one another, either because each carries what the one before
  // brought or because one rank makes them all (a verb to several peers is one; over a window, all
  // that is read after one arrival). sent_elements: what `rank` sends to others (over a window:
  // what they read of it), rings in the order of ranks, trees as in algo/tree_shape.h. Source:
  // algo/*.h, where they are derived; proved by the recorder.
  uint64_t (*steps)(Collective, int nranks);
  uint64_t (*sent_elements)(Collective, int nranks, uint64_t count, int rank, int root);
  // Over partners: add(peer) for each that the rank has links with, both ways, in an operation with
  // this root (-1: none). Null: others.
  void (*partners)(int rank, int nranks, int root, const std::function<void(int)>& add);
  const char* help;
};

std::span<const AlgorithmRow> algorithms();
const AlgorithmRow& algorithm(AlgorithmId id);
const AlgorithmRow* find_algorithm(std::string_view name);
inline bool serves(const AlgorithmRow& row, Collective c) {
  return (row.collectives >> int(c) & 1) != 0;
}
inline bool serves(const AlgorithmRow& row, Protocol p) {
  return (row.protocols >> int(p) & 1) != 0;
}
// The bytes of Work::scratch that an algorithm's work on a part of so many bytes needs; 0: none.
uint64_t scratch_bytes(AlgorithmId id, int nranks, uint64_t part_bytes);
inline uint64_t scratch_bytes(const Work& w) {
  return scratch_bytes(w.algorithm, w.nranks, w.part_count * element_size(w.type));
}
// The counts that the busiest sender sends, with rank 0 as the root.
double most_sent(const AlgorithmRow& row, Collective collective, int nranks);
// The most slices a chunk may be cut into (slices.h): a ring holds a whole chunk in its slots while
// it needs one more. 0: too few slots for this algorithm.
inline uint32_t most_slices(const AlgorithmRow& row, uint32_t slot_count) {
  return slot_count < row.min_slots ? 0 : slot_count - row.min_slots + 1;
}

}  // namespace collctl::kernels
