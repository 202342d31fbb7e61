// Limits that a measurement must reach (--min-busbw, --max-latency, --min-efficiency, --thresholds,
// --baseline). Values.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "cmd/judge/baseline.h"
#include "cmd/judge/thresholds.h"

namespace collctl::cmd {

struct Limit {
  double value = 0;                       // GB/s, microseconds, or a part of what is expected
  std::optional<uint64_t> at_bytes = {};  // none: at the largest size
};
struct Limits {
  std::optional<Limit> min_busbw, max_latency, min_efficiency;
  std::shared_ptr<const Thresholds> thresholds;  // null: none
  std::shared_ptr<const Baseline> baseline;      // null: none
};

}  // namespace collctl::cmd
