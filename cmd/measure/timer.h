// How a row is timed: on each rank a warm-up, then turns of ours and of another library's,
// observed; then all ranks' times as one. Used by BenchRun on the rank's thread; borrows what it is
// given.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cmd/measure/observer.h"
#include "cmd/measure/timing.h"
#include "cmd/measure/versus.h"

namespace collctl::cmd {

struct RowTimes {  // one placement, of one rank
  // By what was measured: our own, then each variant of another library; turn by turn.
  std::vector<std::vector<Samples>> samples;
  std::vector<std::string> variants;  // of that library
  uint64_t warmed = 0;                // operations before the first timed one
  void put(ByteWriter& writer) const;
  int64_t block_ns() const;  // of our own last turn
};

// Times of all ranks, each of which has measured the same as this one.
class AllTimes {
 public:
  explicit AllTimes(const RowTimes& mine);
  // The next rank's; `iterations` samples of a block at most. A blob that is cut short: the
  // reader's failure.
  void add(ByteReader& reader, size_t iterations);
  // The turn with the median time, of each series.
  std::vector<Timing> medians(const MergeOptions& options) const;

 private:
  std::vector<std::vector<std::vector<Samples>>> samples_;  // by series, turn and rank
};

class RowTimer {
 public:
  // `versus`: null, there is nothing to compare with.
  RowTimer(const BenchSpec& spec, Everyone& everyone, runtime::Stream& stream,
           const Observers& observers, Versus* versus);
  // Other choices of algorithm and protocol are in force.
  void choices_changed() { barrier_->refresh(); }
  // Collective: what the input holds is there, and the output may be overwritten.
  Result<RowTimes> time(const RowToMeasure& row, const PlacedRow& placed);
  // Operations of a block; those of a graph or a group count one by one.
  int operations() const { return replays() * batch().operations(); }
  // One placement as the row tells it.
  Timing merged(const RowKey& key, const RowTimes& mine, const AllTimes& all) const;

 private:
  Result<Samples> block(Timed& own, const MeasureOptions& options, int turn, bool in_place);
  Result<uint64_t> warm_up(Timed& timed);
  Status settle(const RowTimes& times, std::vector<int>& warmups);
  int turns(const RowToMeasure& row) const;
  int replays() const;
  Batch batch() const { return {spec_.grouped, spec_.cuda_graph}; }

  const BenchSpec& spec_;
  Everyone& everyone_;
  runtime::Stream& stream_;
  const Observers& observers_;
  Versus* const versus_;
  std::unique_ptr<Barrier> barrier_;
};

}  // namespace collctl::cmd
