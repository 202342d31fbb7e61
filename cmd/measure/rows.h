// The rows of a measurement: which ones there are, in their order, and by which numbers. Known
// alike to all ranks, without asking them. Pure. Threads: values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/measure/bench.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

struct Choice {  // of algorithm and protocol; empty: as planned
  std::string algorithm, protocol;
};

// Rows that differ in nothing but their choices and sizes.
struct RowSeries {
  RowKey key;          // but for the size; the root by the numbers that ranks have here
  uint64_t first = 0;  // number of its first row
};

struct RowToMeasure {
  RowKey key;
  uint64_t asked = 0;   // bytes, which the key rounds to whole elements of these ranks
  uint64_t number = 0;  // whatever else can be served
  uint64_t place = 0;   // among all, from 1; who cannot be served comes before who can
};

class MeasuredRows {
 public:
  // Rows of `ranks` ranks. `continued`: rows that are done, and those of a root that is lost, are
  // left out. `plateau`: a size after the others, where it is larger; 0: none. Error usage: what
  // the spec asks for cannot be done by so many.
  static Result<MeasuredRows> make(const BenchSpec& spec, int ranks,
                                   const Continued* continued = nullptr, uint64_t plateau = 0);

  const std::vector<uint64_t>& sizes() const { return sizes_; }  // bytes, as asked for; ascending
  // Each series is measured by each choice, at each size.
  const std::vector<Choice>& choices() const { return choices_; }
  const std::vector<RowSeries>& series() const { return series_; }
  uint64_t total() const { return total_; }  // with those that are done, or lost

  bool ends_in_plateau() const { return ends_in_plateau_; }
  RowKey key(const RowSeries& series, uint64_t asked) const;
  // Rows of a series that are left, by a choice that serves the sizes `able`.
  std::vector<RowToMeasure> left(const RowSeries& series, size_t choice,
                                 const std::vector<uint64_t>& able) const;

 private:
  std::vector<uint64_t> sizes_;
  std::vector<Choice> choices_;
  std::vector<RowSeries> series_;
  int ranks_ = 1;
  bool ends_in_plateau_ = false;
  uint64_t total_ = 0, done_ = 0;
};

}  // namespace collctl::cmd
