// Every timed operation of every rank, when it began and ended and whom it waited for (--trace).
// A rank notes its own; rank 0 puts those of a row together, by one clock. Values, and a watch on
// the rank's thread.
#pragma once
#include <memory>
#include <span>

#include "base/record.h"
#include "cmd/measure/bench.h"
#include "cmd/measure/timed.h"

namespace collctl::cmd {

// One rank's share of a row, in nanoseconds of its host's monotonic clock.
struct TracedOperation {
  struct Wait {
    int peer = 0;
    int64_t recv_ns = 0, send_ns = 0;  // channels side by side count once
  };
  bool in_place = false;
  uint32_t iteration = 0;
  int64_t start_ns = 0, end_ns = 0;
  std::vector<Wait> waits;  // of peers that were waited for
};
struct RankTrace {
  static constexpr const char* kRecord = "trace of a rank";
  std::vector<TracedOperation> operations;
  uint64_t left_out = 0;  // more than a row has room for
};
void fields(Record& io, RankTrace& trace);

class TraceWatch {
 public:
  explicit TraceWatch(const runtime::Communicator& communicator) : communicator_(communicator) {}
  // `timed`, which it borrows, but each operation after the first `warmup` is noted, as iteration
  // `first` and on: a row may have several blocks.
  std::unique_ptr<Timed> around(Timed& timed, int warmup, int first, bool in_place);
  RankTrace take() { return std::exchange(row_, {}); }  // since the last time

 private:
  class Noting;
  void note(TracedOperation operation);
  const runtime::Communicator& communicator_;
  RankTrace row_;
  uint64_t held_ = 0;  // entries of row_
};

// Pure. By how much each rank's clock is ahead of rank 0's: ranks of a host have one clock, and
// hosts leave a barrier at the same time. `starts`: by rank, after one barrier.
std::vector<int64_t> clocks_ahead(std::span<const int64_t> starts, std::span<const uint64_t> hosts);
// The traces of all ranks as one record, in microseconds after `origin_ns` of rank 0's clock.
BenchTrace merged_trace(std::span<const RankTrace> ranks, std::span<const uint64_t> hosts,
                        int64_t origin_ns);

}  // namespace collctl::cmd
