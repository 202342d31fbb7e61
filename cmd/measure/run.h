// BenchRun: one rank of a measurement after the communicator is up: which rows, timed and checked,
// and what all ranks tell of them. Made and run by bench_rank (bench.h) on the rank's thread; owns
// the buffers and the stream, borrows spec, communicators and sink.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/measure/buffers.h"
#include "cmd/measure/checker.h"
#include "cmd/measure/observer.h"
#include "cmd/measure/plateau.h"
#include "cmd/measure/rows.h"
#include "cmd/measure/timer.h"
#include "cmd/measure/together.h"
#include "cmd/measure/versus.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

class BenchRun {
 public:
  // `own_cost`: counts since before the communicator was made, paused; null: nobody wants to know.
  // `continued`: rows that are done, and those of a root that is lost, are left out.
  BenchRun(const BenchSpec& spec, Everyone& everyone, CostWatch* own_cost = nullptr,
           const Continued* continued = nullptr);
  Status run();

 private:
  struct Placement {  // of a row, this rank's share
    RowTimes times;
    CheckResult check;
    std::vector<uint64_t> others_wrong;  // elements, by variant of another library; if checked
    bool measured = false;
  };
  using Placements = std::array<Placement, 2>;  // out of place, in place

  Status series(const MeasuredRows& rows, const RowSeries& series);
  Result<uint64_t> plateau();
  Result<bool> fit_in_time(const MeasuredRows& rows, const RowSeries& series, RowToMeasure& row);
  Status row(const RowToMeasure& row);
  Result<Placement> placement(const RowToMeasure& row, bool in_place);
  Result<std::vector<uint64_t>> check_others(const PlacedRow& placed);
  Result<bool> again();
  Status tell(const RowToMeasure& row, const Placements& placements);
  Result<BenchRow> described(const RowToMeasure& measured);

  const BenchSpec& spec_;
  Everyone& everyone_;
  runtime::Communicator& communicator_;
  const Continued* const continued_;  // null: no others were lost before
  const std::string until_;  // the knob: a file that ends rows; empty: a row is measured once
  RowMemory memory_;
  // Behind what its kernels use: it goes first, and waits for them.
  runtime::Stream stream_;
  CostWatch* const own_cost_;
  Observers observers_;
  Versus* versus_ = nullptr;  // one of the observers; null: nothing is beside us
  RowChecker checker_;
  std::optional<RowTimer> timer_;  // once the rows begin
  RowBefore before_;               // by this rank's time
};

}  // namespace collctl::cmd
