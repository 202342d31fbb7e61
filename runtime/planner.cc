#include "runtime/planner.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/format.h"
#include "kernels/algo/one_shot.h"
#include "kernels/algorithms.h"
#include "kernels/slices.h"
#include "runtime/cost.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Protocol;
using kernels::Work;

constexpr uint64_t kPartGrain = 16;  // elements: 16 bytes or more of every type
constexpr uint64_t kBytesPerChannel = 512
                                      << 10;  // below it another channel costs more than it gives
constexpr uint64_t kLeastPipelineChunk = 8 << 10;

struct Candidate {
  const kernels::AlgorithmRow* row = nullptr;
  Protocol protocol{};
  int channels = 1;
  uint64_t chunk_bytes = 0;
  Prediction expected;
};

// What the kernels are asked to do: a barrier is an all-reduce.
kernels::Collective executed(kernels::Collective c) {
  return c == Collective::barrier ? Collective::all_reduce : c;
}

uint64_t bytes_of(const Operation& op) {
  return op.count * kernels::element_size(op.type);
}

int channels_for(const Operation& op, const CommShape& shape, const Choices& choices) {
  const int have = int(shape.channels.size());
  if (choices.channels > 0) return std::min(choices.channels, have);
  const uint64_t useful = std::max<uint64_t>(1, bytes_of(op) / kBytesPerChannel);
  return int(std::min<uint64_t>(useful, uint64_t(std::min(have, shape.default_channels))));
}

// One slot moves a chunk with the least latency; where ranks share cores several slots do with
// fewer turns. Pipelines (chains and trees) cut the part so that all levels work at once.
uint64_t chunk_bytes_for(AlgorithmId algorithm, const Operation& op, Protocol protocol,
                         int channels, const CommShape& shape) {
  const uint64_t slot = slot_data_bytes(shape, protocol);
  const bool crowded = shape.ranks_per_core > 1;
  const uint64_t most = crowded ? slot * std::max(1u, shape.slot_count / 2) : slot;
  const uint64_t part = bytes_of(op) / uint64_t(channels);
  const bool chain = algorithm == AlgorithmId::ring && (op.collective == Collective::broadcast ||
                                                        op.collective == Collective::reduce);
  const bool tree = algorithm == AlgorithmId::tree || algorithm == AlgorithmId::tree_split;
  if ((!chain && !tree) || crowded) return most;
  const int depth = chain ? shape.nranks - 1 : shape.tree_depth;
  if (depth < 2) return most;
  const uint64_t cut = part / uint64_t(2 * depth);
  return std::clamp(cut, std::min(kLeastPipelineChunk, most), most);
}

// A piece fills a bank: with one block or slice for each rank where it has such.
uint64_t window_chunk_bytes(AlgorithmId algorithm, const Operation& op, const CommShape& shape) {
  const bool shared =
      algorithm == AlgorithmId::two_shot || kernels::one_shot_by_blocks(op.collective);
  return shape.window_bytes / (shared ? uint64_t(shape.nranks) : 1) / 16 * 16;
}

uint64_t chunk_elements(uint64_t chunk_bytes, kernels::DataType type) {
  const uint64_t size = kernels::element_size(type), grain = 16 / size;
  return std::max<uint64_t>(grain, chunk_bytes / size / grain * grain);
}

std::string list_of(uint32_t mask) {
  std::string text;
  for (int c = 0; c < kernels::kCollectiveCount; ++c)
    if ((mask >> c & 1) != 0)
      text += (text.empty() ? "" : ", ") + std::string(kernels::name_of(Collective(c)));
  return text;
}

bool serves_any(const kernels::AlgorithmRow& row, const Choices& choices) {
  for (int p = 0; p < kernels::kProtocolCount; ++p)
    if (serves(row, Protocol(p)) && choices.allows(Protocol(p))) return true;
  return false;
}

// Why nothing was left to choose from: the first rule that each allowed algorithm fails.
Error no_candidate(const Operation& op, const CommShape& shape, const Choices& choices) {
  std::string why;
  const auto add = [&](const std::string& text) { why += (why.empty() ? "" : "; ") + text; };
  for (int a = 0; a < kernels::kAlgorithmCount; ++a) {
    const AlgorithmId id = AlgorithmId(a);
    if (choices.algo.empty() || !choices.allows(id)) continue;
    const kernels::AlgorithmRow* row = kernels::find_algorithm(kernels::name_of(id));
    if (row == nullptr) {
      add(format("{} is not available for CPU ranks", kernels::name_of(id)));
    } else if (!serves(*row, executed(op.collective))) {
      add(format("{} serves only {}", row->name, list_of(row->collectives)));
    } else if (row->window && shape.window_bytes == 0 && shape.nranks > 1) {
      add(format("{} needs memory that all ranks map, and there is none: {}", row->name,
                 shape.no_window));
    } else if (!serves_any(*row, choices)) {
      add(format("{} speaks the protocol simple only", row->name));
    } else if (shape.slot_count < row->min_slots) {
      add(format("{} needs {} slots, STEPS gives {}", row->name, row->min_slots, shape.slot_count));
    }
  }
  for (int p = 0; p < kernels::kProtocolCount; ++p)
    if (choices.allows(Protocol(p)) && shape.slot_bytes[p] == 0 && !choices.proto.empty())
      add(format("{} is not available for CPU ranks", kernels::name_of(Protocol(p))));
  const std::string asked =
      format("algorithm '{}', protocol '{}'", choices.algo.empty() ? "all" : choices.algo,
             choices.proto.empty() ? "all" : choices.proto);
  return {ErrorCode::usage,
          format("{} cannot run with {}: {}", kernels::name_of(op.collective), asked,
                 why.empty() ? "no combination of them serves it" : why),
          "leave out --algo and --proto (COLLCTL_ALGO, COLLCTL_PROTO) to have them chosen"};
}

std::vector<Candidate> candidates(const Operation& op, const CommShape& shape,
                                  const Choices& choices) {
  std::vector<Candidate> found;
  for (const auto& row : kernels::algorithms()) {
    if (!choices.allows(row.id) || !serves(row, executed(op.collective))) continue;
    if (shape.slot_count < row.min_slots) continue;
    if (row.window && shape.window_bytes == 0 && shape.nranks > 1) continue;
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      const Protocol protocol = Protocol(p);
      if (!choices.allows(protocol) || !serves(row, protocol) || shape.slot_bytes[p] == 0) continue;
      Candidate c;
      c.row = &row;
      c.protocol = protocol;
      c.channels = channels_for(op, shape, choices);
      if (row.window) c.channels = std::clamp(shape.window_channels, 1, c.channels);
      c.chunk_bytes = row.window ? window_chunk_bytes(row.id, op, shape)
                                 : chunk_bytes_for(row.id, op, protocol, c.channels, shape);
      c.expected = predict({.collective = op.collective,
                            .algorithm = row.id,
                            .protocol = protocol,
                            .bytes = bytes_of(op),
                            .chunk_bytes = c.chunk_bytes,
                            .channels = c.channels},
                           shape);
      found.push_back(c);
    }
  }
  return found;
}

std::string explain(const std::vector<Candidate>& all, const Candidate& best) {
  if (all.size() == 1) return "the only one allowed";
  const Candidate* second = nullptr;
  for (const auto& c : all)
    if (&c != &best && (second == nullptr || c.expected.us < second->expected.us)) second = &c;
  return format("model: {:.1f} us, next {}/{} {:.1f} us, of {}", best.expected.us,
                second->row->name, kernels::name_of(second->protocol), second->expected.us,
                all.size());
}

Result<Candidate> best_of(const Operation& op, const CommShape& shape, const Choices& choices,
                          std::string& why) {
  const std::vector<Candidate> all = candidates(op, shape, choices);
  if (all.empty()) return no_candidate(op, shape, choices);
  const auto best = std::min_element(
      all.begin(), all.end(), [](auto& a, auto& b) { return a.expected.us < b.expected.us; });
  why = explain(all, *best);
  return *best;
}

Work work_for(const Operation& op, const Candidate& c, const CommShape& shape, int channel,
              detail::Part part, const std::vector<int32_t>& order) {
  Work w{};
  w.input = op.input;
  w.output = op.output;
  w.count = op.count;
  w.part_offset = part.offset;
  w.part_count = part.count;
  // A chunk of more slices than this deadlocks: wide types in the cuts of a narrow one.
  const uint64_t room = c.row->window ? c.chunk_bytes
                                      : slot_data_bytes(shape, c.protocol) *
                                            kernels::most_slices(*c.row, shape.slot_count);
  w.chunk_count = op.chunk_elements != 0
                      ? std::min(op.chunk_elements, chunk_elements(room, op.type))
                      : chunk_elements(c.chunk_bytes, op.type);
  const auto at = std::find(order.begin(), order.end(), shape.rank) - order.begin();
  const auto n = int64_t(order.size());
  w.ring = {.prev = order[size_t((at + n - 1) % n)],
            .next = order[size_t((at + 1) % n)],
            .index = int32_t(at),
            .reserved = 0,
            .order = order.data()};
  w.tree = shape.channels[size_t(channel)].tree;
  w.rank = shape.rank;
  w.nranks = shape.nranks;
  w.root = op.root;
  w.collective = executed(op.collective);
  w.algorithm = c.row->id;
  w.protocol = c.protocol;
  w.type = op.type;
  w.op = op.op;
  w.channel = uint16_t(channel);
  return w;
}

Result<PlannedOp> plan_collective(const Operation& op, const CommShape& shape,
                                  const Choices& choices, Plan& plan) {
  std::string why;
  COLL_ASSIGN(const Candidate best, best_of(op, shape, choices, why));
  PlannedOp planned{.algorithm = best.row->id,
                    .protocol = best.protocol,
                    .collective = op.collective,
                    .channels = 0,
                    .works = {},
                    .expected_us = best.expected.us,
                    .why = std::move(why)};
  const auto parts = detail::cut_parts(op.count, best.channels);
  for (size_t c = 0; c < parts.size(); ++c) {
    plan.orders.push_back(std::make_shared<const std::vector<int32_t>>(shape.channels[c].ring));
    Work w = work_for(op, best, shape, int(c), parts[c], *plan.orders.back());
    if (best.row->id == AlgorithmId::pairwise) {
      plan.pairs.push_back(std::make_shared<const std::vector<kernels::PairStep>>(
          detail::exchange_rounds(op, shape, parts[c].offset, parts[c].count)));
      w.pairs = plan.pairs.back()->data();
      w.pair_count = uint32_t(plan.pairs.back()->size());
    }
    planned.works.push_back(w);
  }
  planned.channels = int(planned.works.size());
  return planned;
}

}  // namespace

uint64_t slot_data_bytes(const CommShape& shape, Protocol protocol) {
  return kernels::slot_data_bytes(shape.slot_bytes[int(protocol)], protocol);
}

std::vector<detail::Part> detail::cut_parts(uint64_t count, int channels) {
  std::vector<Part> parts;
  const uint64_t grains = (count + kPartGrain - 1) / kPartGrain;
  const auto pieces = uint64_t(channels);
  for (uint64_t c = 0; c < pieces; ++c) {
    // First grain of piece c; the quotient and remainder apart, so that nothing overflows.
    const auto first = [&](uint64_t i) {
      return grains / pieces * i + grains % pieces * i / pieces;
    };
    const uint64_t from = std::min(count, first(c) * kPartGrain);
    const uint64_t to = std::min(count, first(c + 1) * kPartGrain);
    if (to > from) parts.push_back({from, to - from});
  }
  if (parts.empty()) parts.push_back({0, 0});
  return parts;
}

Result<CollectiveChoice> choose_collective(const Operation& op, const CommShape& shape,
                                           const Choices& choices) {
  CollectiveChoice chosen;
  COLL_ASSIGN(const Candidate best, best_of(op, shape, choices, chosen.why));
  chosen.algorithm = best.row->id;
  chosen.protocol = best.protocol;
  chosen.channels = int(detail::cut_parts(op.count, best.channels).size());
  chosen.expected_us = best.expected.us;
  chosen.limited_by = best.expected.limited_by;
  return chosen;
}

Result<Plan> make_plan(std::span<const Operation> operations, const CommShape& shape,
                       const Choices& choices) {
  COLL_CHECK(!shape.channels.empty());
  Plan plan;
  std::vector<Operation> messages;
  for (const Operation& op : operations) {
    COLL_TRY(check_operation(op, shape.rank, shape.nranks));
    if (op.collective == Collective::send_recv) {
      messages.push_back(op);
      continue;
    }
    COLL_ASSIGN(PlannedOp planned, plan_collective(op, shape, choices, plan));
    plan.ops.push_back(std::move(planned));
  }
  if (!messages.empty()) COLL_TRY(detail::plan_messages(messages, shape, choices, plan));
  return plan;
}

}  // namespace collctl::runtime
