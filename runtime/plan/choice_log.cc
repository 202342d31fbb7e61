#include "runtime/plan/choice_log.h"

#include "base/format.h"
#include "base/log.h"
#include "runtime/plan/planner.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kLeastBytes = 256, kMostBytes = uint64_t(256) << 20, kStep = 16;

}  // namespace

void log_choices(const CommShape& shape, const Choices& choices) {
  if (!base::log_enabled(base::LogLevel::info, base::Subsystem::tuning)) return;
  for (uint64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kStep) {
    const Operation op{.collective = Collective::all_reduce, .count = bytes / sizeof(float)};
    const auto chosen = choose_collective(op, shape, choices);
    if (chosen)
      COLL_INFO(tuning, "Tuning : allreduce of {} bytes by {}/{}, {} channels: {} ({})", bytes,
                kernels::name_of(chosen->algorithm), kernels::name_of(chosen->protocol),
                chosen->channels, chosen->why, chosen->expected.limited_by);
    else
      COLL_INFO(tuning, "Tuning : allreduce of {} bytes: {}", bytes, chosen.error().message);
  }
}

}  // namespace collctl::runtime
