#include "cmd/verify/bench_op.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "cmd/verify/uneven.h"

namespace collctl::cmd {

using kernels::Collective;

namespace {

std::vector<PatternStep> next_steps(uint64_t count, const Place& place, bool) {
  const int n = place.nranks;
  return {{{.peer = (place.rank + 1) % n, .count = count},
           {.peer = (place.rank + n - 1) % n, .sends = false, .count = count}}};
}

template <SendPattern of>
std::vector<PatternStep> uneven_steps(uint64_t count, const Place& place, bool) {
  const auto share = uneven_share(place.rank, place.nranks, of);
  PatternStep step;
  uint64_t sent = 0, got = 0;
  for (int peer = 0; peer < place.nranks; ++peer) {
    const uint32_t to = share->to[size_t(peer)], from = share->from[size_t(peer)];
    if (to != 0) step.push_back({.peer = peer, .at = sent * count, .count = to * count});
    if (from != 0)
      step.push_back({.peer = peer, .sends = false, .at = got * count, .count = from * count});
    sent += to;
    got += room_of(from);
  }
  return {step};
}

// Before step k a rank has the blocks of the 2^k ranks that differ from it in lower bits only.
std::vector<PatternStep> hypercube_steps(uint64_t count, const Place& place, bool in_place) {
  const auto me = uint64_t(place.rank);
  std::vector<PatternStep> steps;
  if (!in_place)
    steps.push_back({{.peer = place.rank, .count = count},
                     {.peer = place.rank, .sends = false, .at = me * count, .count = count}});
  for (uint64_t blocks = 1; blocks < uint64_t(place.nranks); blocks *= 2) {
    const int peer = int(me ^ blocks);
    const uint64_t mine = me & ~(blocks - 1);
    PatternMessage send{
        .peer = peer, .from_output = true, .at = mine * count, .count = blocks * count};
    // The first step has its block from the input, and so need not wait for its copy.
    if (blocks == 1) send = {.peer = peer, .count = count};
    const PatternMessage recv{
        .peer = peer, .sends = false, .at = (mine ^ blocks) * count, .count = blocks * count};
    if (blocks == 1 && !steps.empty())
      steps[0].insert(steps[0].end(), {send, recv});
    else
      steps.push_back({send, recv});
  }
  return steps;
}

template <SendPattern of>
constexpr SendPatternRow uneven_row(const char* name,
                                    std::vector<uint32_t> (*deal)(int sender, int nranks)) {
  return {.pattern = of,
          .name = name,
          .like = Collective::all_to_all,
          .in_place = false,
          .steps_wait = false,
          .power_of_two = false,
          .steps = uneven_steps<of>,
          .deal = deal};
}

constexpr SendPatternRow kPatterns[] = {
    {.pattern = SendPattern::next,
     .name = "sendrecv",
     .like = Collective::send_recv,
     .in_place = false,
     .steps_wait = false,
     .power_of_two = false,
     .steps = next_steps},
    uneven_row<SendPattern::uneven>("alltoallv", mixed_blocks),
    {.pattern = SendPattern::hypercube,
     .name = "hypercube",
     .like = Collective::all_gather,
     .in_place = true,
     .steps_wait = true,
     .power_of_two = true,
     .steps = hypercube_steps},
    uneven_row<SendPattern::dispatch>("moe-dispatch", zipf_blocks),
    uneven_row<SendPattern::combine>("moe-combine", zipf_back_blocks),
    uneven_row<SendPattern::hot>("hot-expert", hot_blocks),
};

constexpr size_t kAllOps = kernels::kCollectiveCount + std::size(kPatterns) - 1;
constexpr std::array<BenchOp, kAllOps> kOps = [] {
  std::array<BenchOp, kAllOps> ops;
  for (size_t i = 0; i < kernels::kCollectiveCount; ++i) ops[i] = Collective(i);
  for (size_t i = 1; i < std::size(kPatterns); ++i)
    ops[kernels::kCollectiveCount + i - 1] = kPatterns[i].pattern;
  return ops;
}();

const char* name_at(int place) {
  return name_of(kOps[size_t(place)]);
}

}  // namespace

const SendPatternRow& row_of(SendPattern pattern) {
  return kPatterns[size_t(pattern)];
}

Collective like(const BenchOp& op) {
  return op.calls == Collective::send_recv ? row_of(op.pattern).like : op.calls;
}

std::span<const BenchOp> bench_ops() {
  return kOps;
}

const char* name_of(const BenchOp& op) {
  return op.calls == Collective::send_recv ? row_of(op.pattern).name : kernels::name_of(op.calls);
}

std::optional<BenchOp> find_bench_op(std::string_view name) {
  for (const BenchOp& op : kOps)
    if (name == name_of(op)) return op;
  return std::nullopt;
}

bool has_in_place_form(const BenchOp& op) {
  if (op.calls == Collective::send_recv) return row_of(op.pattern).in_place;
  return op.calls != Collective::all_to_all && op.calls != Collective::barrier;
}

bool is_uneven(const BenchOp& op) {
  return op.calls == Collective::send_recv && row_of(op.pattern).deal != nullptr;
}

bool steps_wait(const BenchOp& op) {
  return op.calls == Collective::send_recv && row_of(op.pattern).steps_wait;
}

Status check_ranks(const BenchOp& op, int ranks) {
  const bool wants_power = op.calls == Collective::send_recv && row_of(op.pattern).power_of_two;
  if (!wants_power || ranks < 1 || (ranks & (ranks - 1)) == 0) return {};
  return Error(ErrorCode::usage,
               format("{} of {} ranks: in step k rank r exchanges with rank r ^ 2^k, and not all "
                      "of these exist; expected 1, 2, 4, 8, ... ranks",
                      name_of(op), ranks));
}

void op_field(base::Record& io, const char* name, BenchOp& op) {
  int place = int(std::ranges::find(kOps, op) - kOps.begin());
  io.name(name, place, int(kOps.size()), name_at);
  op = kOps[size_t(place)];
}

}  // namespace collctl::cmd
