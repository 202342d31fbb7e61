// How NCCL's operations are timed: queued, recorded into graphs and waited for as our own are.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/measure/versus_nccl.h"

namespace collctl::cmd {

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
