// The texts of all algorithms. A class of each, whose name is in the table, has
//   kServes                       the collectives that it supports, as bits
//   run(backend, work)            the text itself: on every backend, in all its workers, for more
//                                 ranks than one (rounds: for one as well)
//   steps(collective, nranks)     AlgorithmRow has what these two count; the header derives them,
//   sent_elements(...)            the recorder proves them
//   partners(rank, nranks, root, visit)
//                                 over partners only: visit(peer) for whom the rank exchanges with
//   scratch_parts(nranks)         if it needs Work::scratch: for so many times the part
#pragma once
#include "kernels/algo/ids.h"
#define COLL_ALGORITHM_TEXTS
#include "kernels/algo/algorithms.inc"
#undef COLL_ALGORITHM_TEXTS

namespace collctl::kernels {

// The links or the memory that an algorithm's data goes over.
enum class Over : uint8_t {
  ring,      // the channel's ring: links that CPU ranks make at the start
  tree,      // likewise its tree
  partners,  // links of its own, made at the first use
  rounds,    // links of the planner's rounds between pairs (Work::pairs), likewise
  window,    // memory that all ranks map
  network    // chains, and in-network reduction
};

// LL128 by GPUs only: links of CPU ranks have no slots for it.
inline constexpr uint32_t kAllProtocols =
    1u << int(Protocol::simple) | 1u << int(Protocol::ll) | 1u << int(Protocol::ll128);
inline constexpr uint32_t kSimpleOnly = 1u << int(Protocol::simple);

}  // namespace collctl::kernels
