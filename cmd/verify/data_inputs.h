// Every rank's input and the output that must come, exactly, whatever the order of the arithmetic.
// Called by bench_rank and the diagnosis on the rank's thread; values, no sharing.
//
// Element e of rank r holds table_r[e mod 7919]; 7919 is prime, so a chunk that lands elsewhere
// shows. Sums (and avg): whole numbers times a power of two that depends on the element only, so
// small that the sum of all sizes, twice, still stands exactly in the type: every partial sum in
// every order is exact, and so is every rounding on the way. Where the type holds too few whole
// numbers for all ranks (fp8, or thousands of ranks) each element gets contributions from a window
// of ranks only, the others give 0. Products: signs and powers of two under the same rule, integers
// odd numbers (which wrap but never vanish). min, max, data movement: any bits but NaN and zero.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/contract/types.h"

namespace collctl::cmd {

inline constexpr uint32_t kPatternPeriod = 7919;

// A bijection that spreads every bit: what splitmix64 gives when its state is x, and what it then
// adds to its state.
inline constexpr uint64_t kMixStep = 0x9E3779B97F4A7C15u;
uint64_t mix(uint64_t x);

struct DataKind {
  kernels::DataType type{};
  bool reduces = false;  // false: data movement, `op` means nothing
  kernels::RedOp op{};
  int nranks = 1;
  bool operator==(const DataKind&) const = default;
};

struct Mismatch {  // of one comparison; first and last count from the comparison's first element
  uint64_t bad = 0, first = 0, last = 0;
};

// A periodic sequence of elements. Made whole (all kPatternPeriod entries), or only for the few
// elements that are needed.
class Pattern {
 public:
  Pattern() = default;
  // entries.size() <= kPatternPeriod values (low bytes) of the elements from `first` on.
  Pattern(uint32_t element_bytes, uint64_t first, const std::vector<uint64_t>& entries);
  void fill(void* out, uint64_t first, uint64_t elements) const;
  Mismatch compare(const void* data, uint64_t first, uint64_t elements) const;
  uint64_t at(uint64_t element) const;  // bits, zero extended

 private:
  template <class Visit>
  void for_runs(uint64_t first, uint64_t elements, Visit visit) const;

  uint32_t element_bytes_ = 1;
  uint64_t first_ = 0;  // modulo the period
  uint32_t size_ = 0;   // entries
  std::vector<uint8_t> table_;
};

struct ElementRange {  // of the sequence
  uint64_t first = 0, count = kPatternPeriod;
};
Pattern input_pattern(const DataKind& kind, int rank, const ElementRange& needed = {});
// Result of a reduction of all ranks' inputs. kind.reduces.
Pattern reduced_pattern(const DataKind& kind);

}  // namespace collctl::cmd
