// BenchRun's parts around the rows: memory for them, another library beside us, what is said at the
// end.
#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "cmd/measure/closing.h"
#include "cmd/measure/fits.h"
#include "cmd/measure/run.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

using kernels::DataType;

// The largest rows decide; all ranks of a host together must fit into its memory.
Status BenchRun::reserve_buffers(const std::vector<uint64_t>& sizes) {
  uint64_t input = 0, output = 0;
  const uint64_t largest = *std::max_element(sizes.begin(), sizes.end());
  for (DataType type : spec_.types) {
    const uint32_t size = kernels::element_size(type);
    RowKey key{spec_.collective, type, {}, 0, {}};
    key.size = size_point(spec_.collective, largest, communicator_.size(), size);
    for (int root = 0; root < (has_root(spec_.collective) ? communicator_.size() : 1); ++root) {
      key.root = root;
      const BufferShape shape = buffer_shape(spec_.collective, key.size.count, place_of(key));
      input = std::max(input, shape.input * size);
      output = std::max(output, std::max(shape.output, shape.in_place_elements) * size);
      // All ranks alike, as windows must be.
      output = std::max(output,
                        most_output(spec_.collective, key.size.count, communicator_.size()) * size);
    }
  }
  COLL_TRY(check_memory(largest, input + output));
  if (communicator_.device()) {
    COLL_ASSIGN(blocks_, DeviceBlocks::make(communicator_.device(), std::max(input, output)));
  }
  input_ = GuardedBuffer(blocks_, spec_.window);
  output_ = GuardedBuffer(blocks_, spec_.window);
  input_.misalign(uint64_t(spec_.misalign));
  output_.misalign(uint64_t(spec_.misalign));
  COLL_TRY_IN(input_.reserve(input), "input buffer");
  COLL_TRY_IN(output_.reserve(output), "output buffer");
  if (!spec_.window) return {};
  GuardedBuffer* const both[] = {&input_, &output_};
  return windows_.add(both, patience());
}

Status BenchRun::check_memory(uint64_t largest, uint64_t each) const {
  if (const auto device = communicator_.device()) {
    const uint64_t free = device->free_bytes();
    if (free == 0 || each <= free) return {};
    return Error{
        ErrorCode::unavailable,
        format("{} of {} needs {} of buffers on {}, which has {} free of {}",
               name_of(spec_.collective), human_bytes(largest), human_bytes(each), device->text(),
               human_bytes(free), human_bytes(device->facts().memory_bytes)),
        "use a smaller --max-bytes, or end what else uses the GPU"};
  }
  const auto& peers = everyone().peers();
  const auto& own = peers[size_t(everyone().rank())];
  HostMemory memory{.ranks = uint64_t(local_ranks()), .bytes = base::physical_memory()};
  if (own.memory_group != 0) {
    memory.group_bytes = base::cgroup_limits().memory_bytes.value_or(0);
    memory.group_ranks = uint64_t(std::ranges::count_if(peers, [&](const auto& peer) {
      return peer.host_hash == own.host_hash && peer.memory_group == own.memory_group;
    }));
  }
  return fits_in_memory(format("{} of {}", name_of(spec_.collective), human_bytes(largest)), each,
                        memory);
}

int BenchRun::local_ranks() const {
  const auto& peers = everyone().peers();
  const uint64_t host = peers[size_t(everyone().rank())].host_hash;
  return int(std::count_if(peers.begin(), peers.end(),
                           [&](const auto& peer) { return peer.host_hash == host; }));
}

// Both sides' start is watched to the end of their first collective: the smallest row with data.
Status BenchRun::set_up_versus(const std::vector<uint64_t>& sizes) {
  const DataType type = spec_.types[0];
  RowKey key{spec_.collective, type, spec_.ops[0], std::max(spec_.roots[0], 0), {}};
  for (const uint64_t asked : sizes) {
    key.size =
        size_point(spec_.collective, asked, communicator_.size(), kernels::element_size(type));
    if (key.size.count != 0) break;
  }
  const Place place = place_of(key);
  const RunBuffers buffers = place_buffers(key, place, false, input_, output_);
  const auto submissions = submissions_for(key, place, buffers);
  // A row that no choice serves is told of where its turn comes.
  if (cost_watch_ != nullptr && plans_of(submissions)) {
    cost_watch_->resume();
    COLL_ASSIGN(const auto once, own_timed(communicator_, stream_, submissions, {timeout_s_, 0}));
    COLL_TRY(once->enqueue());
    COLL_TRY(once->wait());
    own_cost_ = cost_watch_->done();
  }
  out_.task.phase(everyone().rank(), format("start {}", kRivalNames[int(spec_.rival)]));
  const Versus::Options options{spec_.versus, timeout_s_};
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
  return send_closing(mine, std::move(closing), everyone(), together_ ? together_->out() : out_,
                      patience());
}

}  // namespace collctl::cmd
