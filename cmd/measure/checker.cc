#include "cmd/measure/checker.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/measure/buffers.h"
#include "cmd/measure/timed.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/diagnose.h"

namespace collctl::cmd {
namespace {

// A broken link breaks every row: the first few say all there is to say.
constexpr int kMaxExplained = 4;
constexpr int kMostCheckThreads = 8;

}  // namespace

const DataOracle& RowChecker::oracle(const RowKey& key) {
  runtime::Communicator& own = everyone_.own();
  const DataKind kind{key.type, has_op(key.collective), key.op, own.size()};
  if (!oracle_ || !(oracle_->kind() == kind))
    oracle_ = std::make_unique<DataOracle>(kind, own.rank());
  return *oracle_;
}

Result<CheckResult> RowChecker::check(const PlacedRow& row) {
  COLL_ASSIGN(const std::unique_ptr<Timed> once,
              own_timed(everyone_.own(), stream_, submissions_for(row),
                        {everyone_.timeout_s(), {.graph = spec_.cuda_graph != 0 ? 1 : 0}}));
  return check(row, *once);
}

Result<CheckResult> RowChecker::check(const PlacedRow& row, Timed& once) {
  runtime::Communicator& own = everyone_.own();
  const auto& [key, place, buffers] = row;
  COLL_TRY(prepare(row));
  COLL_TRY(once.enqueue());
  COLL_TRY(once.wait());
  const int threads =
      own.device()
          ? std::clamp(base::usable_cores() / local_ranks(everyone_.whole()), 1, kMostCheckThreads)
          : 1;
  return check_run(oracle(key), key.collective, key.size.count, place, buffers, threads);
}

Status RowChecker::explain(const PlacedRow& row, const CheckResult& mine) {
  if (++explained_ > kMaxExplained) return {};
  if (everyone_.whole().rank() == 0)
    everyone_.out().task.progress("wrong data: looking for where it came from");
  const auto& [key, place, buffers] = row;
  COLL_ASSIGN(const std::vector<DataFault> faults, diagnose({everyone_.own(), stream_, key, place,
                                                             buffers, mine, everyone_.deadline()}));
  for (DataFault fault : faults) {
    fault.message +=
        format(" ({} {}{} of {}{})", name_of(key.collective), kernels::name_of(key.type),
               has_op(key.collective) ? format(" {}", kernels::name_of(key.op)) : "",
               human_bytes(key.size.bytes), row.in_place() ? ", in place" : "");
    COLL_TRY(everyone_.row_out().on(fault));
  }
  return {};
}

}  // namespace collctl::cmd
