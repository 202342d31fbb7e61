#include "kernels/algo/algorithms.h"

#include <algorithm>

#include "base/check.h"

namespace collctl::kernels {
namespace {

using AddPartner = std::function<void(int)>;

template <class Text>
constexpr auto partners_of() -> void (*)(int, int, int, const AddPartner&) {
  if constexpr (requires { Text::partners(0, 1, 0, AddPartner()); })
    return [](int rank, int nranks, int root, const AddPartner& add) {
      Text::partners(rank, nranks, root, add);
    };
  else
    return nullptr;
}

template <class Text>
uint64_t scratch_parts_of(int nranks) {
  if constexpr (requires { Text::scratch_parts(nranks); })
    return Text::scratch_parts(nranks);
  else
    return 0;
}

constexpr AlgorithmRow kRows[] = {
#define COLL_ALGORITHM(id, number, name, Text, over, protocols, slots, help) \
  {AlgorithmId::id,                                                          \
   name,                                                                     \
   Text::kServes,                                                            \
   protocols,                                                                \
   slots,                                                                    \
   Over::over,                                                               \
   Over::over == Over::window,                                               \
   Over::over == Over::network,                                              \
   Text::steps,                                                              \
   Text::sent_elements,                                                      \
   partners_of<Text>(),                                                      \
   help},
#include "kernels/algo/algorithms.inc"
};

constexpr bool rows_are_whole() {
  for (const AlgorithmRow& row : kRows)
    if (int(row.id) >= kAlgorithmCount || (row.over == Over::partners) != (row.partners != nullptr))
      return false;
  return true;
}
static_assert(rows_are_whole(), "numbers follow one another; what is over partners names them");

}  // namespace

std::span<const AlgorithmRow> algorithms() {
  return kRows;
}

const AlgorithmRow& algorithm(AlgorithmId id) {
  for (const AlgorithmRow& row : kRows)
    if (row.id == id) return row;
  base::check_failed("the algorithm has a row", __FILE__, __LINE__, "");
}

uint64_t scratch_bytes(AlgorithmId id, int nranks, uint64_t part_bytes) {
  switch (id) {
#define COLL_ALGORITHM(id, number, name, Text, ...) \
  case AlgorithmId::id:                             \
    return scratch_parts_of<Text>(nranks) * part_bytes;
#include "kernels/algo/algorithms.inc"
  }
  return 0;
}

double most_sent(const AlgorithmRow& row, Collective collective, int nranks) {
  const auto count = uint64_t(nranks);  // rings send parts
  uint64_t most = 0;
  for (int rank = 0; rank < nranks; ++rank)
    most = std::max(most, row.sent_elements(collective, nranks, count, rank, 0));
  return double(most) / double(count);
}

const char* name_of(AlgorithmId id) {
  return algorithm(id).name;
}

const AlgorithmRow* find_algorithm(std::string_view name) {
  for (const AlgorithmRow& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace collctl::kernels
