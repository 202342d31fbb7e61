// From a Work to its algorithm: the one switch over algorithms, instantiated once per backend.
// Called by every backend on all of its workers; owns nothing.
#pragma once
#include "kernels/algo/collnet.h"
#include "kernels/algo/doubling.h"
#include "kernels/algo/one_shot.h"
#include "kernels/algo/pairwise.h"
#include "kernels/algo/ring.h"
#include "kernels/algo/symmetric.h"
#include "kernels/algo/tree.h"
#include "kernels/algo/tree_split.h"
#include "kernels/algo/two_shot.h"

namespace collctl::kernels {

// The collectives an algorithm supports, as a set of collective_bit; empty for one without text.
COLL_FN uint32_t collectives_of(AlgorithmId id) {
  switch (id) {
    case AlgorithmId::ring:
      return kRingServes;
    case AlgorithmId::tree:
    case AlgorithmId::tree_split:
    case AlgorithmId::collnet:
      return kTreeServes;
    case AlgorithmId::pairwise:
      return kPairwiseServes;
    case AlgorithmId::doubling:
      return kDoublingServes;
    case AlgorithmId::one_shot:
      return kOneShotServes;
    case AlgorithmId::two_shot:
      return kTwoShotServes;
    default:
      return 0;
  }
}

COLL_FN bool needs_window(AlgorithmId id) {
  return id == AlgorithmId::one_shot || id == AlgorithmId::two_shot;
}

template <class Backend>
inline constexpr bool kHasWindows = requires {
  Backend::kWindows;
};

template <class Backend>
inline constexpr bool kHasShared = requires {
  Backend::kShared;
};

// Runs the work. False, with nothing done, when its algorithm does not support its collective,
// needs windows or shared buffers that the backend lacks, or its chunks have no size: a planner's
// bug, which the caller reports.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN bool run_algorithm(Backend& backend, const Work& work) {
  if ((collectives_of(work.algorithm) & collective_bit(work.collective)) == 0) return false;
  if (work.chunk_count == 0) return false;
  if (needs_window(work.algorithm) && !kHasWindows<Backend>) return false;
  if (shares_buffers(work) && (!kHasShared<Backend> || !needs_window(work.algorithm))) return false;
  if (work.algorithm == AlgorithmId::pairwise) {
    pairwise_rounds(backend, work);
  } else if (work.nranks == 1) {
    backend.copy(element_at(work, work.input, work.part_offset),
                 element_at(work, work.output, work.part_offset), work.part_count);
  } else if (work.algorithm == AlgorithmId::ring) {
    run_ring(backend, work);
  } else if (work.algorithm == AlgorithmId::tree) {
    tree_all_reduce(backend, work);
  } else if (work.algorithm == AlgorithmId::doubling) {
    doubling_all_reduce(backend, work);
  } else if (shares_buffers(work)) {
    if constexpr (kHasShared<Backend>) run_symmetric(backend, work);
  } else if (needs_window(work.algorithm)) {
    if constexpr (kHasWindows<Backend>) {
      if (work.algorithm == AlgorithmId::one_shot)
        run_one_shot(backend, work);
      else
        two_shot_all_reduce(backend, work);
    }
  } else if (work.algorithm == AlgorithmId::collnet) {
    collnet_all_reduce(backend, work);
  } else {
    tree_split_all_reduce(backend, work);
  }
  return true;
}

}  // namespace collctl::kernels
