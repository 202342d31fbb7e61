// How much each rank of an alltoallv sends each other one. Every rank has n blocks, as for
// alltoall, but deals them out: block i of sender s goes to rank mix(mix(mix(n) + s) + i) mod n,
// where mix is splitmix64's finisher. So every run has the same counts, a pair has one block on
// average, a third of them none, some several, and who receives most takes about 1.5 n. Threads:
// any.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace collctl::cmd {

struct UnevenShare {             // of one rank, in blocks
  std::vector<uint32_t> to;      // by receiver: that it sends there
  std::vector<uint32_t> from;    // by sender: that it gets from there
  std::vector<uint32_t> before;  // by sender: that go to ranks below this one, and stand before
  // Of its output. A pair without data has a block as well, which nobody may write.
  uint64_t room = 0;
};
inline constexpr uint32_t room_of(uint32_t blocks) {
  return blocks == 0 ? 1 : blocks;
}
std::shared_ptr<const UnevenShare> uneven_share(int rank, int nranks);

struct UnevenTotals {    // of all ranks
  uint64_t busiest = 0;  // blocks to or from others, of the rank that has most
  int busiest_rank = 0;  // the first of these
  uint64_t room = 0;     // the largest output
};
UnevenTotals uneven_totals(int nranks);

}  // namespace collctl::cmd
