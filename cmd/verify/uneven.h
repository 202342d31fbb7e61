// How many blocks each rank of an uneven exchange sends each other one. Every rank has n blocks for
// n ranks on average, as for alltoall; the counts are the same in every run, and on every machine.
// Threads: any.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "cmd/verify/bench_op.h"

namespace collctl::cmd {

// Rows of SendPatternRow::deal: blocks of one sender by receiver.
//
// alltoallv: block i of sender s goes to rank mix(mix(mix(n) + s) + i) mod n, where mix is
// splitmix64's finisher. A pair has one block on average, a third of them none, some several, and
// who receives most takes about 1.5 n.
std::vector<uint32_t> mixed_blocks(int sender, int nranks);
// moe-dispatch: tokens go to experts by Zipf's law, from every sender alike: rank k takes 1/(k + 1)
// of what rank 0 does, in whole blocks (the largest remainders are rounded up).
std::vector<uint32_t> zipf_blocks(int sender, int nranks);
// moe-combine: each expert sends back what it was sent.
std::vector<uint32_t> zipf_back_blocks(int sender, int nranks);
// hot-expert: half of the blocks of every sender, rounded up, go to rank 0; ranks 1, 2, ... take
// one of each sender's others.
std::vector<uint32_t> hot_blocks(int sender, int nranks);

struct UnevenShare {             // of one rank, in blocks
  std::vector<uint32_t> to;      // by receiver: that it sends there
  std::vector<uint32_t> from;    // by sender: that it gets from there
  std::vector<uint32_t> before;  // by sender: that go to ranks below this one, and stand before
  uint64_t sends = 0;            // blocks of its input
  // Blocks in its output. A pair without data has a block as well, which nobody may write.
  uint64_t room = 0;
};
inline constexpr uint32_t room_of(uint32_t blocks) {
  return blocks == 0 ? 1 : blocks;
}
// For a pattern that deals.
std::shared_ptr<const UnevenShare> uneven_share(int rank, int nranks,
                                                SendPattern of = SendPattern::uneven);

struct UnevenTotals {            // of all ranks
  uint64_t busiest = 0;          // blocks to or from others, of the rank that has most
  int busiest_rank = 0;          // the first of these
  uint64_t input = 0, room = 0;  // the largest input and output
};
UnevenTotals uneven_totals(int nranks, SendPattern of = SendPattern::uneven);

}  // namespace collctl::cmd
