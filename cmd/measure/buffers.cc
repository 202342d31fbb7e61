#include "cmd/measure/buffers.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/log.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr double kAlikeToldSeconds = 2;
constexpr double kWindowsGoodbyeSeconds = 5;  // after an error, for what is still under way

// Bytes of a rank, for all roots; the largest rows decide.
struct RowBytes {
  uint64_t input = 0, output = 0;
};
RowBytes most_bytes(const BenchSpec& spec, uint64_t largest, const runtime::Communicator& own) {
  RowBytes most;
  for (const kernels::DataType type : spec.types) {
    const uint32_t size = kernels::element_size(type);
    RowKey key{spec.collective, type, {}, 0, {}};
    key.size = size_point(spec.collective, largest, own.size(), size);
    for (int root = 0; root < (has_root(spec.collective) ? own.size() : 1); ++root) {
      key.root = root;
      const BufferShape shape = buffer_shape(spec.collective, key.size.count, place_of(own, key));
      most.input = std::max(most.input, shape.input * size);
      most.output = std::max(most.output, std::max(shape.output, shape.in_place_elements) * size);
      // All ranks alike, as windows must be.
      most.input =
          std::max(most.input, most_input(spec.collective, key.size.count, own.size()) * size);
      most.output =
          std::max(most.output, most_output(spec.collective, key.size.count, own.size()) * size);
    }
  }
  return most;
}

Status check_memory(const BenchSpec& spec, uint64_t largest, uint64_t each,
                    const runtime::Communicator& whole) {
  const std::string what = format("{} of {}", name_of(spec.collective), human_bytes(largest));
  if (const auto device = whole.device()) {
    const uint64_t free = device->free_bytes();
    if (free == 0 || each <= free) return {};
    return Error{
        ErrorCode::unavailable,
        format("{} needs {} of buffers on {}, which has {} free of {}", what, human_bytes(each),
               device->text(), human_bytes(free), human_bytes(device->facts().memory_bytes)),
        "use a smaller --max-bytes, or end what else uses the GPU"};
  }
  return fits_in_memory(what, each, host_memory(whole));
}

}  // namespace

HostMemory host_memory(const runtime::Communicator& whole) {
  const auto& peers = whole.peers();
  const auto& own = peers[size_t(whole.rank())];
  HostMemory memory{.ranks = uint64_t(local_ranks(whole)), .bytes = base::physical_memory()};
  if (own.memory_group != 0) {
    memory.group_bytes = base::cgroup_limits().memory_bytes.value_or(0);
    memory.group_ranks = uint64_t(std::ranges::count_if(peers, [&](const auto& peer) {
      return peer.host_hash == own.host_hash && peer.memory_group == own.memory_group;
    }));
  }
  return memory;
}

uint64_t HostMemory::share() const {
  const uint64_t of_host = bytes / ranks, of_group = group_bytes / group_ranks;
  return of_host == 0 || of_group == 0 ? std::max(of_host, of_group) : std::min(of_host, of_group);
}

Status fits_in_memory(const std::string& what, uint64_t each, const HostMemory& memory) {
  const auto too_much = [&](uint64_t ranks, const std::string& place, const std::string& hint) {
    return Error{ErrorCode::unavailable,
                 format("{} needs {} of buffers for each of the {} ranks of this host{}", what,
                        human_bytes(each), ranks, place),
                 hint};
  };
  if (memory.bytes != 0 && each > memory.bytes / memory.ranks)
    return too_much(memory.ranks, format(", which has {} of memory", human_bytes(memory.bytes)),
                    "use a smaller --max-bytes or fewer ranks on this host");
  if (memory.group_bytes != 0 && each > memory.group_bytes / memory.group_ranks)
    return too_much(memory.group_ranks,
                    format(" in one control group (container, job), which may use {} of memory",
                           human_bytes(memory.group_bytes)),
                    "raise the limit of the container or the job (collctl doctor shows it), or use "
                    "a smaller --max-bytes or fewer ranks on this host");
  return {};
}

// After an error, which says more than what goes wrong here.
BenchWindows::~BenchWindows() {
  if (const Status gone = give_back(Deadline::after_seconds(kWindowsGoodbyeSeconds)); !gone)
    COLL_WARN("--window: {}", gone.error().chain());
}

Status BenchWindows::add(std::span<GuardedBuffer* const> buffers, Deadline deadline) {
  std::vector<runtime::WindowRange> ranges;
  for (const GuardedBuffer* buffer : buffers)
    ranges.push_back({.address = buffer->allocation(), .bytes = buffer->allocated_bytes()});
  auto made = communicator_.register_windows(ranges, deadline);
  if (!made) {
    Error error = std::move(made.error());
    // All ranks are told alike: who left before the others were would be who they name. (For
    // a usage error bench_rank knows that by itself.)
    if (error.code == ErrorCode::unavailable)
      (void)communicator_.barrier(deadline.earlier(Deadline::after_seconds(kAlikeToldSeconds)));
    if (error.rank < 0) error.rank = communicator_.rank();
    return std::move(error).within(format("rank {}: --window", communicator_.rank()));
  }
  windows_.insert(windows_.end(), made->begin(), made->end());
  return {};
}

Status BenchWindows::give_back(Deadline deadline) {
  if (windows_.empty()) return {};
  const std::vector<runtime::WindowPointer> gone = std::exchange(windows_, {});
  return communicator_.deregister_windows(gone, deadline);
}

uint64_t BenchWindows::bytes() const {
  uint64_t sum = 0;
  for (const auto& window : windows_) sum += window->bytes();
  return sum;
}

Place place_of(const runtime::Communicator& communicator, const RowKey& key) {
  return {communicator.rank(), communicator.size(), std::max(key.root, 0)};
}

int local_ranks(const runtime::Communicator& whole) {
  const auto& peers = whole.peers();
  const uint64_t host = peers[size_t(whole.rank())].host_hash;
  return int(
      std::ranges::count_if(peers, [&](const auto& peer) { return peer.host_hash == host; }));
}

Status RowMemory::reserve(const BenchSpec& spec, uint64_t largest,
                          const runtime::Communicator& whole, Deadline deadline) {
  const auto [input, output] = most_bytes(spec, largest, communicator_);
  COLL_TRY(check_memory(spec, largest, input + output, whole));
  if (communicator_.device()) {
    COLL_ASSIGN(blocks_, DeviceBlocks::make(communicator_.device(), std::max(input, output)));
  }
  input_ = GuardedBuffer(blocks_, spec.window);
  output_ = GuardedBuffer(blocks_, spec.window);
  input_.misalign(uint64_t(spec.misalign));
  output_.misalign(uint64_t(spec.misalign));
  COLL_TRY_IN(input_.reserve(input), "input buffer");
  COLL_TRY_IN(output_.reserve(output), "output buffer");
  if (!spec.window) return {};
  GuardedBuffer* const both[] = {&input_, &output_};
  return windows_.add(both, deadline);
}

PlacedRow RowMemory::of(const RowKey& key, bool in_place) {
  const Place place = place_of(communicator_, key);
  return {key, place, place_buffers(key, place, in_place, input_, output_)};
}

}  // namespace collctl::cmd
