// The choice: the least time, then channels and threads that have enough to do.
#include <algorithm>

#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/cost_table.h"
#include "runtime/plan/model.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;

bool is_modelled(AlgorithmId algorithm) {
  return find_latency(algorithm, Protocol::simple) != nullptr;
}

std::string pair_name(const Candidate& candidate) {
  return format("{} {}", name_of(candidate.algorithm), name_of(candidate.protocol));
}

std::string why_of(const Candidate& best, const std::vector<Candidate>& all) {
  const Candidate* next = nullptr;
  for (const Candidate& other : all) {
    if (&other == &best || !other.unavailable.empty()) continue;
    if (next == nullptr || other.us < next->us) next = &other;
  }
  if (next == nullptr) return pair_name(best) + ": nothing else that supports it was allowed";
  return format("{}; next {}: {:.4g} us (+{:.3g} %)", pair_name(best), pair_name(*next), next->us,
                100 * (next->us / best.us - 1));
}

Error none_left(const ModelInput& input, const Choices& choices, Collective collective) {
  std::string reasons;
  for (const kernels::AlgorithmRow& row : kernels::algorithms())
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (!choices.allows(row.id) || !choices.allows(Protocol(p))) continue;
      const std::string why = unavailable(input, row.id, Protocol(p), collective);
      if (reasons.find(why) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + why;
    }
  const auto asked = [](const char* kind, const std::string& names) {
    return names.empty() ? format("any {}", kind) : format("{} '{}'", kind, names);
  };
  return {ErrorCode::usage,
          format("no algorithm is left for {} ({}, {}): {}", name_of(collective),
                 asked("algorithm", choices.algo), asked("protocol", choices.proto), reasons)};
}

}  // namespace

Width useful_width(const ModelInput& input, AlgorithmId algorithm, Protocol protocol, int channels,
                   bool fixed, uint64_t bytes) {
  const ThreadsRow& row = threads_of(protocol);
  const bool ring = algorithm == AlgorithmId::ring;
  uint64_t each = row.bytes_each;
  if (ring && protocol == Protocol::ll) each *= uint64_t(input.ranks);
  Width width{.channels = channels, .threads = row.most};
  const bool slow = input.ring.channels * input.ring.bw_intra <= factor(FactorId::slow_gbps);
  if (ring && protocol == Protocol::simple && slow) width.threads = kSlowRingThreads;
  const auto too_little = [&] {
    return bytes < uint64_t(width.channels) * uint64_t(width.threads) * each;
  };
  if (!fixed)
    while (too_little() && width.channels > 1) --width.channels;
  while (too_little() && width.threads % 128 == 0) width.threads /= 2;
  // One more warp keeps Simple's counters.
  if (protocol == Protocol::simple) width.threads += kWarp;
  width.threads = std::max(width.threads, 3 * kWarp);
  if (detail::is_tree(algorithm)) width.threads = kTreeThreads;
  return width;
}

Result<Choice> choose(const ModelInput& input, const Choices& choices, Collective collective,
                      uint64_t bytes) {
  Choice choice;
  for (const kernels::AlgorithmRow& row : kernels::algorithms()) {
    if (!choices.allows(row.id) || !serves(row, collective) || !is_modelled(row.id)) continue;
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (!choices.allows(Protocol(p))) continue;
      Candidate candidate{row.id, Protocol(p), 0,
                          unavailable(input, row.id, Protocol(p), collective)};
      if (candidate.unavailable.empty())
        candidate.us = estimate(input, row.id, Protocol(p), collective, bytes).us;
      choice.candidates.push_back(std::move(candidate));
    }
  }
  const Candidate* best = nullptr;
  for (const Candidate& candidate : choice.candidates)
    if (candidate.unavailable.empty() && (best == nullptr || candidate.us < best->us))
      best = &candidate;
  if (best == nullptr) return none_left(input, choices, collective);
  choice.algorithm = best->algorithm;
  choice.protocol = best->protocol;
  const Width width = useful_width(input, best->algorithm, best->protocol, input.channels,
                                   choices.channels > 0, bytes);
  choice.channels = width.channels;
  choice.threads = width.threads;
  choice.expected = estimate(input, best->algorithm, best->protocol, collective, bytes);
  choice.why = why_of(*best, choice.candidates);
  return choice;
}

}  // namespace collctl::runtime
