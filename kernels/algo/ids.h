// Which algorithms there are, by number and name (algorithms.inc), for those who name one.
#pragma once
#include "kernels/contract/types.h"

namespace collctl::kernels {

enum class AlgorithmId : uint8_t {
#define COLL_ALGORITHM(id, number, ...) id = number,
#include "kernels/algo/algorithms.inc"
};
inline constexpr int kAlgorithmCount = 0
#define COLL_ALGORITHM(...) +1
#include "kernels/algo/algorithms.inc"
    ;

const char* name_of(AlgorithmId);  // "ring", as on the command line and in JSON

}  // namespace collctl::kernels
