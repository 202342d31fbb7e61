#include "kernels/record/schedule.h"

#include <bit>

#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "kernels/algo/dispatch.h"
#include "kernels/record/block_record.h"
#include "kernels/record/locate.h"

namespace collctl::kernels {
namespace {

class Keeper : public EventSink {
 public:
  void event(int part, const Event& event) override {
    while (static_cast<int>(parts.size()) <= part) parts.emplace_back();
    parts[static_cast<size_t>(part)].push_back(event);
  }
  std::vector<std::vector<Event>> parts;
};

// Where a plan's scratch lies nobody has said yet: beyond all that is mapped.
constexpr uintptr_t kScratch = uintptr_t{1} << 60;

enum class Side : uint8_t { input, output };

// Keeps the event that touches one address: the first that reads it or the last that writes it.
class Finder : public EventSink {
 public:
  Finder(uint64_t address, uint64_t element_bytes, Side side)
      : address_(address), element_bytes_(element_bytes), side_(side) {}

  void event(int part, const Event& e) override {
    if (part != part_) {
      part_ = part;
      received_ = 0;
    }
    if (e.n == 0) return;
    const VerbShape shape = shape_of(e.verb);
    const bool concerns = side_ == Side::input ? shape.reads : shape.writes;
    const uint64_t begin = side_ == Side::input ? e.from : e.to;
    const bool inside = address_ >= begin && address_ - begin < e.n * element_bytes_;
    if (concerns && inside && (!found || side_ == Side::output)) {
      found = e;
      step = received_;
    }
    if (shape.receives) ++received_;
  }

  std::optional<Event> found;
  uint64_t step = 0;

 private:
  uint64_t address_, element_bytes_;
  Side side_;
  int part_ = 0;
  uint64_t received_ = 0;
};

// Counts the chunks that begin below an address.
class ChunkCounter : public EventSink {
 public:
  ChunkCounter(uint64_t address, Side side) : address_(address), side_(side) {}
  void event(int, const Event& e) override {
    const VerbShape shape = shape_of(e.verb);
    if (e.n == 0) return;
    if (side_ == Side::input ? shape.reads && e.from < address_ : shape.writes && e.to < address_)
      ++below;
  }
  uint64_t below = 0;

 private:
  uint64_t address_;
  Side side_;
};

Work with_scratch(Work work) {
  if (scratch_bytes(work) > 0 && work.scratch == nullptr)
    work.scratch = std::bit_cast<void*>(kScratch + (uintptr_t{work.channel} << 40));
  return work;
}

std::optional<Location> find(const Work& asked, uint64_t element, Side side) {
  const Work work = with_scratch(asked);
  const uint64_t bytes = element_size(work.type);
  const uint64_t base = reinterpret_cast<uintptr_t>(side == Side::input ? work.input : work.output);
  Finder finder(base + element * bytes, bytes, side);
  RecordBackend backend(work, finder);
  if (!run_algorithm(backend, work) || !finder.found) return std::nullopt;
  const Event& e = *finder.found;
  const uint64_t begin = side == Side::input ? e.from : e.to;
  ChunkCounter counter(begin, side);
  RecordBackend again(work, counter);
  run_algorithm(again, work);
  Location location;
  location.channel = work.channel;
  location.verb = name_of(e.verb);
  location.chunk = counter.below;
  location.step = finder.step;
  location.first = (begin - base) / bytes;
  location.elements = e.n;
  for (int32_t peer : e.recv)
    if (peer >= 0) location.peers.push_back(peer);
  for (int peer = 0; reads_all_peers(e.verb) && peer < work.nranks; ++peer)
    if (peer != work.rank) location.peers.push_back(peer);
  return location;
}

}  // namespace

const char* name_of(Verb verb) {
  static constexpr const char* kNames[kVerbCount] = {"send",
                                                     "send_from_output",
                                                     "copy_send",
                                                     "recv",
                                                     "recv_send",
                                                     "recv_copy_send",
                                                     "recv_reduce",
                                                     "recv_reduce_send",
                                                     "recv_reduce_copy_send",
                                                     "copy",
                                                     "next_piece",
                                                     "stage",
                                                     "arrive_and_wait",
                                                     "reduce_from_peers",
                                                     "reduce_and_stage",
                                                     "copy_from_peer"};
  COLL_CHECK(static_cast<int>(verb) < kVerbCount);
  return kNames[static_cast<int>(verb)];
}

Result<Schedule> record(const Work& asked) {
  const Work work = with_scratch(asked);
  Keeper keeper;
  RecordBackend backend(work, keeper);
  if (!run_algorithm(backend, work))
    return Error(ErrorCode::usage,
                 format("{} does not support {} with chunks of {} elements",
                        name_of(work.algorithm), name_of(work.collective), work.chunk_count));
  if (keeper.parts.empty()) keeper.parts.emplace_back();
  return Schedule{work, std::move(keeper.parts)};
}

std::optional<Location> locate(const Work& work, uint64_t element) {
  return find(work, element, Side::output);
}
std::optional<Location> locate_input(const Work& work, uint64_t element) {
  return find(work, element, Side::input);
}

}  // namespace collctl::kernels
