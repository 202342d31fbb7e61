// One operation of a whole job as the proofs see it: works of all ranks and channels with made-up
// addresses (never followed), and what belongs to them. Used by the algorithm, recorder and proof
// tests; the Job owns the ring orders and pair steps that its works point to.
#pragma once
#include <memory>
#include <vector>

#include "kernels/algo/algorithms.h"
#include "kernels/algo/tree_shape.h"
#include "kernels/chunk.h"
#include "kernels/record/interpret.h"
#include "tests/catch.h"

namespace proofs {

using namespace collctl::kernels;

struct Case {
  AlgorithmId algorithm = AlgorithmId::ring;
  Collective collective = Collective::all_reduce;
  int nranks = 4;
  uint64_t count = 64;
  uint64_t chunk_count = 16;
  int root = 0;
  int channels = 1;
  bool in_place = false;
  int ring_stride = 1;  // ring order: multiples of it, coprime to nranks
  DataType type = DataType::float32;
};

inline constexpr uint64_t kInput = 0x10'0000'0000, kOutput = 0x20'0000'0000;

class Job {
 public:
  explicit Job(const Case& c) : c_(c) {
    for (int i = 0; i < c.nranks; ++i) order_.push_back(i * c.ring_stride % c.nranks);
    for (int channel = 0; channel < c.channels; ++channel)
      for (int rank = 0; rank < c.nranks; ++rank) works.push_back(work_of(rank, channel));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::vector<Schedule> schedules() const {
    std::vector<Schedule> all;
    for (const Work& work : works) {
      auto one = record(work);
      REQUIRE(one.ok());
      all.push_back(std::move(*one));
    }
    return all;
  }

  std::vector<Work> works;

 private:
  uint64_t bytes() const { return element_size(c_.type); }
  const void* input(int rank) const {
    const uint64_t own = static_cast<uint64_t>(rank) * c_.count * bytes();
    uint64_t at = kInput;
    if (c_.in_place) at = kOutput + (c_.collective == Collective::all_gather ? own : 0);
    return reinterpret_cast<const void*>(at);
  }
  void* output(int rank) const {
    const uint64_t own = static_cast<uint64_t>(rank) * c_.count * bytes();
    const bool inside = c_.in_place && c_.collective == Collective::reduce_scatter;
    return reinterpret_cast<void*>(kOutput + (inside ? own : 0));
  }

  Work work_of(int rank, int channel) {
    Work w = {};
    w.input = input(rank);
    w.output = output(rank);
    w.count = c_.count;
    const uint64_t grain = chunk_grain(c_.type), channels = static_cast<uint64_t>(c_.channels);
    const uint64_t share = ((c_.count + channels - 1) / channels + grain - 1) / grain * grain;
    w.part_offset = std::min(c_.count, share * static_cast<uint64_t>(channel));
    w.part_count = std::min(share, c_.count - w.part_offset);
    w.chunk_count = c_.chunk_count;
    const int n = c_.nranks;
    for (int i = 0; i < n; ++i)
      if (order_[static_cast<size_t>(i)] == rank) w.ring.index = i;
    w.ring.prev = order_[static_cast<size_t>((w.ring.index + n - 1) % n)];
    w.ring.next = order_[static_cast<size_t>((w.ring.index + 1) % n)];
    w.ring.order = order_.data();
    w.tree = binary_tree(rank, n);
    w.rank = rank;
    w.nranks = n;
    w.root = c_.root;
    w.collective = c_.collective;
    w.algorithm = c_.algorithm;
    w.type = c_.type;
    w.channel = static_cast<uint16_t>(channel);
    if (c_.algorithm == AlgorithmId::pairwise) {
      pairs_.push_back(std::make_unique<std::vector<PairStep>>(pairs_of(w)));
      w.pairs = pairs_.back()->data();
      w.pair_count = static_cast<uint32_t>(pairs_.back()->size());
    }
    return w;
  }

  // Round d: to the rank d behind, from the rank d before; who has no business leaves it out.
  std::vector<PairStep> pairs_of(const Work& w) const {
    std::vector<PairStep> steps;
    const int n = c_.nranks;
    const int last = w.collective == Collective::send_recv ? 1 : n - 1;
    for (int d = w.collective == Collective::send_recv ? 1 : 0; d <= last; ++d) {
      const int to = (w.rank + d) % n, from = (w.rank + n - d) % n;
      const bool gathers = w.collective == Collective::gather;
      const bool scatters = w.collective == Collective::scatter;
      const bool sends = (!gathers || to == w.root) && (!scatters || w.rank == w.root);
      const bool receives = (!gathers || w.rank == w.root) && (!scatters || from == w.root);
      if (!sends && !receives) continue;
      const bool spread = scatters || w.collective == Collective::all_to_all;
      const bool collect = gathers || w.collective == Collective::all_to_all;
      PairStep step = {};
      step.send_peer = sends ? to : -1;
      step.recv_peer = receives ? from : -1;
      step.send_count = sends ? w.part_count : 0;
      step.recv_count = receives ? w.part_count : 0;
      step.send = element_at(w, w.input,
                             w.part_offset + (spread ? static_cast<uint64_t>(to) * w.count : 0));
      step.recv = element_at(w, w.output,
                             w.part_offset + (collect ? static_cast<uint64_t>(from) * w.count : 0));
      steps.push_back(step);
    }
    return steps;
  }

  Case c_;
  std::vector<int32_t> order_;
  std::vector<std::unique_ptr<std::vector<PairStep>>> pairs_;
};

inline std::vector<Collective> served_by(const AlgorithmRow& row) {
  std::vector<Collective> list;
  for (int c = 0; c < kCollectiveCount; ++c)
    if (serves(row, Collective(c))) list.push_back(Collective(c));
  return list;
}

}  // namespace proofs
