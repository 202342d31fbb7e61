// Choices: which algorithms and protocols the user allows, from comma lists such as "ring,tree",
// "^tree" or "all" (any case, `_` for `-`), and how many channels. Pure; parsed by the communicator
// from its options, or from the knobs ALGO and PROTO, and read by the planner.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "kernels/contract/types.h"

namespace collctl::runtime {

struct Choices {
  uint32_t algorithms = ~0u;  // bit per AlgorithmId
  uint32_t protocols = ~0u;   // bit per Protocol
  int channels = 0;           // 0: planned
  std::string algo, proto;    // as given, for messages

  bool allows(kernels::AlgorithmId a) const { return (algorithms >> int(a) & 1) != 0; }
  bool allows(kernels::Protocol p) const { return (protocols >> int(p) & 1) != 0; }
};

// Usage error for an unknown name, a list that mixes ^ with plain names, or one that excludes
// everything.
Result<Choices> parse_choices(const std::string& algo, const std::string& proto, int channels);

// A list from NCCL_ALGO or NCCL_PROTO: what of it is for the algorithms here (empty: all are
// allowed), and what is left out: the words that only NCCL knows, and of its per-collective form
// ("ring;allreduce:tree") all that names a collective.
struct NcclList {
  std::string ours, left_out;
};
NcclList nccl_list(const std::string& text);

}  // namespace collctl::runtime
