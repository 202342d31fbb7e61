// BenchRun: one rank of a measurement after the communicator is up: its buffers, the rows and their
// exchange. Made and run by bench_rank (bench.h) on the rank's thread; owns the buffers and the
// stream, borrows communicator, spec and sink.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host_limits.h"
#include "cmd/measure/bench.h"
#include "cmd/measure/buffers.h"
#include "cmd/measure/rows.h"
#include "cmd/measure/timing.h"
#include "cmd/measure/together.h"
#include "cmd/measure/versus.h"
#include "cmd/verify/data_check.h"
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
  struct Half {  // one placement of a row, this rank's share
    // By what was measured: our own, then each variant of another library; turn by turn.
    std::vector<std::vector<Samples>> samples;
    std::vector<std::string> variants;  // of that library
    CheckResult check;
    bool measured = false;
    uint64_t warmed = 0;  // operations before the first timed one
  };
  // By series, turn and rank.
  using AllSamples = std::vector<std::vector<std::vector<Samples>>>;

  Status series(const MeasuredRows& rows, const RowSeries& series);
  Status row(const RowToMeasure& row);
  Result<bool> again();
  Result<Half> half(const RowToMeasure& row, bool in_place);
  Status report_row(const RowKey& key, const Half& out_of_place, const Half& in_place);
  Status explain(const RowKey& key, bool in_place, const CheckResult& check);
  Status time(const RowToMeasure& row, const RunBuffers& buffers, Half& half);
  Status check(const RowKey& key, const RunBuffers& buffers, Half& half);
  Status prepare(const RowKey& key, const RunBuffers& buffers);
  Timing merged(const RowKey& key, const Half& half, const AllSamples& all) const;
  // By the choices in force. Error: they cannot serve it.
  Result<std::vector<runtime::Plan>> plans_of(const RowKey& key);
  Result<BenchRow> described(const RowKey& key);
  int turns(const RowToMeasure& row) const;
  Result<uint64_t> warm_up(Timed& timed);
  Status settle(const Half& half, std::vector<int>& warmups);
  int replays() const;
  Batch batch() const { return {spec_.grouped, spec_.cuda_graph}; }
  const DataOracle& oracle(const RowKey& key);

  const BenchSpec& spec_;
  Everyone& everyone_;
  runtime::Communicator& communicator_;
  const Continued* const continued_;  // null: no others were lost before
  const std::string until_;  // the knob: a file that ends rows; empty: a row is measured once
  RowMemory memory_;
  // Behind what its kernels use: it goes first, and waits for them.
  runtime::Stream stream_;
  std::unique_ptr<Barrier> barrier_;
  CostWatch* const own_cost_;
  Observers observers_;
  Versus* versus_ = nullptr;  // of them; null: nothing to compare with
  std::unique_ptr<DataOracle> oracle_;
  uint64_t number_ = 0;  // of the row, whatever else can be served
  int explained_ = 0;    // wrong rows so far; the same on all ranks
};

}  // namespace collctl::cmd
