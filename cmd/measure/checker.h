// Whether what a row leaves behind is right: the inputs that every rank has, one operation on them,
// every byte looked at, and of wrong ones where they came from. Used by BenchRun on the rank's
// thread; borrows what it is given.
#pragma once
#include <memory>

#include "cmd/measure/bench.h"
#include "cmd/measure/together.h"
#include "cmd/verify/data_check.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

class RowChecker {
 public:
  RowChecker(const BenchSpec& spec, Everyone& everyone, runtime::Stream& stream)
      : spec_(spec), everyone_(everyone), stream_(stream) {}
  // Whether a row's data are looked at.
  bool wanted() const { return spec_.check && spec_.collective != kernels::Collective::barrier; }
  Status prepare(const PlacedRow& row) { return cmd::prepare(row, oracle(row.key)); }
  // Runs the row once more. With graphs through a graph as well; of one operation, since several in
  // place would add up.
  Result<CheckResult> check(const PlacedRow& row);
  // The same of what another library does.
  Result<CheckResult> check(const PlacedRow& row, Timed& once);
  // Explains wrong data of any rank. Collective; rank 0 tells. Overwrites the buffers.
  Status explain(const PlacedRow& row, const CheckResult& mine);

 private:
  const DataOracle& oracle(const RowKey& key);

  const BenchSpec& spec_;
  Everyone& everyone_;
  runtime::Stream& stream_;
  std::unique_ptr<DataOracle> oracle_;
  int explained_ = 0;  // wrong rows so far; the same on all ranks
};

}  // namespace collctl::cmd
