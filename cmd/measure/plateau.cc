#include "cmd/measure/plateau.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/processors.h"

namespace collctl::cmd {
namespace {

constexpr uint64_t kLeastBytes = 1u << 20;
constexpr uint64_t kMostOnGpu = uint64_t{8} << 30;
constexpr uint64_t kLeastOnCores = 32u << 20, kMostOnCores = 256u << 20;
// Input and output are an eighth of what is free; the rest is for what they are compared with, and
// for others.
constexpr uint64_t kPartOfMemory = 16;
constexpr uint64_t kTimesTheCache = 4;
constexpr double kMostNs = 0.25e9;  // of an iteration

}  // namespace

PlateauFacts plateau_facts(const runtime::Communicator& whole) {
  PlateauFacts facts{.memory = host_memory(whole)};
  if (const auto device = whole.device()) facts.gpu_bytes = device->free_bytes();
  const base::Processors& processors = base::host_processors();
  std::set<int> caches;
  for (const base::Processor& each : processors.online) caches.insert(each.cache_domain);
  facts.cache_bytes = processors.cache_bytes * caches.size();
  return facts;
}

uint64_t plateau_bytes(const PlateauFacts& facts) {
  if (facts.gpu_bytes > 0)
    return std::clamp(std::bit_floor(facts.gpu_bytes / kPartOfMemory), kLeastBytes, kMostOnGpu);
  const uint64_t beyond =
      std::clamp(std::bit_ceil(kTimesTheCache * facts.cache_bytes / facts.memory.ranks),
                 kLeastOnCores, kMostOnCores);
  const uint64_t share = facts.memory.share();
  if (share == 0) return beyond;
  return std::clamp(std::bit_floor(share / kPartOfMemory), kLeastBytes, beyond);
}

uint64_t bytes_in_time(uint64_t wanted, const RowBefore& before) {
  if (before.ns <= 0 || before.bytes == 0) return wanted;
  const double each_byte_ns = double(before.ns) / double(before.bytes);
  while (wanted > before.bytes && each_byte_ns * double(wanted) > kMostNs) wanted /= 2;
  return wanted > before.bytes ? wanted : 0;
}

}  // namespace collctl::cmd
