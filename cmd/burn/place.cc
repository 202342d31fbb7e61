#include "cmd/burn/place.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"

namespace collctl::cmd {

using kernels::cuda::BurnElement;
using kernels::cuda::BurnShape;
using kernels::cuda::BurnType;

std::string place_text(BurnType type, const BurnShape& shape, uint64_t word) {
  const BurnElement at = kernels::cuda::burn_element(type, shape, word);
  return format("row {}, column {}{}", at.row, at.column,
                type != BurnType::fp64 ? ""
                : word % 2 == 0        ? ", low half"
                                       : ", high half");
}

uint64_t piece_words(uint64_t part_words) {
  constexpr uint64_t kMostPieces = 1024;
  return part_words <= kMostPieces ? 1 : part_words / std::gcd(part_words, kMostPieces);
}

Result<std::optional<BurnSpot>> first_difference(const std::string& what, const AskPieces& ask,
                                                 uint32_t rows, uint32_t columns) {
  const auto* const name = std::ranges::find(kBurnNames, what);
  if (name == std::end(kBurnNames))
    return Error(ErrorCode::defect, format("{} is no kind of product", what));
  const auto type = BurnType(name - kBurnNames);
  const BurnShape shape{.rows = rows, .columns = columns};
  BurnPart part{.what = what, .words = kernels::cuda::burn_c_words(type, shape)};
  for (;;) {
    const uint64_t each = piece_words(part.words), pieces = part.words / each;
    COLL_ASSIGN(const auto of, ask(part));
    if (of[0].size() != pieces || of[1].size() != pieces || each == part.words)
      return Error(ErrorCode::defect, format("{} words of {} have {} and {} pieces, and not {}",
                                             part.words, what, of[0].size(), of[1].size(), pieces));
    const auto [one, other] = std::ranges::mismatch(of[0], of[1]);
    if (one == of[0].end()) return std::optional<BurnSpot>();
    part.from += uint64_t(one - of[0].begin()) * each;
    if (each == 1) return std::optional(BurnSpot{place_text(type, shape, part.from), *one, *other});
    part.words = each;
  }
}

}  // namespace collctl::cmd
