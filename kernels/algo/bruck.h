// Bruck: every rank hands on all blocks that it has, in step k to the rank 2^k before it, and so
// has twice as many. Called by run_algorithm on the backend's threads; owns nothing. log2 n
// messages instead of a ring's n - 1: the least latency of an all-gather over links.
//
// all_gather, n = 5, numbers are blocks; from the right to the left, 0 to 4:
//
//   rank      0       1       2       3       4
//   start     0       1       2       3       4
//   step 0    01      12      23      34      40        from the next
//   step 1    0123    1234    2340    3401    4012      from the second next
//   step 2    01234   12340   ...                       from the fourth next, what is missing
//
// Blocks lie at their places in the output from the start, so nothing is turned round at the end.
// Where a part is whole blocks, neighbours travel together: chunks run across blocks, and a step
// over small ones is one or two chunks (two where they pass the end of the output).
//
// steps: with chunks of a block each, n - 1 transfers of one rank, in ceil(log2 n) messages.
// elements sent by a rank: count x (n - 1).
// Slots: a rank sends a chunk before it receives one, so a chunk of s slices needs s slots.
//
// Source: J. Bruck, C. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for all-to-all
// communications in multiport message-passing systems", 1997.
#pragma once
#include <bit>

#include "kernels/block.h"
#include "kernels/chunk.h"

namespace collctl::kernels {

// Walks over the chunks of `left` blocks from `block` on, round the output; both ends alike.
struct BruckBlocks {
  const Work& work;
  int block, left;
  uint64_t done = 0;  // elements of the run

  // False at the end.
  COLL_FN bool next(uint64_t& at, uint64_t& size) {
    if (left == 0 || work.part_count == 0) return false;
    const bool whole = work.part_count == work.count;
    const int to_end = work.nranks - block;
    const int run = !whole ? 1 : left < to_end ? left : to_end;
    const uint64_t rest = static_cast<uint64_t>(run) * work.part_count - done;
    at = static_cast<uint64_t>(block) * work.count + work.part_offset + done;
    size = rest < work.chunk_count ? rest : work.chunk_count;
    done += size;
    if (size == rest) {
      left -= run;
      block = (block + run) % work.nranks;
      done = 0;
    }
    return true;
  }
};

COLL_NO_EXEC_CHECK
template <class Backend>
COLL_FN void bruck_all_gather(Backend& backend, const Work& work) {
  const int n = work.nranks;
  const uint64_t own = static_cast<uint64_t>(work.rank) * work.count;
  for (int have = 1; have < n && !backend.failed(); have *= 2) {
    const int more = have < n - have ? have : n - have;
    BlockSpec spec;
    spec.recv[0] = (work.rank + have) % n;
    spec.send[0] = (work.rank - have + n) % n;
    spec.input = work.input;
    spec.output = work.output;
    backend.template block<1, 1>(spec, [&](auto& b) {
      BruckBlocks out{work, work.rank, more}, in{work, spec.recv[0], more};
      uint64_t at = 0, size = 0;
      for (bool moves = true; moves && !backend.failed();) {
        moves = out.next(at, size);
        if (moves && have == 1) b.copy_send(at - own, at, size);
        if (moves && have > 1) b.send_from_output(at, size);
        if (in.next(at, size)) {
          b.recv(at, size);
          moves = true;
        }
      }
    });
  }
}

struct Bruck {
  static constexpr uint32_t kServes = collective_bit(Collective::all_gather);
  COLL_NO_EXEC_CHECK
  template <class Backend>
  COLL_FN static void run(Backend& backend, const Work& work) {
    bruck_all_gather(backend, work);
  }
  static uint64_t steps(Collective, int nranks) { return static_cast<uint64_t>(nranks - 1); }
  static uint64_t sent_elements(Collective, int nranks, uint64_t count, int, int) {
    return count * static_cast<uint64_t>(nranks - 1);
  }
  static int messages(int nranks) { return std::bit_width(static_cast<unsigned>(nranks - 1)); }
  template <class Visit>
  static void partners(int rank, int nranks, int, Visit visit) {
    for (int have = 1; have < nranks; have *= 2) {
      visit((rank + have) % nranks);
      visit((rank - have + nranks) % nranks);
    }
  }
};

}  // namespace collctl::kernels
