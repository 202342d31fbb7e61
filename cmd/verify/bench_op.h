// The operation of a measurement's row: a collective of the communicator, or a pattern of sends and
// receives, which is a row of one table here. Values.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/record.h"
#include "kernels/contract/types.h"

namespace collctl::cmd {

struct Place {  // who of how many, and whose root
  int rank = 0, nranks = 1, root = 0;
};

// Pattern of the messages, where the operation is made of send_recv.
enum class SendPattern : uint8_t {
  next,       // sendrecv: to the next rank
  uneven,     // alltoallv: so many blocks to each (uneven.h)
  hypercube,  // an all-gather in log2 n steps, rank with rank ^ 2^step
  dispatch,   // moe-dispatch: most to the ranks of the experts that are asked most
  combine,    // moe-combine: and back
  hot,        // hot-expert: half of all to one rank
};

struct BenchOp {
  kernels::Collective calls = kernels::Collective::all_reduce;  // of the communicator
  SendPattern pattern = SendPattern::next;                      // of send_recv

  constexpr BenchOp() = default;
  constexpr BenchOp(kernels::Collective collective) : calls(collective) {}
  constexpr BenchOp(SendPattern of) : calls(kernels::Collective::send_recv), pattern(of) {}
  bool operator==(const BenchOp&) const = default;
};
inline constexpr BenchOp kAllToAllV{SendPattern::uneven}, kHypercube{SendPattern::hypercube};
inline constexpr BenchOp kDispatch{SendPattern::dispatch}, kCombine{SendPattern::combine},
    kHotExpert{SendPattern::hot};

// One message of a rank. Elements of its input, or of its output, which it sends on as well.
struct PatternMessage {
  int peer = -1;
  bool sends = true;
  bool from_output = false;  // of those sent
  uint64_t at = 0, count = 0;
};
// Messages under way at the same time; the next step waits for them.
using PatternStep = std::vector<PatternMessage>;

struct SendPatternRow {
  SendPattern pattern;
  const char* name;
  kernels::Collective like;  // whose sizes, buffers and results it has, but for what is uneven
  bool in_place;             // has such a form
  bool steps_wait;           // for one another, so several operations are not one group
  bool power_of_two;         // ranks
  // Those of one rank for `count` elements a block.
  std::vector<PatternStep> (*steps)(uint64_t count, const Place& place, bool in_place);
  // Blocks of a sender by receiver; null: not uneven.
  std::vector<uint32_t> (*deal)(int sender, int nranks) = nullptr;
};
const SendPatternRow& row_of(SendPattern pattern);
// The collective that it calls, or that its pattern is like.
kernels::Collective like(const BenchOp& op);

// All there are: the collectives in their order, then the patterns that are not one of them.
std::span<const BenchOp> bench_ops();
const char* name_of(const BenchOp& op);
std::optional<BenchOp> find_bench_op(std::string_view name);
constexpr bool has_op(const BenchOp& op) {
  return kernels::has_op(op.calls);
}
constexpr bool has_root(const BenchOp& op) {
  return kernels::has_root(op.calls);
}
bool has_in_place_form(const BenchOp& op);
bool steps_wait(const BenchOp& op);  // as of its row
// Whether its pattern deals blocks out: to some ranks several, to some none.
bool is_uneven(const BenchOp& op);
// Whether the model knows what it should take: not of uneven exchanges.
inline bool has_expectation(const BenchOp& op) {
  return !is_uneven(op);
}
// Error usage: the reason why a job of `ranks` cannot run it.
Status check_ranks(const BenchOp& op, int ranks);
// A field that holds its name.
void op_field(base::Record& io, const char* name, BenchOp& op);

}  // namespace collctl::cmd
