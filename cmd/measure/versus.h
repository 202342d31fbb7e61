// The installed NCCL beside us: the same operations on the same buffers, in the same process, timed
// in the same way (--vs nccl), on a stream of its own. One communicator of NCCL for each variant
// that is asked for. Made by BenchRun on GPU ranks, used on the rank's thread. Errors say that they
// are NCCL's; none of its calls is waited for without a deadline.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/measure/timed.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

// Names for --vs-config, without "best", which is all of them.
std::vector<std::string> versus_variants();
// Whether one of them can do a collective, of an NCCL that is new enough.
bool versus_serves(const std::string& variant, const BenchOp& collective);

struct VersusRun {
  std::string variant;
  std::unique_ptr<Timed> timed;
};

// A row, and where its data are.
struct VersusRow {
  RowKey key;
  Place place;
  RunBuffers buffers;
};

// A variant that NCCL refuses is left out from then on, with the reason; the default one is NCCL
// itself, so its failure is an error, and so is a hang.
class Versus {
 public:
  struct Options {
    std::vector<std::string> variants;
    double timeout_s = 30;
  };
  // Collective. `first` runs once on the first variant, whose cost is watched. Error unavailable:
  // no NCCL here; the message names what was tried.
  static Result<std::unique_ptr<Versus>> make(const Options& options,
                                              runtime::Communicator& communicator,
                                              const VersusRow& first);
  ~Versus();
  const std::string& name() const;  // "nccl 2.28.9"
  std::string variants() const;     // "default, ring"
  // How a row is timed by each variant that serves it; the same ones on all ranks. Collective:
  // registers buffers where the variant wants it. `batch` as of our own.
  Result<std::vector<VersusRun>> runs(const VersusRow& row, const Batch& batch);
  // So far. All ranks have the same variants, each its own words.
  const std::vector<LeftOut>& left_out() const;
  // Collective: ends NCCL's communicators, after which there are no runs. What the first variant
  // cost this rank; nothing when it was left out.
  struct Cost {
    std::string variant;
    StartCost cost;
  };
  Result<std::optional<Cost>> close();

 private:
  Versus();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::cmd
