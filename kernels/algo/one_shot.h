// One-shot: every rank puts what others need of it into memory that all map, arrives, and takes
// what it needs from the others' memory. One barrier per piece, so the least latency on one host.
// Called by run_algorithm on the backend's threads; owns nothing.
//
// all_reduce, n = 4, letters are contributions; every rank sums in the order of ranks, so all have
// the same bits:
//
//   rank     stage    arrive    reduce_from_peers
//    0         a         |      a + b + c + d
//    1         b         |      a + b + c + d
//    2         c         |      a + b + c + d
//    3         d         |      a + b + c + d
//
// Others alike: all_gather and gather copy each peer's piece, broadcast the root's; reduce reduces
// only at the root; reduce_scatter, all_to_all and scatter stage one block for each rank (block r
// at r x chunk of the piece) and read their own.
//
// steps: 1 (what is read after one arrival is one step, however many peers).
// elements sent by a rank (read by others from its memory), count as in the API:
//   all_reduce, all_gather, reduce_scatter, all_to_all   (n-1) x count
//   broadcast   (n-1) x count from the root       scatter   (n-1) x count from the root
//   reduce      count, the root none              gather    count, the root none
//
// Source: the one-shot scheme of peer-mapped memory with banks by parity (as in the symmetric
// kernels of GPU libraries); the barrier instead of flags beside the data is ours.
#pragma once
#include "kernels/chunk.h"
#include "kernels/window_block.h"

namespace collctl::kernels {

inline constexpr uint32_t kOneShotServes =
    collective_bit(Collective::all_reduce) | collective_bit(Collective::barrier) |
    collective_bit(Collective::all_gather) | collective_bit(Collective::reduce_scatter) |
    collective_bit(Collective::broadcast) | collective_bit(Collective::reduce) |
    collective_bit(Collective::gather) | collective_bit(Collective::scatter) |
    collective_bit(Collective::all_to_all);

// Whether a piece holds a block for each rank instead of one for all.
COLL_FN bool one_shot_by_blocks(Collective c) {
  return c == Collective::reduce_scatter || c == Collective::scatter || c == Collective::all_to_all;
}

// The rank k places behind mine: peers are read in this order, so that not all read from one at
// once.
COLL_FN int one_shot_peer(const Work& work, int k) {
  const int peer = work.rank + k;
  return peer < work.nranks ? peer : peer - work.nranks;
}

// Calls piece(row) for each piece of the part.
template <class Failed, class Body>
COLL_FN void one_shot_pieces(const Work& work, Failed failed, Body piece) {
  for (uint64_t done = 0; done < work.part_count && !failed();) {
    const ChunkRow row = ring_loop(work, done, 1);
    piece(row);
    done += row.each;
  }
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void one_shot_reduction(Backend& backend, const Work& work) {
  const bool rooted = work.collective == Collective::reduce;
  const bool keeps = !rooted || work.rank == work.root;
  const bool gives = !rooted || work.rank != work.root;
  backend.window({work.input, work.output}, [&](auto& w) {
    one_shot_pieces(
        work, [&] { return backend.failed(); },
        [&](const ChunkRow& row) {
          const uint64_t at = row.at(0), n = row.size(0);
          w.next_piece(n);
          if (gives) w.stage(at, 0, n);
          w.arrive_and_wait();
          if (keeps) w.reduce_from_peers(at, 0, at, n, true);
        });
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void one_shot_gathering(Backend& backend, const Work& work) {
  const bool rooted = work.collective == Collective::gather;
  const bool keeps = !rooted || work.rank == work.root;
  const bool gives = !rooted || work.rank != work.root;
  backend.window({work.input, work.output}, [&](auto& w) {
    one_shot_pieces(
        work, [&] { return backend.failed(); },
        [&](const ChunkRow& row) {
          const uint64_t at = row.at(0), n = row.size(0);
          w.next_piece(n);
          if (gives) w.stage(at, 0, n);
          if (keeps)
            backend.copy(element_at(work, work.input, at),
                         element_at(work, work.output, uint64_t(work.rank) * work.count + at), n);
          w.arrive_and_wait();
          for (int k = 1; keeps && k < work.nranks; ++k) {
            const int peer = one_shot_peer(work, k);
            w.copy_from_peer(peer, 0, uint64_t(peer) * work.count + at, n);
          }
        });
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void one_shot_broadcast(Backend& backend, const Work& work) {
  const bool root = work.rank == work.root;
  backend.window({work.input, work.output}, [&](auto& w) {
    one_shot_pieces(
        work, [&] { return backend.failed(); },
        [&](const ChunkRow& row) {
          const uint64_t at = row.at(0), n = row.size(0);
          w.next_piece(n);
          if (root) {
            w.stage(at, 0, n);
            backend.copy(element_at(work, work.input, at), element_at(work, work.output, at), n);
          }
          w.arrive_and_wait();
          if (!root) w.copy_from_peer(work.root, 0, at, n);
        });
  });
}

// reduce_scatter, scatter, all_to_all: one block of the piece for each rank.
COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void one_shot_blocks(Backend& backend, const Work& work) {
  const bool reduces = work.collective == Collective::reduce_scatter;
  const bool exchanges = work.collective == Collective::all_to_all;
  const bool gives = work.collective != Collective::scatter || work.rank == work.root;
  const uint64_t own = uint64_t(work.rank) * work.count;
  backend.window({work.input, work.output}, [&](auto& w) {
    one_shot_pieces(
        work, [&] { return backend.failed(); },
        [&](const ChunkRow& row) {
          const uint64_t at = row.at(0), n = row.size(0);
          w.next_piece(uint64_t(work.nranks) * row.each);
          for (int k = 1; gives && k < work.nranks; ++k) {
            const uint64_t peer = uint64_t(one_shot_peer(work, k));
            w.stage(peer * work.count + at, peer * row.each, n);
          }
          const uint64_t mine = uint64_t(work.rank) * row.each;
          if (gives && !reduces)
            backend.copy(element_at(work, work.input, own + at),
                         element_at(work, work.output, (exchanges ? own : 0) + at), n);
          w.arrive_and_wait();
          if (reduces) {
            w.reduce_from_peers(own + at, mine, at, n, true);
          } else if (exchanges) {
            for (int k = 1; k < work.nranks; ++k) {
              const int peer = one_shot_peer(work, k);
              w.copy_from_peer(peer, mine, uint64_t(peer) * work.count + at, n);
            }
          } else if (!gives) {
            w.copy_from_peer(work.root, mine, at, n);
          }
        });
  });
}

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void run_one_shot(Backend& backend, const Work& work) {
  switch (work.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return one_shot_gathering(backend, work);
    case Collective::broadcast:
      return one_shot_broadcast(backend, work);
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all:
      return one_shot_blocks(backend, work);
    default:
      return one_shot_reduction(backend, work);
  }
}

struct OneShot {
  static constexpr uint32_t kServes = kOneShotServes;
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    run_one_shot(backend, work);
  }
  static uint64_t steps(Collective, int nranks) { return nranks > 1 ? 1 : 0; }
  static uint64_t sent_elements(Collective c, int nranks, uint64_t count, int rank, int root) {
    const uint64_t others = static_cast<uint64_t>(nranks - 1);
    switch (c) {
      case Collective::broadcast:
      case Collective::scatter:
        return rank == root ? others * count : 0;
      case Collective::reduce:
      case Collective::gather:
        return rank == root ? 0 : count;
      default:
        return others * count;
    }
  }
};

}  // namespace collctl::kernels
