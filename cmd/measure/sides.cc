// BenchRun's parts around the rows: another library beside us, what is said at the end.
#include <algorithm>

#include "base/format.h"
#include "base/host_limits.h"
#include "cmd/measure/closing.h"
#include "cmd/measure/run.h"

namespace collctl::cmd {

using kernels::DataType;

// Both sides' start is watched to the end of their first collective: the smallest row with data.
Status BenchRun::set_up_versus(const std::vector<uint64_t>& sizes) {
  const DataType type = spec_.types[0];
  RowKey key{spec_.collective, type, spec_.ops[0], std::max(spec_.roots[0], 0), {}};
  for (const uint64_t asked : sizes) {
    key.size =
        size_point(spec_.collective, asked, communicator_.size(), kernels::element_size(type));
    if (key.size.count != 0) break;
  }
  const Place place = place_of(communicator_, key);
  const RunBuffers buffers = memory_.of(key, false);
  const auto submissions = submissions_for(key, place, buffers);
  // A row that no choice serves is told of where its turn comes.
  if (cost_watch_ != nullptr && plans_of(submissions)) {
    cost_watch_->resume();
    COLL_ASSIGN(const auto once, own_timed(communicator_, stream_, submissions,
                                           {.timeout_s = everyone_.timeout_s()}));
    COLL_TRY(once->enqueue());
    COLL_TRY(once->wait());
    own_cost_ = cost_watch_->done();
  }
  everyone_.out().task.phase(everyone_.whole().rank(),
                             format("start {}", kRivalNames[int(spec_.rival)]));
  const Versus::Options options{spec_.versus, everyone_.timeout_s()};
  if (spec_.rival == Rival::mpi) {
    COLL_ASSIGN(versus_, versus_mpi(options, communicator_));
  } else {
    COLL_ASSIGN(versus_, versus_nccl(options, communicator_, {key, place, buffers}));
  }
  return {};
}

Status BenchRun::say_at_the_end(const base::HostLoad& load_before) {
  ClosingFacts mine;
  mine.load_before = load_before;
  mine.load_after = base::host_load();
  if (clocks_) mine.clocks = clocks_->since();
  if (waits_) mine.waits = &*waits_;
  BenchClosing closing;
  if (versus_) {
    closing.left_out = versus_->left_out();
    closing.other = versus_->name();
    COLL_ASSIGN(const auto cost, versus_->close());
    if (cost) {
      closing.other_variant = cost->variant;
      mine.other_cost = cost->cost;
    }
    mine.own_cost = own_cost_;
    if (mine.own_cost) mine.own_cost->buffer_bytes = communicator_.device_bytes();
  }
  return send_closing(mine, std::move(closing), everyone_.whole(), everyone_.out(),
                      everyone_.deadline());
}

}  // namespace collctl::cmd
