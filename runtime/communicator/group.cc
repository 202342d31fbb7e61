// Groups: what this thread starts between begin and end goes out as one submission for each
// communicator and stream. Each runs in its stream's worker, so that communicators driven by one
// thread do not wait for each other.
#include <algorithm>
#include <set>
#include <thread>

#include "runtime/communicator/group_state.h"

namespace collctl::runtime {

Group::Collected& Group::Collected::mine() {
  static thread_local Collected collected;
  return collected;
}

Status Group::Collected::add(Communicator::State& communicator,
                             const std::shared_ptr<Stream::State>& stream,
                             std::span<const Operation> operations, bool blocking) {
  COLL_TRY(communicator.check(operations));
  auto batch = std::find_if(batches.begin(), batches.end(),
                            [&](const Batch& b) { return b.stream == stream; });
  if (batch == batches.end()) {
    batches.push_back({&communicator, stream, {}, false});
    batch = batches.end() - 1;
  }
  batch->operations.insert(batch->operations.end(), operations.begin(), operations.end());
  batch->blocking = batch->blocking || blocking;
  return {};
}

// GPU ranks connect links before they launch. Several communicators of one thread do so side by
// side, because each waits for its peers, which may be among them; a communicator's own batches go
// in order.
Status Group::Collected::submit_all(const std::vector<Batch>& all) {
  std::vector<Status> outcomes(all.size());
  std::vector<std::jthread> connecting;
  std::set<const Communicator::State*> seen;
  for (size_t i = 0; i < all.size(); ++i) {
    Communicator::State* const communicator = all[i].communicator;
    if (!seen.insert(communicator).second) continue;
    bool waits = false;
    for (size_t k = i; k < all.size() && communicator->gpu != nullptr && !waits; ++k) {
      if (all[k].communicator != communicator) continue;
      const Result<bool> connects = communicator->would_connect(all[k].operations);
      waits = connects && *connects;
    }
    const auto start = [&all, &outcomes, communicator, i] {
      for (size_t k = i; k < all.size(); ++k)
        if (all[k].communicator == communicator)
          outcomes[k] = communicator->submit(all[k].operations, all[k].stream, false);
    };
    if (waits)
      connecting.emplace_back(start);
    else
      start();
  }
  for (std::jthread& thread : connecting) thread.join();  // by the deadline of a start-up
  for (Status& outcome : outcomes)
    if (!outcome) return std::move(outcome);
  return {};
}

Status Group::Collected::submit(bool wait) {
  const std::vector<Batch> all = std::move(batches);
  batches.clear();
  if (all.size() == 1)
    return all[0].communicator->submit(all[0].operations, all[0].stream, wait && all[0].blocking);
  // First look whether all of it can be planned: nothing is started by halves.
  for (const Batch& b : all) {
    if (b.communicator->gpu != nullptr) {
      COLL_TRY(b.communicator->would_connect(b.operations));  // plans, and keeps the plan
      continue;
    }
    std::vector<Operation> list = b.operations;
    for (Operation& op : list)
      if (op.collective == Collective::barrier)
        op.input = op.output = b.communicator->barrier_cell();
    COLL_ASSIGN([[maybe_unused]] const Plan plan,
                make_plan(list, b.communicator->shape, b.communicator->choices));
  }
  Status first;
  const auto keep = [&](Status status) {
    if (first && !status) first = std::move(status);
  };
  keep(submit_all(all));
  for (const Batch& b : all)
    if (wait && b.blocking) keep(b.stream->wait());
  return first;
}

Group::Group() {
  ++Collected::mine().depth;
}

Group::~Group() {
  if (ended_) return;
  Collected& group = Collected::mine();
  // Without end() nobody asks for the outcome; argument errors were returned by start().
  if (--group.depth == 0) (void)group.submit(false);
}

Status Group::end() {
  if (ended_) return Error(ErrorCode::usage, "a group was ended twice");
  ended_ = true;
  Collected& group = Collected::mine();
  if (--group.depth > 0) return {};
  return group.submit(true);
}

}  // namespace collctl::runtime
