// The common parts of works_gpu: operations of all ranks in device memory, run and compared with
// what the host works out for itself; how many, and what was wrong. One thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/algo/algorithms.h"
#include "tests/gpu/world.h"

namespace gpu_tests {

using cpu_tests::Case;
using cpu_tests::describe;
using cpu_tests::Operation;

inline constexpr int64_t kPatience = 10'000'000'000;

inline int failures = 0, cases = 0;
inline std::vector<std::string> first_failures;  // printed at the end
void fail(const std::string& what);

// The operations of all ranks in device memory.
class Placed {
 public:
  Placed(DeviceArena& arena, const Case& c, int nranks) : arena_(arena), case_(c) {
    for (int r = 0; r < nranks; ++r) {
      ranks_.push_back(std::make_unique<Operation>(c, r, nranks));
      Operation& op = *ranks_.back();
      memory_.push_back(arena.put(op.memory()));
      input_.push_back(arena.put(op.input_memory()));
      order_.push_back(arena.put(op.order()));
      std::vector<PairStep> pairs = op.pairs();
      for (PairStep& p : pairs) {
        p.send = there(r, p.send);
        p.recv = const_cast<void*>(there(r, p.recv));
      }
      pairs_.push_back(arena.put(pairs));
      rounds_.push_back(std::move(pairs));
      scratch_.push_back(
          arena.take(scratch_bytes(c.algorithm, nranks, c.count * element_size(c.type))));
    }
  }
  // The rounds of a work, with the device's addresses.
  const std::vector<PairStep>& rounds(int rank) const { return rounds_[size_t(rank)]; }
  const int32_t* order(int rank) const { return ranks_[size_t(rank)]->order().data(); }
  Work work(int rank, int channel, int channels) const {
    Work w = ranks_[size_t(rank)]->work(channel, channels);
    w.input = there(rank, w.input);
    w.output = const_cast<void*>(there(rank, w.output));
    w.ring.order = order_[size_t(rank)];
    if (scratch_bytes(w) > 0)
      w.scratch = scratch_[size_t(rank)] +
                  scratch_bytes(w.algorithm, w.nranks, w.part_offset * element_size(w.type));
    else
      w.pairs = pairs_[size_t(rank)];
    return w;
  }
  // After a download of the arena.
  void check() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<uint8_t>& memory = ranks_[r]->memory();
      std::memcpy(memory.data(), arena_.host(memory_[r]), memory.size());
      const std::string wrong = ranks_[r]->check();
      if (!wrong.empty()) fail(wrong);
    }
  }

 private:
  // Where something of the rank's memory lies on the device. Its end counts as inside.
  const void* there(int rank, const void* p) const {
    Operation& op = *ranks_[size_t(rank)];
    const auto* at = static_cast<const uint8_t*>(p);
    const auto inside = [&](const std::vector<uint8_t>& m) {
      return !m.empty() && at >= m.data() && at <= m.data() + m.size();
    };
    if (inside(op.memory())) return memory_[size_t(rank)] + (at - op.memory().data());
    if (inside(op.input_memory())) return input_[size_t(rank)] + (at - op.input_memory().data());
    return nullptr;
  }

  DeviceArena& arena_;
  const Case case_;
  std::vector<std::unique_ptr<Operation>> ranks_;
  std::vector<uint8_t*> memory_, input_, scratch_;
  std::vector<int32_t*> order_;
  std::vector<PairStep*> pairs_;
  std::vector<std::vector<PairStep>> rounds_;
};

// Device memory for the operations of one launch.
DeviceArena& buffers();
bool expect_no_report(const World& world, const std::string& what);
// One operation of all ranks; `channels` 0: all of the world's.
bool runs(World& world, const Case& c, int threads = 128, int channels = 0);
uint64_t chunk_bytes(const World& world, const AlgorithmRow& row, int slices);
// A window holds a block of a piece for each rank, or one for all.
void fit_window(const World& world, const AlgorithmRow& row, Case& c);

// --- works_algorithms.cc ---
// Every algorithm, protocol and collective.
void every_algorithm(int nranks);
// Every type and operation, aligned and not.
void every_type(int nranks, int capability);
// Messages: sizes round the ends of lines, packs, slices and warps' shares, at every address.
void messages(int nranks);
// Every type and every address in a pack.
void message_types(int nranks);
// Slots of real size: the unrolled loops, many threads.
void large(int nranks);
// The 32-bit flags of LL wrap, and lines that a slice leaves unused must not be taken for new ones.
void flags_wrap();
// Several works of a channel, of several kinds, in one launch.
void mixed(int nranks);

}  // namespace gpu_tests
