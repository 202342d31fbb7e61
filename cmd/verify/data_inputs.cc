#include "cmd/verify/data_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "cmd/verify/number_forms.h"

namespace collctl::cmd {

using kernels::DataType;
using kernels::RedOp;

uint64_t mix(uint64_t x) {
  x += kMixStep;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

namespace {

constexpr uint32_t kPeriod = kPatternPeriod;
constexpr uint64_t kRankStride = 4801;  // coprime to the period: ranks see the table shifted

uint32_t rank_shift(int rank) {
  return uint32_t(uint64_t(rank) * kRankStride % kPeriod);
}

// How a float type shares its exact range among the ranks. `budget` bounds the sum of all sizes;
// half of what the type holds, so that one contribution counted twice is still exact, and seen.
struct Budget {
  int64_t per_rank;  // largest size of one contribution
  int window;        // ranks that contribute to an element
};
Budget share(int64_t budget, int nranks) {
  return {std::max<int64_t>(1, budget / nranks), int(std::min<int64_t>(budget, nranks))};
}
Budget sum_budget(DataType type, int nranks) {
  const int bits = std::min(float_form(type).mantissa_bits, 40);
  return share(int64_t(1) << bits, nranks);
}
Budget product_budget(DataType type, int nranks) {
  return share(float_form(type).bias / 2, nranks);
}

// Window of ranks that contribute to entry i: begins at window_start, wraps around.
int window_start(uint32_t i, int nranks) {
  return int(mix(i + 0x51ED0000u) % uint32_t(nranks));
}
bool in_window(uint32_t i, int rank, int nranks, int window) {
  if (window == nranks) return true;
  const int distance = rank - window_start(i, nranks);
  return (distance < 0 ? distance + nranks : distance) < window;
}

// The power of two all ranks use for entry i: misplaced elements differ in size as well.
int scale_exponent(DataType type, uint32_t i) {
  return float_form(type).sum_exponent + int(mix(i + 0x7A110000u) & 3);
}

// Entry j of the one table that all ranks read, each at its own shift.
int64_t signed_size(uint32_t j, int64_t largest) {
  const uint64_t h = mix(j);
  const auto size = int64_t(1 + (h >> 1) % uint64_t(largest));
  return (h & 1) != 0 ? -size : size;
}
bool negative_factor(uint32_t j) {
  return (mix(j + 0x516E0000u) & 1) != 0;
}
uint64_t integer_term(DataType type, RedOp op, uint32_t j) {
  uint64_t value = wrap_integer(type, mix(j));
  if (op == RedOp::prod) value = wrap_integer(type, value | 1) == 1 ? 3 : value | 1;
  return value == 0 ? 1 : value;
}
uint64_t ordered_bits(DataType type, uint32_t j) {
  uint64_t bits = mix(j + 0x0DDE0000u);
  if (!is_float(type)) return bits;
  const FloatForm& form = float_form(type);
  const uint64_t mask = ((uint64_t(1) << form.exponent_bits) - 1) << form.mantissa_bits;
  if ((bits & mask) == mask || (bits & mask) == 0)
    bits = (bits & ~mask) | uint64_t(form.bias) << form.mantissa_bits;
  return bits;
}

uint64_t shifted(uint32_t i, uint32_t shift) {
  const uint32_t j = i + shift;
  return j < kPeriod ? j : j - kPeriod;
}

uint64_t input_bits(const DataKind& kind, int rank, uint32_t i) {
  if (!kind.reduces) return mix(uint64_t(rank + 1) << 20 | i);
  const auto j = uint32_t(shifted(i, rank_shift(rank)));
  const DataType type = kind.type;
  if (kind.op == RedOp::min || kind.op == RedOp::max) return ordered_bits(type, j);
  if (!is_float(type)) return integer_term(type, kind.op, j);
  if (kind.op == RedOp::prod) {
    const Budget budget = product_budget(type, kind.nranks);
    const bool counts = in_window(i, rank, kind.nranks, budget.window);
    const int exponent = counts ? int(signed_size(j, budget.per_rank)) : 0;
    return encode_float(type, std::ldexp(negative_factor(j) ? -1.0 : 1.0, exponent));
  }
  const Budget budget = sum_budget(type, kind.nranks);
  if (!in_window(i, rank, kind.nranks, budget.window)) return 0;
  return encode_float(type,
                      std::ldexp(double(signed_size(j, budget.per_rank)), scale_exponent(type, i)));
}

// The one table read at every rank's shift and folded: out[i] = fold over ranks of
// table[(i + shift) mod period]. Two plain loops a rank, which vectorise. Rank 0 has shift 0.
template <class T, class Fold>
std::vector<T> fold_ranks(const std::vector<T>& table, int nranks, Fold fold) {
  std::vector<T> out = table;
  for (int rank = 1; rank < nranks; ++rank) {
    const uint32_t shift = rank_shift(rank);
    for (uint32_t i = 0; i < kPeriod - shift; ++i) out[i] = fold(out[i], table[i + shift]);
    for (uint32_t i = kPeriod - shift; i < kPeriod; ++i)
      out[i] = fold(out[i], table[i + shift - kPeriod]);
  }
  return out;
}
template <class T, class Entry>
std::vector<T> table_of(Entry entry) {
  std::vector<T> table(kPeriod);
  for (uint32_t j = 0; j < kPeriod; ++j) table[j] = entry(j);
  return table;
}

// Sum over the ranks of entry i's window of signed sizes.
std::vector<int64_t> fold_sizes(const Budget& budget, int nranks) {
  const auto table = table_of<int64_t>([&](uint32_t j) { return signed_size(j, budget.per_rank); });
  if (budget.window == nranks)
    return fold_ranks<int64_t>(table, nranks, [](int64_t a, int64_t b) { return a + b; });
  std::vector<int64_t> out(kPeriod, 0);
  for (uint32_t i = 0; i < kPeriod; ++i) {
    int rank = window_start(i, nranks);
    for (int k = 0; k < budget.window; ++k) {
      out[i] += table[shifted(i, rank_shift(rank))];
      if (++rank == nranks) rank = 0;
    }
  }
  return out;
}

std::vector<uint64_t> reduced_integers(const DataKind& kind) {
  const auto table =
      table_of<uint64_t>([&](uint32_t j) { return integer_term(kind.type, kind.op, j); });
  if (kind.op == RedOp::prod)
    return fold_ranks<uint64_t>(table, kind.nranks, [](uint64_t a, uint64_t b) { return a * b; });
  auto out = fold_ranks<uint64_t>(table, kind.nranks, [](uint64_t a, uint64_t b) { return a + b; });
  if (kind.op == RedOp::avg) {
    for (uint64_t& value : out) {
      const uint64_t sum = wrap_integer(kind.type, value);
      value = is_signed_integer(kind.type) ? uint64_t(int64_t(sum) / kind.nranks)
                                           : sum / uint64_t(kind.nranks);
    }
  }
  return out;
}

std::vector<uint64_t> reduced_floats(const DataKind& kind) {
  const DataType type = kind.type;
  std::vector<uint64_t> out(kPeriod);
  if (kind.op == RedOp::prod) {
    const auto exponents = fold_sizes(product_budget(type, kind.nranks), kind.nranks);
    const auto signs = fold_ranks<int64_t>(
        table_of<int64_t>([](uint32_t j) { return int64_t(negative_factor(j)); }), kind.nranks,
        [](int64_t a, int64_t b) { return a ^ b; });
    for (uint32_t i = 0; i < kPeriod; ++i)
      out[i] = encode_float(type, std::ldexp(signs[i] != 0 ? -1.0 : 1.0, int(exponents[i])));
    return out;
  }
  const auto sums = fold_sizes(sum_budget(type, kind.nranks), kind.nranks);
  for (uint32_t i = 0; i < kPeriod; ++i) {
    double value = std::ldexp(double(sums[i]), scale_exponent(type, i));
    if (kind.op == RedOp::avg)  // as the runtime: divided in float32 (float64: in float64), once
      value = type == DataType::float64 ? value / kind.nranks
                                        : double(float(value) / float(kind.nranks));
    out[i] = encode_float(type, value);
  }
  return out;
}

std::vector<uint64_t> reduced_extremes(const DataKind& kind) {
  const DataType type = kind.type;
  const uint32_t bytes = kernels::element_size(type);
  const uint64_t mask = bytes == 8 ? ~uint64_t(0) : (uint64_t(1) << bytes * 8) - 1;
  const bool smallest = kind.op == RedOp::min;
  const auto table = table_of<uint64_t>([&](uint32_t j) { return ordered_bits(type, j) & mask; });
  auto better = [&](uint64_t a, uint64_t b) {
    const bool less = order_key(type, b) < order_key(type, a);
    return less == smallest ? b : a;
  };
  return fold_ranks<uint64_t>(table, kind.nranks, better);
}

}  // namespace

Pattern::Pattern(uint32_t element_bytes, uint64_t first, const std::vector<uint64_t>& entries)
    : element_bytes_(element_bytes),
      first_(first % kPeriod),
      size_(uint32_t(entries.size())),
      table_(entries.size() * element_bytes) {
  COLL_CHECK(entries.size() <= kPeriod);
  for (size_t i = 0; i < entries.size(); ++i)
    std::memcpy(table_.data() + i * element_bytes, &entries[i], element_bytes);
}

// Calls visit(table bytes, element offset, elements) for every contiguous run of the table.
template <class Visit>
void Pattern::for_runs(uint64_t first, uint64_t elements, Visit visit) const {
  uint64_t done = 0;
  while (done < elements) {
    const uint64_t entry = (first % kPeriod + done + kPeriod - first_) % kPeriod;
    COLL_CHECK(entry < size_);
    const uint64_t run = std::min<uint64_t>(size_ - entry, elements - done);
    visit(table_.data() + entry * element_bytes_, done, run);
    done += run;
  }
}

void Pattern::fill(void* out, uint64_t first, uint64_t elements) const {
  auto* bytes = static_cast<uint8_t*>(out);
  for_runs(first, elements, [&](const uint8_t* from, uint64_t at, uint64_t run) {
    std::memcpy(bytes + at * element_bytes_, from, run * element_bytes_);
  });
}

Mismatch Pattern::compare(const void* data, uint64_t first, uint64_t elements) const {
  const auto* bytes = static_cast<const uint8_t*>(data);
  Mismatch found;
  for_runs(first, elements, [&](const uint8_t* want, uint64_t at, uint64_t run) {
    const uint8_t* have = bytes + at * element_bytes_;
    if (std::memcmp(have, want, run * element_bytes_) == 0) return;
    for (uint64_t i = 0; i < run; ++i) {
      if (std::memcmp(have + i * element_bytes_, want + i * element_bytes_, element_bytes_) == 0)
        continue;
      if (found.bad++ == 0) found.first = at + i;
      found.last = at + i;
    }
  });
  return found;
}

uint64_t Pattern::at(uint64_t element) const {
  uint64_t bits = 0;
  for_runs(element, 1, [&](const uint8_t* from, uint64_t, uint64_t) {
    std::memcpy(&bits, from, element_bytes_);
  });
  return bits;
}

Pattern input_pattern(const DataKind& kind, int rank, const ElementRange& needed) {
  const uint64_t count = std::min<uint64_t>(needed.count, kPeriod);
  std::vector<uint64_t> entries(count);
  for (uint64_t k = 0; k < count; ++k)
    entries[k] = input_bits(kind, rank, uint32_t((needed.first % kPeriod + k) % kPeriod));
  return {kernels::element_size(kind.type), needed.first, entries};
}

Pattern reduced_pattern(const DataKind& kind) {
  COLL_CHECK(kind.reduces);
  const uint32_t bytes = kernels::element_size(kind.type);
  if (kind.op == RedOp::min || kind.op == RedOp::max) return {bytes, 0, reduced_extremes(kind)};
  if (is_float(kind.type)) return {bytes, 0, reduced_floats(kind)};
  return {bytes, 0, reduced_integers(kind)};
}

}  // namespace collctl::cmd
