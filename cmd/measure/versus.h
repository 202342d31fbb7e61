// Another library beside us: the same operations on the same buffers, in the same process, timed in
// the same way (--vs). NCCL on a stream of its own, with a communicator for each variant that is
// asked for; MPI on a thread of its own. Errors say whose they are; none of their calls is waited
// for without a deadline.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/measure/timed.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

// Names of NCCL's for --vs-config, without "best", which is all of them.
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

inline constexpr const char* kMpiVariant = "default";  // its only one

// Another library beside us. Made by BenchRun, used on the rank's thread.
class Versus {
 public:
  struct Options {
    std::vector<std::string> variants;
    double timeout_s = 30;
  };
  virtual ~Versus() = default;
  virtual const std::string& name() const = 0;  // "nccl 2.28.9"
  virtual std::string variants() const = 0;     // "default, ring"
  // How a row is timed by each variant that serves it; the same ones on all ranks. Collective:
  // registers buffers where the variant wants it. `batch` as of our own.
  virtual Result<std::vector<VersusRun>> runs(const VersusRow& row, const Batch& batch) = 0;
  // So far. All ranks have the same variants, each its own words.
  virtual const std::vector<LeftOut>& left_out() const = 0;
  // Collective: ends the library's communicators, after which there are no runs. What the first
  // variant cost this rank; nothing when it was left out, or is not known.
  struct Cost {
    std::string variant;
    StartCost cost;
  };
  virtual Result<std::optional<Cost>> close() = 0;
};

// NCCL, on GPU ranks. A variant that it refuses is left out from then on, with the reason; the
// default one is NCCL itself, so its failure is an error, and so is a hang. Collective. `first`
// runs once on the first variant, whose cost is watched. Error unavailable: no NCCL here; the
// message names what was tried.
Result<std::unique_ptr<Versus>> versus_nccl(const Versus::Options& options,
                                            runtime::Communicator& communicator,
                                            const VersusRow& first);
// MPI, on CPU ranks that have met by it (mpi_world.h). What it lacks is left out. Error
// unavailable: it was not begun.
Result<std::unique_ptr<Versus>> versus_mpi(const Versus::Options& options,
                                           runtime::Communicator& communicator);

}  // namespace collctl::cmd
