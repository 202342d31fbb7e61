// THE table of algorithms: what each serves, what it needs, and its formulas. Planner, proof, help
// and tests read it. To add one: a header in algo/, a row here, and its case in run_algorithm
// (algo/dispatch.h).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/contract/work.h"

namespace collctl::kernels {

struct AlgorithmRow {
  AlgorithmId id;
  const char* name;
  uint32_t collectives;  // bit per Collective it serves
  uint32_t protocols;    // bit per Protocol
  uint32_t min_slots;    // fewer deadlock (shown by the recorder)
  // Formulas for one channel, `nranks` ranks and a part that is one loop of equal chunks: how many
  // chunk steps the longest-working rank takes, and how many elements one rank sends. Source:
  // algo/*.h, where they are derived.
  uint64_t (*steps)(Collective, int nranks);
  uint64_t (*sent_elements)(Collective, int nranks, uint64_t count, int rank, int root);
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

}  // namespace collctl::kernels
