#include "kernels/cpu/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "kernels/cpu/launch.h"

namespace collctl::kernels {
namespace {

struct Level {
  const char* name;
  const ReduceTable* table;
};

bool has_avx2() {
#if defined(__x86_64__)
  // Not every compiler knows f16c by name.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         (ecx & bit_F16C) != 0;
#else
  return false;
#endif
}
bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

const Level* level_named(std::string_view name) {
  static const Level levels[] = {
      {"scalar", scalar_reduce_table()},
      {"avx2", has_avx2() ? avx2_reduce_table() : nullptr},
      {"avx512", has_avx512() ? avx512_reduce_table() : nullptr},
      {"neon", neon_reduce_table()},
  };
  for (const Level& level : levels)
    if (level.name == name) return level.table != nullptr ? &level : nullptr;
  return nullptr;
}

const Level* best_level() {
  for (const char* name : {"avx512", "avx2", "neon"})
    if (const Level* level = level_named(name); level != nullptr) return level;
  return level_named("scalar");
}

std::atomic<const Level*>& level_in_use() {
  static std::atomic<const Level*> level{best_level()};
  return level;
}

// Small enough that a piece stays in the first-level cache while it is copied again.
constexpr uint64_t kCopyPieceBytes = 8192;

}  // namespace

const char* simd_level() {
  return level_in_use().load(std::memory_order_acquire)->name;
}

bool force_simd_level(const char* name) {
  const Level* level = level_named(name);
  if (level != nullptr) level_in_use().store(level, std::memory_order_release);
  return level != nullptr;
}

ReduceFn reduce_function(DataType type, RedOp op) {
  const int column = op == RedOp::avg ? int(RedOp::sum) : int(op);
  return level_in_use().load(std::memory_order_acquire)->table->fn[int(type)][column];
}

void copy_to_all(const void* source, void* const* destinations, int destination_count,
                 uint64_t bytes) {
  if (destination_count == 1) {
    if (destinations[0] != source) std::memcpy(destinations[0], source, bytes);
    return;
  }
  const auto* from = static_cast<const uint8_t*>(source);
  for (uint64_t at = 0; at < bytes; at += kCopyPieceBytes) {
    const uint64_t piece = bytes - at < kCopyPieceBytes ? bytes - at : kCopyPieceBytes;
    for (int d = 0; d < destination_count; ++d) {
      auto* to = static_cast<uint8_t*>(destinations[d]);
      if (to != from) std::memcpy(to + at, from + at, piece);
    }
  }
}

void reduce_arrays(DataType type, RedOp op, const void* const* sources, int source_count,
                   void* const* destinations, int destination_count, uint64_t n, uint32_t divisor) {
  COLL_CHECK(source_count >= 1 && source_count <= kMaxReduceSources);
  COLL_CHECK(destination_count >= 0 && destination_count <= kMaxReduceDestinations);
  COLL_CHECK_NOTE(divisor <= 1 || op == RedOp::avg || op == RedOp::sum, "only sums are divided");
  if (n == 0 || destination_count == 0) return;
  if (source_count == 1 && divisor <= 1)
    copy_to_all(sources[0], destinations, destination_count, n * element_size(type));
  else
    reduce_function(type, op)(sources, source_count, destinations, destination_count, n, divisor);
}

}  // namespace collctl::kernels
