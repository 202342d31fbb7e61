// Both sides of --vs from their start to their end, with what that costs; MPI's side.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "cmd/measure/mpi_world.h"
#include "cmd/measure/versus.h"
#include "cmd/measure/versus_nccl.h"

namespace collctl::cmd {

CostWatch::CostWatch(transport::DevicePointer device) : device_(std::move(device)) {
  resume();
}

void CostWatch::resume() {
  if (std::exchange(running_, true)) return;
  free_ = device_->free_bytes();
  known_ = known_ && free_ != 0;
  since_ns_ = now_ns();
}

void CostWatch::pause() {
  if (!std::exchange(running_, false)) return;
  counted_ns_ += now_ns() - since_ns_;
  const uint64_t left = device_->free_bytes();
  known_ = known_ && left != 0;
  taken_ += int64_t(free_) - int64_t(left);
}

StartCost CostWatch::done() {
  pause();
  StartCost cost;
  cost.seconds = double(counted_ns_) / 1e9;
  if (known_) cost.taken_bytes = uint64_t(std::max<int64_t>(0, taken_));
  return cost;
}

Status Versus::closing(RankClosing& mine, BenchClosing& all) {
  all.left_out = left_out();
  all.other = name();
  COLL_ASSIGN(const auto cost, close());
  if (cost) {
    all.other_variant = cost->variant;
    mine.other_cost = cost->cost;
  }
  mine.own_cost = own_cost_;
  if (mine.own_cost) mine.own_cost->buffer_bytes = communicator_.device_bytes();
  return {};
}

namespace {

class MpiVersus : public Versus {
 public:
  MpiVersus(MpiWorld& world, runtime::Communicator& communicator, double timeout_s)
      : Versus(communicator), world_(world), timeout_s_(timeout_s) {}

  const std::string& name() const override { return world_.name(); }
  std::string variants() const override { return kMpiVariant; }
  Result<std::vector<VersusRun>> runs(const PlacedRow& row, const Batch&) override {
    std::vector<VersusRun> list;
    if (const std::string lacks = world_.lacks(row); lacks.empty())
      list.push_back({kMpiVariant, world_.timed(row, communicator_, timeout_s_)});
    else
      leave_out(lacks);
    return list;
  }
  const std::vector<LeftOut>& left_out() const override { return left_out_; }
  // MPI itself ends with the job, which has met by it.
  Result<std::optional<Cost>> close() override { return std::optional<Cost>(); }

 private:
  void leave_out(const std::string& reason) {
    const bool known =
        std::ranges::any_of(left_out_, [&](const LeftOut& out) { return out.reason == reason; });
    if (!known) left_out_.push_back({kMpiVariant, reason});
  }

  MpiWorld& world_;
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

// The smallest row with data is each side's first collective.
Result<std::unique_ptr<Versus>> start_versus(const BenchSpec& spec, Everyone& everyone,
                                             const std::vector<uint64_t>& sizes, RowMemory& memory,
                                             runtime::Stream& stream, CostWatch* own_cost) {
  runtime::Communicator& own = everyone.own();
  const uint32_t element = kernels::element_size(spec.types[0]);
  RowKey key{spec.collective, spec.types[0], spec.ops[0], std::max(spec.roots[0], 0), {}};
  for (const uint64_t asked : sizes) {
    key.size = size_point(spec.collective, asked, own.size(), element);
    if (key.size.count != 0) break;
  }
  const PlacedRow first = memory.of(key, false);
  const auto submissions = submissions_for(first);
  std::optional<StartCost> cost;
  // A row that no choice serves is told of where its turn comes.
  if (own_cost != nullptr && plans_of(own, submissions)) {
    own_cost->resume();
    COLL_ASSIGN(const auto once,
                own_timed(own, stream, submissions, {.timeout_s = everyone.timeout_s()}));
    COLL_TRY(once->enqueue());
    COLL_TRY(once->wait());
    cost = own_cost->done();
  }
  everyone.out().task.phase(everyone.whole().rank(),
                            format("start {}", kRivalNames[int(spec.rival)]));
  const Versus::Options options{spec.versus, everyone.timeout_s(), spec.versus_as_is,
                                spec.versus_watched};
  COLL_ASSIGN(auto versus, spec.rival == Rival::mpi ? versus_mpi(options, own)
                                                    : versus_nccl(options, own, first));
  versus->own_cost_ = cost;
  return versus;
}

// How NCCL's operations are timed: queued, recorded into graphs and waited for as our own are.

namespace {

class NcclTimed : public Timed {
 public:
  NcclTimed(std::shared_ptr<NcclCommunicator> communicator, const PlacedRow& row, void* stream,
            const Batch& batch)
      : communicator_(std::move(communicator)),
        key_(row.key),
        place_(row.place),
        submissions_(submissions_for(row)),
        stream_(stream),
        batch_(batch) {}

  // The first call connects ranks, and may wait for them: in a thread that can be left behind.
  Status prepare() {
    COLL_ASSIGN(wait_, DeviceWait::make(communicator_->device()));
    const auto first = [communicator = communicator_, key = key_, place = place_,
                        submissions = submissions_, stream = stream_, times = batch_.grouped] {
      return communicator->enqueue_grouped(times, key, place, submissions, stream);
    };
    COLL_TRY(within_deadline(communicator_->device(),
                             Deadline::after_seconds(communicator_->timeout_s()),
                             name_of(key_.collective), first));
    COLL_TRY(wait());
    if (batch_.graph == 0) return {};
    COLL_TRY(transport::DeviceGraph::begin(communicator_->device(), stream_));
    Status recorded;
    for (int i = 0; i < batch_.graph && recorded; ++i) recorded = call();
    auto graph = transport::DeviceGraph::end(communicator_->device(), stream_);
    if (!recorded) return recorded;
    if (!graph) return std::move(graph.error()).within("record a CUDA graph of NCCL's");
    graph_.emplace(std::move(*graph));
    return {};
  }

  Status enqueue() override {
    ++queued_;
    return graph_ ? graph_->launch(stream_) : call();
  }

  // NCCL has no deadlines of its own: a hang is what lasts longer than any operation may.
  Status wait() override {
    const double each_s = slowest_seconds(key_.size.bytes);
    const double patience_s = communicator_->timeout_s() +
                              each_s * double(std::exchange(queued_, 0)) * batch_.operations();
    Status done = wait_(stream_, Deadline::after_seconds(patience_s), "NCCL's operation");
    if (done) return done;
    communicator_->abandon();
    COLL_TRY(communicator_->async_error());
    return std::move(done.error()).within(format("NCCL ({})", communicator_->variant().name));
  }

 private:
  Status call() const {
    return communicator_->enqueue_grouped(batch_.grouped, key_, place_, submissions_, stream_);
  }

  std::shared_ptr<NcclCommunicator> communicator_;
  RowKey key_;
  Place place_;
  std::vector<Submission> submissions_;
  void* stream_;
  const Batch batch_;
  DeviceWait wait_;
  std::optional<transport::DeviceGraph> graph_;
  uint64_t queued_ = 0;  // since the last wait
};

}  // namespace

Result<std::unique_ptr<Timed>> nccl_timed(std::shared_ptr<NcclCommunicator> communicator,
                                          const PlacedRow& row, void* stream, const Batch& batch) {
  auto timed = std::make_unique<NcclTimed>(std::move(communicator), row, stream, batch);
  COLL_TRY(timed->prepare());
  return std::unique_ptr<Timed>(std::move(timed));
}

}  // namespace collctl::cmd
