// MPI's side of --vs mpi.
#include <algorithm>

#include "base/format.h"
#include "cmd/measure/mpi_world.h"
#include "cmd/measure/versus.h"

namespace collctl::cmd {
namespace {

class MpiVersus : public Versus {
 public:
  MpiVersus(MpiWorld& world, runtime::Communicator& communicator, double timeout_s)
      : world_(world), communicator_(communicator), timeout_s_(timeout_s) {}

  const std::string& name() const override { return world_.name(); }
  std::string variants() const override { return kMpiVariant; }
  Result<std::vector<VersusRun>> runs(const VersusRow& row, const Batch&) override {
    std::vector<VersusRun> list;
    const MpiWorld::Row own{row.key, row.place, row.buffers};
    if (const std::string lacks = world_.lacks(own); lacks.empty())
      list.push_back({kMpiVariant, world_.timed(own, communicator_, timeout_s_)});
    else
      leave_out(lacks);
    return list;
  }
  const std::vector<LeftOut>& left_out() const override { return left_out_; }
  // MPI itself ends with the job, which has met by it.
  Result<std::optional<Cost>> close() override { return std::optional<Cost>(); }

 private:
  void leave_out(const std::string& reason) {
    const bool known = std::any_of(left_out_.begin(), left_out_.end(),
                                   [&](const LeftOut& out) { return out.reason == reason; });
    if (!known) left_out_.push_back({kMpiVariant, reason});
  }

  MpiWorld& world_;
  runtime::Communicator& communicator_;
  double timeout_s_;
  std::vector<LeftOut> left_out_;
};

}  // namespace

Result<std::unique_ptr<Versus>> versus_mpi(const Versus::Options& options,
                                           runtime::Communicator& communicator) {
  MpiWorld* const world = MpiWorld::running();
  if (world == nullptr)
    return Error(ErrorCode::unavailable, "--vs mpi: MPI was not begun in this process");
  return std::unique_ptr<Versus>(
      std::make_unique<MpiVersus>(*world, communicator, options.timeout_s));
}

}  // namespace collctl::cmd
