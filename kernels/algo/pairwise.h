// Pairwise: rounds of one send and one receive, as the planner wrote them down (PairStep). Called
// by run_algorithm on the backend's threads; owns nothing. Runs all_to_all, gather, scatter and
// send_recv; a round with itself is a copy.
//
// all_to_all, n = 4, what each rank sends to whom in round d (receiving from rank - d meanwhile):
//
//   rank    d=0    d=1    d=2    d=3
//    0      copy   ->1    ->2    ->3
//    1      copy   ->2    ->3    ->0
//    2      copy   ->3    ->0    ->1
//    3      copy   ->0    ->1    ->2
//
// steps and elements sent by a rank: all_to_all n-1, (n-1) x count; gather n-1 at the root, count
//   (the root none); scatter n-1 at the root, which sends (n-1) x count, others none; send_recv 1,
//   count.
// Slots: chunk k is sent, then chunk k received, so whoever is furthest behind finds the slot free
// that it sends into and the data there that it waits for: one slot is enough, and a chunk of s
// slices needs s. Both ends of a pair must use the same chunk_count, and every rank must list its
// rounds in the same order of rounds (a round without partner may be left out).
#pragma once
#include "kernels/block.h"
#include "kernels/chunk.h"

namespace collctl::kernels {

inline constexpr uint32_t kPairwiseServes =
    collective_bit(Collective::all_to_all) | collective_bit(Collective::gather) |
    collective_bit(Collective::scatter) | collective_bit(Collective::send_recv);

// Host threads: a message may be lent to a receiver that can read the sender's memory, in larger
// chunks, as many at once as there are slots: no more, so that whoever is furthest behind finds
// room. The sender says so in its first slice. It waits until all was read at the end of the work,
// where whoever is furthest behind has nothing to wait for.
template <class Backend>
inline constexpr bool kLends = requires {
  Backend::kLends;
};

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void pairwise_round(Backend& backend, const Work& work, const PairStep& step) {
  const bool sends = step.send_peer >= 0 && step.send_count > 0;
  const bool receives = step.recv_peer >= 0 && step.recv_count > 0;
  ChunkRow out = chunk_sequence(work, 0, sends ? step.send_count : 0);
  ChunkRow in = chunk_sequence(work, 0, receives ? step.recv_count : 0);
  BlockSpec spec;
  spec.send[0] = sends ? step.send_peer : -1;
  spec.recv[0] = receives ? step.recv_peer : -1;
  spec.input = step.send;
  spec.output = step.recv;
  backend.template block<1, 1>(spec, [&](auto& b) {
    [[maybe_unused]] bool lends = false;
    [[maybe_unused]] uint64_t ahead = 1, sent = 0;
    if constexpr (kLends<Backend>) {
      lends = work.mark != 0 && work.protocol == Protocol::simple;
      if (lends && sends) {
        out.each = b.send_chunk(step.send_count);
        ahead = b.send_ahead();
      }
    }
    const uint64_t send_chunks = chunks_in(out);
    uint64_t recv_chunks = chunks_in(in);
    for (uint64_t k = 0; (k < send_chunks || k < recv_chunks) && !backend.failed(); ++k) {
      if constexpr (kLends<Backend>) {
        for (; sent < send_chunks && sent < k + ahead; ++sent) b.send(out.at(sent), out.size(sent));
        if (lends && k == 0 && receives) {
          in.each = b.recv_chunk();
          recv_chunks = chunks_in(in);
        }
      } else if (k < send_chunks) {
        b.send(out.at(k), out.size(k));
      }
      if (k < recv_chunks) b.recv(in.at(k), in.size(k));
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void pairwise_rounds(Backend& backend, const Work& work) {
  for (uint32_t i = 0; i < work.pair_count && !backend.failed(); ++i) {
    const PairStep& step = work.pairs[i];
    if (step.send_peer == work.rank && step.recv_peer == work.rank)
      backend.copy(step.send, step.recv, step.send_count);
    else
      pairwise_round(backend, work, step);
  }
}

struct Pairwise {
  static constexpr uint32_t kServes = kPairwiseServes;
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    pairwise_rounds(backend, work);
  }
  static uint64_t steps(Collective c, int nranks) {
    if (c == Collective::send_recv) return nranks > 1 ? 1 : 0;
    return static_cast<uint64_t>(nranks - 1);
  }
  static uint64_t sent_elements(Collective c, int nranks, uint64_t count, int rank, int root) {
    const uint64_t others = static_cast<uint64_t>(nranks - 1);
    switch (c) {
      case Collective::gather:
        return rank == root ? 0 : count;
      case Collective::scatter:
        return rank == root ? others * count : 0;
      case Collective::all_to_all:
        return others * count;
      default:
        return others > 0 ? count : 0;
    }
  }
};

}  // namespace collctl::kernels
