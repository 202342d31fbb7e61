// Tuners must answer the same on all ranks, else an error: ranks that chose differently would wait
// for one another. Each has a plugin of its own, with files of its host, so they compare what each
// was told, once for each shape of an operation, in its turn and before its links.
#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "base/printable.h"
#include "runtime/communicator/state.h"

namespace collctl::runtime {
namespace {

struct PackedTuned {  // as it travels
  uint64_t question = 0, bytes = 0;
  int32_t collective = 0, algorithm = 0, protocol = 0, channels = 0;
  char wish[32] = {};
};
static_assert(sizeof(PackedTuned) == 64);

PackedTuned packed(const PlannedOp& op) {
  PackedTuned made{.question = op.tuned->question,
                   .bytes = op.tuned->bytes,
                   .collective = int32_t(op.collective),
                   .algorithm = int32_t(op.algorithm),
                   .protocol = int32_t(op.protocol),
                   .channels = op.channels};
  op.tuned->wish.copy(made.wish, sizeof made.wish - 1);
  return made;
}

bool same_operation(const PackedTuned& a, const PackedTuned& b) {
  return a.question == b.question && a.bytes == b.bytes && a.collective == b.collective;
}
bool same_choice(const PackedTuned& a, const PackedTuned& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && a.channels == b.channels;
}

// They came over the network.
std::string operation_text(const PackedTuned& one) {
  const bool known = one.collective >= 0 && one.collective < kernels::kCollectiveCount;
  return format("{} of {} bytes",
                known ? kernels::name_of(Collective(one.collective)) : "something", one.bytes);
}
std::string choice_text(const PackedTuned& one) {
  const bool known = one.algorithm >= 0 && one.algorithm < kernels::kAlgorithmCount &&
                     one.protocol >= 0 && one.protocol < kernels::kProtocolCount;
  std::string wish(one.wish, ::strnlen(one.wish, sizeof one.wish));
  return format("{}/{}, {} channels (tuner: {})",
                known ? kernels::name_of(kernels::AlgorithmId(one.algorithm)) : "?",
                known ? kernels::name_of(kernels::Protocol(one.protocol)) : "?", one.channels,
                wish.empty() ? "no wish" : base::printable(wish));
}

}  // namespace

bool Communicator::State::is_alike(const PlannedOp& op) const {
  if (!op.tuned) return true;
  const std::lock_guard lock(tuned_mutex);
  return tuned_alike.count(op.tuned->question) != 0;
}

bool Communicator::State::compares_tuned(const Plan& plan) const {
  return tuner != nullptr && !std::all_of(plan.ops.begin(), plan.ops.end(),
                                          [&](const PlannedOp& op) { return is_alike(op); });
}

Status Communicator::State::compare_tuned(const Plan& plan, Deadline deadline) {
  for (const PlannedOp& op : plan.ops) {
    if (is_alike(op)) continue;
    std::vector<PackedTuned> all((size_t(size)));
    all[size_t(rank)] = packed(op);
    COLL_TRY(bootstrap->all_gather(all.data(), sizeof(PackedTuned), deadline));
    const auto who = [&](size_t r) { return format("rank {} (host {})", r, peers[r].host); };
    for (size_t r = 1; r < all.size(); ++r) {
      if (!same_operation(all[0], all[r]))
        return Error(ErrorCode::usage,
                     format("{} calls {}, {} calls {}, or with another type, operation or root",
                            who(0), operation_text(all[0]), who(r), operation_text(all[r])),
                     "all ranks call the same collectives in the same order")
            .blame(int(r));
      if (!same_choice(all[0], all[r]))
        return Error(ErrorCode::usage,
                     format("{} answers differently on the ranks: {}: {} on {}, {} on {}",
                            tuner->text(), operation_text(all[0]), choice_text(all[0]), who(0),
                            choice_text(all[r]), who(r)),
                     "give every host the same files of the tuner; COLLCTL_TUNER_PLUGIN=none goes "
                     "without it")
            .blame(int(r));
    }
    {
      const std::lock_guard alike(tuned_mutex);
      tuned_alike.insert(op.tuned->question);
    }
    if (rank == 0)
      COLL_INFO(tuning, "Tuning : {} by {}/{}, {} channels: {}", operation_text(all[0]),
                kernels::name_of(op.algorithm), kernels::name_of(op.protocol), op.channels, op.why);
  }
  return {};
}

}  // namespace collctl::runtime
