// From a Work to its algorithm: the one switch over algorithms, instantiated once per backend.
// Called by every backend on all of its workers; owns nothing.
#pragma once
#include "kernels/algo/symmetric.h"
#include "kernels/algo/texts.h"

namespace collctl::kernels {

// The collectives an algorithm supports, as a set of collective_bit; empty for one without text.
COLL_FN uint32_t collectives_of(AlgorithmId algorithm) {
  switch (algorithm) {
#define COLL_ALGORITHM(id, number, name, Text, ...) \
  case AlgorithmId::id:                             \
    return Text::kServes;
#include "kernels/algo/algorithms.inc"
  }
  return 0;
}

COLL_FN bool is_over(AlgorithmId algorithm, Over what) {
  return false
#define COLL_ALGORITHM(id, number, name, Text, over, ...) \
  || (Over::over == what && algorithm == AlgorithmId::id)
#include "kernels/algo/algorithms.inc"
      ;
}
COLL_FN bool needs_window(AlgorithmId algorithm) {
  return is_over(algorithm, Over::window);
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
  if (work.nranks == 1 && !is_over(work.algorithm, Over::rounds)) {
    backend.copy(element_at(work, work.input, work.part_offset),
                 element_at(work, work.output, work.part_offset), work.part_count);
    return true;
  }
  if (shares_buffers(work)) {
    if constexpr (kHasShared<Backend>) run_symmetric(backend, work);
    return true;
  }
  switch (work.algorithm) {
#define COLL_ALGORITHM(id, number, name, Text, over, ...)                                       \
  case AlgorithmId::id:                                                                         \
    if constexpr (Over::over != Over::window || kHasWindows<Backend>) Text::run(backend, work); \
    break;
#include "kernels/algo/algorithms.inc"
  }
  return true;
}

}  // namespace collctl::kernels
