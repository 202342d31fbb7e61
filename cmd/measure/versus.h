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
#include "cmd/measure/buffers.h"
#include "cmd/measure/observer.h"
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

inline constexpr const char* kMpiVariant = "default";  // its only one

// Cost of making a communicator, for a rank: time, and memory of its GPU. Ours and another
// library's are watched in the same way. Counts from its making, and not between pause() and
// resume(), which is for what would be there anyway. Memory is what is free on the whole GPU:
// others that use it at the same time are counted. On the rank's thread.
class CostWatch {
 public:
  explicit CostWatch(transport::DevicePointer device);
  void pause();
  void resume();
  // The first result is there; paused then. buffer_bytes is left to the caller.
  StartCost done();

 private:
  transport::DevicePointer device_;
  bool running_ = false, known_ = true;
  int64_t since_ns_ = 0, counted_ns_ = 0;
  uint64_t free_ = 0;
  int64_t taken_ = 0;
};

// Another library beside us. Made by BenchRun, used on the rank's thread.
class Versus : public Observer {
 public:
  explicit Versus(runtime::Communicator& communicator) : communicator_(communicator) {}
  void tell(HeaderFacts& facts) const override { facts.versus = name() + ": " + variants(); }
  Status closing(RankClosing& mine, BenchClosing& all) override;
  struct Options {
    std::vector<std::string> variants;
    double timeout_s = 30;
    bool as_is = false, watched = false;  // as in BenchSpec
  };
  virtual const std::string& name() const = 0;  // "nccl 2.28.9"
  virtual std::string variants() const = 0;     // "default, ring"
  // How a row is timed by each variant that serves it; the same ones on all ranks. Collective:
  // registers buffers where the variant wants it. `batch` as of our own.
  virtual Result<std::vector<VersusRun>> runs(const PlacedRow& row, const Batch& batch) = 0;
  // So far. All ranks have the same variants, each its own words.
  virtual const std::vector<LeftOut>& left_out() const = 0;
  // Collective: ends the library's communicators, after which there are no runs. Returns the first
  // variant's cost for this rank; nothing when it was left out, or is not known.
  struct Cost {
    std::string variant;
    StartCost cost;
  };
  virtual Result<std::optional<Cost>> close() = 0;

 protected:
  runtime::Communicator& communicator_;  // ours

 private:
  friend Result<std::unique_ptr<Versus>> start_versus(const BenchSpec&, Everyone&,
                                                      const std::vector<uint64_t>& sizes,
                                                      RowMemory&, runtime::Stream&, CostWatch*);
  std::optional<StartCost> own_cost_;
};

// NCCL, on GPU ranks. A variant that it refuses is left out from then on, with the reason; the
// default one is NCCL itself, so its failure is an error, and so is a hang. Collective. `first`
// runs once on the first variant, whose cost is watched. Error unavailable: no NCCL here; the
// message names what was tried.
Result<std::unique_ptr<Versus>> versus_nccl(const Versus::Options& options,
                                            runtime::Communicator& communicator,
                                            const PlacedRow& first);
// MPI, on CPU ranks that have met by it (mpi_world.h). Rows that it cannot do are left out. Error
// unavailable: it was not begun.
Result<std::unique_ptr<Versus>> versus_mpi(const Versus::Options& options,
                                           runtime::Communicator& communicator);
// Whichever the spec names. Collective. `own_cost`: counts since before the communicator was made,
// paused, and is watched to the end of our first collective; null: nobody wants to know.
Result<std::unique_ptr<Versus>> start_versus(const BenchSpec& spec, Everyone& everyone,
                                             const std::vector<uint64_t>& sizes, RowMemory& memory,
                                             runtime::Stream& stream, CostWatch* own_cost);

}  // namespace collctl::cmd
