// Recursive doubling: in step k every rank exchanges all it has with the rank whose number differs
// in bit k, and both add. Called by run_algorithm on the backend's threads; owns nothing. The
// fewest dependent steps possible, so it suits small messages; a + b is the same on both sides,
// so all ranks hold the same bits at the end.
//
// all_reduce, n = 4, letters are contributions:
//
//   rank      0     1     2     3
//   step 0    a <-> b     c <-> d        partners differ in bit 0
//   step 1    ab <------> cd             0 with 2, 1 with 3: partners differ in bit 1
//                   ab <------> cd
//
// Other n: with p the largest power of two below, rank p + i gives its data to rank i first and
// gets the result from it last.
//
// steps: log2 p for n = p; 1 more while the n - p others are at most p / 2 (the last exchange then
//   brings data that did not wait for them), else 2 more.
// elements sent by a rank: count x log2 p, ranks below n - p count more, ranks from p on count.
//
// Slots: partners send before they receive, so a chunk of s slices needs s slots: one at least.
//
// Source: the butterfly exchange of R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of
// collective communication operations in MPICH", 2005.
#pragma once
#include <bit>

#include "kernels/block.h"
#include "kernels/chunk.h"

namespace collctl::kernels {

inline constexpr uint32_t kDoublingServes =
    collective_bit(Collective::all_reduce) | collective_bit(Collective::barrier);

// The largest power of two that is not above n.
COLL_FN int doubling_core(int n) {
  int p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

COLL_FN BlockSpec doubling_spec(const Work& work, int partner, const void* input) {
  BlockSpec spec;
  spec.recv[0] = partner;
  spec.send[0] = partner;
  spec.input = input;
  spec.output = work.output;
  return spec;
}

// A rank beyond the power of two: its data out, the result back.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void doubling_outsider(Backend& backend, const Work& work, int partner) {
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<1, 1>(doubling_spec(work, partner, work.input), [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k)
      b.send(row.at(k), row.size(k));
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k)
      b.recv(row.at(k), row.size(k));
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void doubling_all_reduce(Backend& backend, const Work& work) {
  const int core = doubling_core(work.nranks);
  if (work.rank >= core) return doubling_outsider(backend, work, work.rank - core);
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  const int outsider = work.rank + core < work.nranks ? work.rank + core : -1;
  const void* source = work.input;
  if (outsider >= 0) {
    backend.template block<1, 1>(doubling_spec(work, outsider, source), [&](auto& b) {
      for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k)
        b.recv_reduce(row.at(k), row.at(k), row.size(k), kNoPost);
    });
    source = work.output;
  }
  for (int bit = 1; bit < core; bit *= 2) {
    const bool last = bit * 2 == core;
    backend.template block<1, 1>(doubling_spec(work, work.rank ^ bit, source), [&](auto& b) {
      for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
        b.send(row.at(k), row.size(k));
        b.recv_reduce(row.at(k), row.at(k), row.size(k), last);
      }
    });
    source = work.output;
  }
  if (outsider >= 0)
    backend.template block<1, 1>(doubling_spec(work, outsider, source), [&](auto& b) {
      for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k)
        b.send_from_output(row.at(k), row.size(k));
    });
}

struct Doubling {
  static constexpr uint32_t kServes = kDoublingServes;
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    doubling_all_reduce(backend, work);
  }
  static uint64_t steps(Collective, int nranks) {
    const int core = doubling_core(nranks), outsiders = nranks - core;
    const int around = outsiders == 0 ? 0 : outsiders <= core / 2 ? 1 : 2;
    return static_cast<uint64_t>(std::countr_zero(static_cast<unsigned>(core)) + around);
  }
  static uint64_t sent_elements(Collective, int nranks, uint64_t count, int rank, int) {
    if (nranks == 1) return 0;
    const int core = doubling_core(nranks);
    if (rank >= core) return count;
    const int exchanges = std::countr_zero(static_cast<unsigned>(core));
    return count * static_cast<uint64_t>(exchanges + (rank + core < nranks ? 1 : 0));
  }
  template <class Visit>
  static void partners(int rank, int nranks, int, Visit visit) {
    const int core = doubling_core(nranks);
    if (rank >= core) return visit(rank - core);
    for (int bit = 1; bit < core; bit *= 2) visit(rank ^ bit);
    if (rank + core < nranks) visit(rank + core);
  }
};

}  // namespace collctl::kernels
