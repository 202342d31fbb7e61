// Observers of a measurement look at clocks, at waits, at every operation, at another library
// beside us (versus.h) while it runs. BenchRun calls all of them, in the order of their list, on
// the rank's thread; the list is the same on all ranks, so that what they do may be collective.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/record.h"
#include "cmd/measure/fields.h"
#include "cmd/measure/timed.h"
#include "cmd/measure/together.h"

namespace collctl::cmd {

class Observer {
 public:
  struct Block {   // our own operations of a turn
    Timed* timed;  // may be replaced by what passes on to it
    int warmup = 0;
    int first = 0;  // number of the first after those, among the row's
    bool in_place = false;
  };
  virtual ~Observer() = default;
  virtual void tell(HeaderFacts&) const {}
  virtual Status before(Block&) { return {}; }
  virtual Status after() { return {}; }     // the block
  virtual void turn_over() {}               // the other side has had its turn as well
  virtual Status row_over() { return {}; }  // the row has been told
  // `mine`: this rank's; `all`: what every rank knows alike.
  virtual Status closing(RankClosing& /*mine*/, BenchClosing& /*all*/) { return {}; }
};
using Observers = std::vector<std::unique_ptr<Observer>>;

// Those that the spec and the ranks' kind ask for. Their first look is here.
Observers observers_of(const BenchSpec& spec, Everyone& everyone);

// --trace: when every timed operation of every rank began and ended, and whom it waited for. A rank
// notes its own; rank 0 puts those of a row together, by one clock.

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

// Pure. By how much each rank's clock is ahead of rank 0's: ranks of a host have one clock, and
// hosts leave a barrier at the same time. `starts`: by rank, after one barrier.
std::vector<int64_t> clocks_ahead(std::span<const int64_t> starts, std::span<const uint64_t> hosts);
// The traces of all ranks as one record, in microseconds after `origin_ns` of rank 0's clock.
BenchTrace merged_trace(std::span<const RankTrace> ranks, std::span<const uint64_t> hosts,
                        int64_t origin_ns);

}  // namespace collctl::cmd
