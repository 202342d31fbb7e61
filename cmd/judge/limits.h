// What a measurement must reach (--min-busbw, --max-latency). Values.
#pragma once
#include <cstdint>
#include <optional>

namespace collctl::cmd {

struct Limit {
  double value = 0;                  // GB/s, or microseconds
  std::optional<uint64_t> at_bytes;  // none: at the largest size
};
struct Limits {
  std::optional<Limit> min_busbw, max_latency;
};

}  // namespace collctl::cmd
