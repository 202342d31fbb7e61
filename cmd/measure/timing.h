// How long one operation takes: the timed loops of one rank, and what all ranks' times together
// say. Called by bench_rank on the rank's thread. Times are of the monotonic clock, nanoseconds.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cmd/measure/bench.h"
#include "cmd/measure/timed.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

// Seconds; the knob's where the settings leave it open.
double op_timeout(const RankSettings& settings);

double median(std::vector<double> values);  // the mean of the middle two; 0 of none

struct Samples {  // of one rank, one placement
  int64_t block_ns = 0;
  std::vector<int64_t> each_ns;  // with sync_each: one per iteration
  void put(ByteWriter& writer) const;
  static Samples get(ByteReader& reader, size_t at_most);
};

// All ranks together, before a timed stretch.
class Barrier {
 public:
  virtual ~Barrier() = default;
  virtual Status operator()() = 0;
  // The choices of algorithm and protocol have changed.
  virtual void refresh() {}
};
// The collective barrier where the choices in force can serve it, else the slow one over the
// bootstrap.
class StreamBarrier : public Barrier {
 public:
  StreamBarrier(runtime::Communicator& communicator, runtime::Stream& stream, double timeout_s);
  Status operator()() override;
  void refresh() override;

 private:
  runtime::Communicator& communicator_;
  runtime::Stream& stream_;
  runtime::Operation barrier_;
  int32_t word_[2] = {0, 0};
  double timeout_s_;
  bool collective_ = false;
};

struct MeasureOptions {
  int iterations = 20, warmup = 5;
  bool sync_each = false;
};
Result<Samples> measure(Timed& timed, Barrier& barrier, const MeasureOptions& options);

// Pure. ranks[r] is rank r's; all of one kind. The time of a block is that of the ranks that
// `time_of` says, divided by the iterations; with samples of each iteration the statistics are over
// what it says of each; the slowest rank is the one with the largest sum; unsteady: the medians of
// the first and the last half of the iterations differ by more than 30 %. `operations`: of an
// iteration, whose time is shared among them (the operations of a graph).
struct MergeOptions {
  BenchOp collective;
  uint64_t bytes = 0;
  int iterations = 1;
  int operations = 1;
  TimeOf time_of = TimeOf::slowest;
};
Timing merge_samples(std::span<const Samples> ranks, const MergeOptions& options);
// The one with the median time of several measurements, the faster of the two in the middle. At
// least one.
Timing median_timing(std::vector<Timing> timings);

}  // namespace collctl::cmd
