#include "runtime/plan/planner.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "kernels/algo/one_shot.h"
#include "kernels/chunk.h"
#include "kernels/slices.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/model.h"
#include "runtime/plan/network_reduction.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Protocol;
using kernels::Work;

constexpr uint64_t kPartGrain = 16;  // elements: 16 bytes or more of every type
constexpr uint64_t kBytesPerChannel = 512
                                      << 10;  // below it another channel costs more than it gives
constexpr uint64_t kLeastPipelineChunk = 8 << 10;
// Work::scratch of one operation, in all. A ring is faster long before that.
constexpr uint64_t kMostScratch = 16 << 20;

using detail::bytes_of;
using detail::Chosen;
using detail::executed;
using detail::PlanCandidate;

int channels_for(const Operation& op, const CommShape& shape, const Choices& choices) {
  const int have = int(shape.channels.size());
  if (choices.channels > 0) return std::min(choices.channels, have);
  const uint64_t useful = std::max<uint64_t>(1, bytes_of(op) / kBytesPerChannel);
  return int(std::min<uint64_t>(useful, uint64_t(std::min(have, shape.default_channels))));
}

// One slot moves a chunk with the least latency; where ranks share cores several slots do with
// fewer turns.
uint64_t chunk_bytes_for(AlgorithmId algorithm, const Operation& op, Protocol protocol,
                         int channels, const CommShape& shape) {
  const uint64_t slot = slot_data_bytes(shape, protocol);
  const bool crowded = shape.ranks_per_core > 1;
  const uint64_t most = crowded ? slot * std::max(1u, shape.slot_count / 2) : slot;
  const int depth = detail::pipeline_depth(kernels::algorithm(algorithm), op.collective, shape);
  if (depth == 0 || crowded) return most;
  return detail::pipeline_chunk(bytes_of(op) / uint64_t(channels), depth, kLeastPipelineChunk,
                                most);
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

// The first rule that each allowed algorithm fails on CPU ranks.
void cpu_refusals(const Operation& op, const CommShape& shape, const Choices& choices,
                  const std::function<void(const std::string&)>& add) {
  for (int a = 0; a < kernels::kAlgorithmCount; ++a) {
    const AlgorithmId id = AlgorithmId(a);
    if (choices.algo.empty() || !choices.allows(id)) continue;
    const kernels::AlgorithmRow* row = kernels::find_algorithm(kernels::name_of(id));
    if (row == nullptr) {
      add(format("{} is not available for CPU ranks", kernels::name_of(id)));
    } else if (!serves(*row, executed(op.collective))) {
      add(format("{} supports only {}", row->name, list_of(row->collectives)));
    } else if (row->window && shape.window_bytes == 0 && shape.nranks > 1) {
      add(format("{} needs memory that all ranks map, and there is none: {}", row->name,
                 shape.no_window));
    } else if (row->network && !network_refusal(op, shape).empty()) {
      add(network_refusal(op, shape));
    } else if (std::string no_room = detail::scratch_refusal(*row, op, shape.nranks);
               !no_room.empty()) {
      add(no_room);
    } else if (!serves_any(*row, choices)) {
      add(format("{} supports the protocol simple only", row->name));
    } else if (shape.slot_count < row->min_slots) {
      add(format("{} needs {} slots, STEPS provides {}", row->name, row->min_slots,
                 shape.slot_count));
    }
  }
  for (int p = 0; p < kernels::kProtocolCount; ++p)
    if (choices.allows(Protocol(p)) && shape.slot_bytes[p] == 0 && !choices.proto.empty())
      add(format("{} is not available for CPU ranks", kernels::name_of(Protocol(p))));
}

// Why nothing was left to choose from.
Error no_candidate(const Operation& op, const CommShape& shape, const Choices& choices) {
  std::string why;
  const auto add = [&](const std::string& text) { why += (why.empty() ? "" : "; ") + text; };
  if (shape.gpu) {
    detail::gpu_refusals(op, shape, choices, add);
  } else {
    cpu_refusals(op, shape, choices, add);
  }
  const std::string asked =
      format("algorithm '{}', protocol '{}'", choices.algo.empty() ? "all" : choices.algo,
             choices.proto.empty() ? "all" : choices.proto);
  return {ErrorCode::usage,
          format("{} cannot run with {}: {}", kernels::name_of(op.collective), asked,
                 why.empty() ? "no combination of them supports it" : why),
          "leave out --algo and --proto (COLLCTL_ALGO, COLLCTL_PROTO) to have them chosen"};
}

std::vector<PlanCandidate> cpu_candidates(const Operation& op, const CommShape& shape,
                                          const Choices& choices) {
  std::vector<PlanCandidate> found;
  for (const auto& row : kernels::algorithms()) {
    if (!choices.allows(row.id) || !serves(row, executed(op.collective))) continue;
    if (shape.slot_count < row.min_slots) continue;
    if (row.window && shape.window_bytes == 0 && shape.nranks > 1) continue;
    if (row.network && !network_refusal(op, shape).empty()) continue;
    if (!detail::scratch_refusal(row, op, shape.nranks).empty()) continue;
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      const Protocol protocol = Protocol(p);
      if (!choices.allows(protocol) || !serves(row, protocol) || shape.slot_bytes[p] == 0) continue;
      PlanCandidate c;
      c.row = &row;
      c.protocol = protocol;
      c.channels = channels_for(op, shape, choices);
      if (row.window) c.channels = std::clamp(shape.window_channels, 1, c.channels);
      if (row.network) c.channels = detail::network_channels(shape, c.channels);
      if (detail::joins_blocks(row.id) && choices.channels == 0) c.channels = 1;
      c.chunk_bytes = row.window ? window_chunk_bytes(row.id, op, shape)
                                 : chunk_bytes_for(row.id, op, protocol, c.channels, shape);
      c.time = predict({.collective = op.collective,
                        .algorithm = row.id,
                        .protocol = protocol,
                        .bytes = bytes_of(op),
                        .chunk_bytes = c.chunk_bytes,
                        .channels = c.channels},
                       shape);
      found.push_back(std::move(c));
    }
  }
  return found;
}

std::string explain(const std::vector<PlanCandidate>& all, const PlanCandidate& best) {
  if (all.size() == 1) return "the only one allowed";
  const PlanCandidate* second = nullptr;
  for (const auto& c : all)
    if (&c != &best && (second == nullptr || c.time.us < second->time.us)) second = &c;
  return format("model: {:.1f} us, next {}/{} {:.1f} us, of {} candidates", best.time.us,
                second->row->name, kernels::name_of(second->protocol), second->time.us, all.size());
}

Result<Chosen> best_of(const Operation& op, const CommShape& shape, const Choices& choices,
                       bool registered) {
  const detail::CandidatesOf candidates_of = shape.gpu ? detail::gpu_candidates : cpu_candidates;
  const std::vector<PlanCandidate> all = candidates_of(op, shape, choices);
  if (all.empty()) return no_candidate(op, shape, choices);
  const auto best = std::min_element(all.begin(), all.end(),
                                     [](auto& a, auto& b) { return a.time.us < b.time.us; });
  Chosen own{.candidate = *best, .why = explain(all, *best)};
  if (shape.tuner == nullptr || shape.nranks < 2 || !is_tuned(op.collective)) return own;
  return detail::tuned(op, shape, choices, registered, own, all, candidates_of);
}

uint64_t chunk_count_for(const Operation& op, const PlanCandidate& c, const CommShape& shape) {
  const uint64_t grain = kernels::chunk_grain(op.type);
  if (c.by_window_kernel) return std::max<uint64_t>(1, (op.count + grain - 1) / grain) * grain;
  if (op.chunk_elements == 0) return chunk_elements(c.chunk_bytes, op.type);
  // A chunk of more slices than this deadlocks: wide types in the cuts of a narrow one.
  const uint64_t room = c.row->window ? c.chunk_bytes
                                      : slot_data_bytes(shape, c.protocol) *
                                            kernels::most_slices(*c.row, shape.slot_count);
  return std::min(op.chunk_elements, chunk_elements(room, op.type));
}

// Channels of pairs may be more than those with rings and trees, which they do not use.
const ChannelShape& channel_shape(const CommShape& shape, size_t channel) {
  return shape.channels[channel % shape.channels.size()];
}

Work work_for(const Operation& op, const PlanCandidate& c, const CommShape& shape, int channel,
              detail::Part part, const std::vector<int32_t>& order) {
  Work w{};
  w.input = op.input;
  w.output = op.output;
  w.count = op.count;
  w.part_offset = part.offset;
  w.part_count = part.count;
  w.chunk_count = chunk_count_for(op, c, shape);
  const auto at = std::find(order.begin(), order.end(), shape.rank) - order.begin();
  const auto n = int64_t(order.size());
  w.ring = {.prev = order[size_t((at + n - 1) % n)],
            .next = order[size_t((at + 1) % n)],
            .index = int32_t(at),
            .reserved = 0,
            .order = order.data()};
  w.tree = c.row->network && shape.nranks > 1 ? shape.network.chains[size_t(channel)]
                                              : channel_shape(shape, size_t(channel)).tree;
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
                                  const Choices& choices, bool registered, Plan& plan) {
  COLL_ASSIGN(Chosen chosen, best_of(op, shape, choices, registered));
  const PlanCandidate& best = chosen.candidate;
  PlannedOp planned{.algorithm = best.row->id,
                    .protocol = best.protocol,
                    .collective = op.collective,
                    .channels = 0,
                    .works = {},
                    .by_window_kernel = best.by_window_kernel,
                    .threads = best.threads,
                    .expected_us = best.time.us,
                    .expected = detail::expected_of(best.time, best.by_window_kernel, shape),
                    .why = std::move(chosen.why),
                    .tuned = std::move(chosen.tuned)};
  const auto parts = detail::cut_parts(op.count, best.channels);
  for (size_t c = 0; c < parts.size(); ++c) {
    plan.orders.push_back(
        std::make_shared<const std::vector<int32_t>>(channel_shape(shape, c).ring));
    Work w = work_for(op, best, shape, int(c), parts[c], *plan.orders.back());
    if (best.row->over == kernels::Over::rounds) {
      plan.pairs.push_back(std::make_shared<const std::vector<kernels::PairStep>>(
          detail::exchange_rounds(op, shape, parts[c].offset, parts[c].count)));
      w.pairs = plan.pairs.back()->data();
      w.pair_count = uint32_t(plan.pairs.back()->size());
      w.mark = detail::lends_from(shape);
    }
    planned.works.push_back(w);
  }
  planned.channels = int(planned.works.size());
  return planned;
}

}  // namespace

// The model's constants of CPU ranks are of servers whose memory it knows, and of sockets within
// one; those of kernels in windows are of Hopper's, on NVLink.
Expected detail::expected_of(const Prediction& time, bool by_window_kernel,
                             const CommShape& shape) {
  Expected made{.us = time.us, .limited_by = time.limited_by};
  if (shape.nranks < 2) return made;
  if (shape.gpu) {
    const ModelInput& model = *shape.model;
    const bool measured = by_window_kernel && model.windows.measured();
    made.modelled = model.known && !model.amd_gpus && model.min_sm >= 70 &&
                    (!by_window_kernel || measured || (model.min_sm >= 90 && model.max_sm < 100));
    if (!measured) made.unknown = model.unknown;
    made.host = host_time(model.windows);
  } else {
    made.modelled = shape.all_on_one_host && shape.local.memory_gbps > 0;
    if (!shape.all_on_one_host && shape.path.gbps <= 0)
      made.unknown = "the speed of " +
                     (shape.path.words.empty() ? "the network between hosts" : shape.path.words);
  }
  return made;
}

std::string detail::scratch_refusal(const kernels::AlgorithmRow& row, const Operation& op,
                                    int nranks) {
  const uint64_t parts = kernels::scratch_bytes(row.id, nranks, 1);
  if (parts == 0 || bytes_of(op) <= kMostScratch / parts) return {};
  return format("{} is for small operations: its sums of {} blocks of {} bytes exceed {} MiB",
                row.name, parts, bytes_of(op), kMostScratch >> 20);
}

uint64_t detail::pipeline_chunk(uint64_t bytes, int depth, uint64_t least, uint64_t most) {
  if (depth < 2) return most;
  return std::clamp(bytes / uint64_t(2 * depth), std::min(least, most), most);
}

int detail::messages_in_turn(const kernels::AlgorithmRow& row, Collective collective, int nranks) {
  if (joins_blocks(row.id)) return kernels::Bruck::messages(nranks);
  return int(row.steps(collective, nranks));
}

int detail::pipeline_depth(const kernels::AlgorithmRow& row, Collective collective,
                           const CommShape& shape) {
  const bool rooted = collective == Collective::broadcast || collective == Collective::reduce;
  if (row.id == AlgorithmId::ring) return rooted ? shape.nranks - 1 : 0;
  if (row.id == AlgorithmId::rooted_tree) return int(row.steps(collective, shape.nranks));
  return is_tree(row.id) ? levels_of(row.id, shape) : 0;
}

bool detail::is_tree(AlgorithmId algorithm) {
  const kernels::Over over = kernels::algorithm(algorithm).over;
  return over == kernels::Over::tree || over == kernels::Over::network;
}

int detail::levels_of(AlgorithmId algorithm, const CommShape& shape) {
  return algorithm == AlgorithmId::collnet ? shape.network.longest_chain : shape.tree_depth;
}

int detail::network_channels(const CommShape& shape, int wanted) {
  return std::clamp(int(shape.network.chains.size()), 1, wanted);
}

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
  COLL_ASSIGN(Chosen chosen, best_of(op, shape, choices, false));
  const PlanCandidate& best = chosen.candidate;
  return CollectiveChoice{.algorithm = best.row->id,
                          .protocol = best.protocol,
                          .channels = int(detail::cut_parts(op.count, best.channels).size()),
                          .expected = detail::expected_of(best.time, best.by_window_kernel, shape),
                          .why = std::move(chosen.why),
                          .tuned = std::move(chosen.tuned)};
}

Result<Plan> make_plan(std::span<const Operation> operations, const CommShape& shape,
                       const Choices& choices) {
  return detail::plan_all(operations, shape, choices, false);
}

Result<Plan> detail::plan_all(std::span<const Operation> operations, const CommShape& shape,
                              const Choices& choices, bool registered) {
  COLL_CHECK(!shape.channels.empty());
  Plan plan;
  std::vector<Operation> messages;
  for (const Operation& op : operations) {
    COLL_TRY(check_operation(op, shape.rank, shape.nranks));
    if (op.collective == Collective::send_recv) {
      messages.push_back(op);
      continue;
    }
    COLL_ASSIGN(PlannedOp planned, plan_collective(op, shape, choices, registered, plan));
    plan.ops.push_back(std::move(planned));
  }
  if (!messages.empty()) COLL_TRY(detail::plan_messages(messages, shape, choices, plan));
  return plan;
}

}  // namespace collctl::runtime
