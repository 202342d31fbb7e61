// Places in GPUs' products, and the first at which two products differ. Pure. Threads: values.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cmd/burn/burn.h"
#include "kernels/cuda/burn.h"

namespace collctl::cmd {

inline constexpr const char* kBurnNames[kernels::cuda::kBurnTypes] = {"bf16", "fp8", "fp32",
                                                                      "fp64"};
// "row 5, column 9"; of fp64 also which half of it.
std::string place_text(kernels::cuda::BurnType type, const kernels::cuda::BurnShape& shape,
                       uint64_t word);
// How many words a piece of a part has.
uint64_t piece_words(uint64_t part_words);

// A word in which two products differ.
struct BurnSpot {
  std::string place;
  uint64_t one = 0, other = 0;
};
// The pieces of a part, as each of two devices has it that computes the product again.
using AskPieces = std::function<Result<std::array<std::vector<uint64_t>, 2>>(const BurnPart& part)>;
// The first such word, narrowed down piece by piece; none: the products are alike now. Errors: of
// who is asked; defect: an answer that is none.
Result<std::optional<BurnSpot>> first_difference(const std::string& what, const AskPieces& ask,
                                                 uint32_t rows = kBurnRows,
                                                 uint32_t columns = kBurnColumns);

}  // namespace collctl::cmd
