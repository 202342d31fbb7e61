// The soak: thousands of random operations (collective, size, type, reduction, root, algorithm,
// protocol, channels, stream, group, alignment, placement), every element of every one checked. All
// ranks draw the same from one seed, so a failure repeats with the same seed. The hidden
// command `soak`, also under run; called by bench_rank in place of BenchRun, on the rank's thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/measure/buffers.h"
#include "cmd/verify/row.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

// Numbers that are the same on every machine for a seed (splitmix64).
class SeededNumbers {
 public:
  explicit SeededNumbers(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int below(int limit) { return int(next() % uint64_t(limit)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

class Soak {
 public:
  Soak(const BenchSpec& spec, runtime::Communicator& communicator, BenchOut& out);
  // Error bad_data: the operation that came out wrong, in words, with the seed.
  Status run();

 private:
  static constexpr int kTogether = 4;  // operations in flight at the same time
  static constexpr int kStreams = 2;
  // With --window: operations of kTogether that have ordinary buffers.
  static constexpr int kNotInWindows = 1;

  struct Drawn {
    RowKey key;
    bool in_place = false;
    uint64_t misalign = 0;
    int stream = 0;
  };
  struct Pair {
    GuardedBuffer input, output;
    std::optional<DataOracle> oracle = {};  // of the operation in flight
  };

  Status reserve();
  Deadline patience() const;
  Status draw_choices();
  Drawn draw();
  uint64_t draw_bytes();
  Result<std::vector<Drawn>> draw_batch();
  Status run_batch(const std::vector<Drawn>& batch, bool grouped);
  Status start(const std::vector<Drawn>& batch, bool grouped);
  Status prepare(const Drawn& drawn, Pair& pair);
  Status check(const Drawn& drawn, Pair& pair, uint64_t number);
  Result<uint64_t> unwritten(const Drawn& drawn, const Pair& pair, const CheckResult& found) const;
  PlacedRow placed(const Drawn& drawn, Pair& pair) const;
  std::string text_of(const Drawn& drawn) const;

  const BenchSpec& spec_;
  runtime::Communicator& communicator_;
  BenchOut& out_;
  SeededNumbers numbers_;
  std::vector<Pair> pairs_;
  BenchWindows windows_;
  std::vector<std::unique_ptr<runtime::Stream>> streams_;
  std::string algorithm_, protocol_;  // in force; empty: as planned
  int channels_ = 0;
  uint64_t done_ = 0;
};

}  // namespace collctl::cmd
