// Ring: every rank receives from its predecessor and sends to its successor. Called by
// run_algorithm on the backend's threads; owns nothing. The part is cut into chunks (chunk.h) and
// the ring runs over them loop by loop; positions count along the ring, blocks are ranks'.
//
// all_reduce, n = 4, chunks a b c d, what each position sends in the steps of one loop:
//
//   position   1   2    3     |  4    5    6
//      0       d   cd   bcd   |  A    D    C       small letters: sums in flight,
//      1       a   da   cda   |  B    A    D       capitals: final sums, made in step 3
//      2       b   ab   dab   |  C    B    A       by the receiver (post) and sent on
//      3       c   bc   abc   |  D    C    B       in steps 4 to 6
//
// steps and elements sent by a rank, n ranks, count elements (API meaning):
//   all_reduce      2(n-1)   2(n-1)/n x count     reduce_scatter   n-1   (n-1) x count
//   all_gather      n-1      (n-1) x count        broadcast        n-1   count, the last rank none
//   reduce          n-1      count, the root none (both are chains that start or end at the root)
// Slots: a fused verb holds an in-slot and needs an out-slot while every rank's out-slots still
// carry its first chunk, so a chunk of s slices needs s + 1 slots: two at least.
#pragma once
#include "kernels/block.h"
#include "kernels/chunk.h"

namespace collctl::kernels {

inline constexpr uint32_t kRingServes =
    collective_bit(Collective::all_reduce) | collective_bit(Collective::barrier) |
    collective_bit(Collective::all_gather) | collective_bit(Collective::reduce_scatter) |
    collective_bit(Collective::broadcast) | collective_bit(Collective::reduce);

// The position k steps before mine.
COLL_FN int ring_back(const Work& work, int k) {
  const int at = work.ring.index - k;
  return at < 0 ? at + work.nranks : at;
}

COLL_FN BlockSpec ring_spec(const Work& work) {
  BlockSpec spec;
  spec.recv[0] = work.ring.prev;
  spec.send[0] = work.ring.next;
  spec.input = work.input;
  spec.output = work.output;
  return spec;
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void ring_all_reduce(Backend& backend, const Work& work) {
  const int n = work.nranks;
  backend.template block<1, 1>(ring_spec(work), [&](auto& b) {
    for (uint64_t done = 0; done < work.part_count && !backend.failed();) {
      const ChunkRow row = ring_loop(work, done, n);
      int c = ring_back(work, 1);
      b.send(row.at(c), row.size(c));
      for (int k = 2; k < n; ++k) {
        c = ring_back(work, k);
        b.recv_reduce_send(row.at(c), row.size(c));
      }
      c = work.ring.index;
      b.recv_reduce_copy_send(row.at(c), row.at(c), row.size(c), kPost);
      for (int k = 1; k < n - 1; ++k) {
        c = ring_back(work, k);
        b.recv_copy_send(row.at(c), row.size(c));
      }
      c = ring_back(work, n - 1);
      b.recv(row.at(c), row.size(c));
      done += n * row.each;
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void ring_all_gather(Backend& backend, const Work& work) {
  const int n = work.nranks;
  const auto block_of = [&](int position) { return work.ring.order[position] * work.count; };
  backend.template block<1, 1>(ring_spec(work), [&](auto& b) {
    for (uint64_t done = 0; done < work.part_count && !backend.failed();) {
      const ChunkRow row = ring_loop(work, done, 1);
      b.copy_send(row.at(0), block_of(work.ring.index) + row.at(0), row.size(0));
      for (int k = 1; k < n - 1; ++k)
        b.recv_copy_send(block_of(ring_back(work, k)) + row.at(0), row.size(0));
      b.recv(block_of(ring_back(work, n - 1)) + row.at(0), row.size(0));
      done += row.each;
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void ring_reduce_scatter(Backend& backend, const Work& work) {
  const int n = work.nranks;
  const auto block_of = [&](int position) { return work.ring.order[position] * work.count; };
  backend.template block<1, 1>(ring_spec(work), [&](auto& b) {
    for (uint64_t done = 0; done < work.part_count && !backend.failed();) {
      const ChunkRow row = ring_loop(work, done, 1);
      b.send(block_of(ring_back(work, 1)) + row.at(0), row.size(0));
      for (int k = 2; k < n; ++k)
        b.recv_reduce_send(block_of(ring_back(work, k)) + row.at(0), row.size(0));
      b.recv_reduce(block_of(work.ring.index) + row.at(0), row.at(0), row.size(0), kPost);
      done += row.each;
    }
  });
}

// root -> next -> ... -> the rank before the root.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void ring_broadcast(Backend& backend, const Work& work) {
  const bool first = work.rank == work.root, last = work.ring.next == work.root;
  BlockSpec spec = ring_spec(work);
  if (first) spec.recv[0] = -1;
  if (last) spec.send[0] = -1;
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<1, 1>(spec, [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
      if (first)
        b.copy_send(row.at(k), row.at(k), row.size(k));
      else if (last)
        b.recv(row.at(k), row.size(k));
      else
        b.recv_copy_send(row.at(k), row.size(k));
    }
  });
}

// The rank behind the root -> ... -> the rank before the root -> root.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void ring_reduce(Backend& backend, const Work& work) {
  const bool last = work.rank == work.root, first = work.ring.prev == work.root;
  BlockSpec spec = ring_spec(work);
  if (first) spec.recv[0] = -1;
  if (last) spec.send[0] = -1;
  const ChunkRow row = chunk_sequence(work, work.part_offset, work.part_count);
  backend.template block<1, 1>(spec, [&](auto& b) {
    for (uint64_t k = 0; k < chunks_in(row) && !backend.failed(); ++k) {
      if (last)
        b.recv_reduce(row.at(k), row.at(k), row.size(k), kPost);
      else if (first)
        b.send(row.at(k), row.size(k));
      else
        b.recv_reduce_send(row.at(k), row.size(k));
    }
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void run_ring(Backend& backend, const Work& work) {
  switch (work.collective) {
    case Collective::all_gather:
      return ring_all_gather(backend, work);
    case Collective::reduce_scatter:
      return ring_reduce_scatter(backend, work);
    case Collective::broadcast:
      return ring_broadcast(backend, work);
    case Collective::reduce:
      return ring_reduce(backend, work);
    default:
      return ring_all_reduce(backend, work);
  }
}

struct Ring {
  static constexpr uint32_t kServes = kRingServes;
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    run_ring(backend, work);
  }
  static uint64_t steps(Collective c, int nranks) {
    const bool twice = c == Collective::all_reduce || c == Collective::barrier;
    return (twice ? 2 : 1) * static_cast<uint64_t>(nranks - 1);
  }
  static uint64_t sent_elements(Collective c, int nranks, uint64_t count, int rank, int root) {
    const uint64_t hops = static_cast<uint64_t>(nranks - 1);
    if (hops == 0) return 0;
    switch (c) {
      case Collective::all_gather:
      case Collective::reduce_scatter:
        return hops * count;
      case Collective::broadcast:
        return (rank + 1) % nranks == root ? 0 : count;
      case Collective::reduce:
        return rank == root ? 0 : count;
      default:
        return 2 * hops * count / static_cast<uint64_t>(nranks);
    }
  }
};

}  // namespace collctl::kernels
