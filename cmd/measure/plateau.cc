#include "cmd/measure/plateau.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/processors.h"
#include "cmd/measure/buffers.h"

namespace collctl::cmd {
namespace {

constexpr uint64_t kLeastBytes = 1u << 20;
// Larger ones have not been tried on real GPUs.
constexpr uint64_t kMostOnGpu = uint64_t{4} << 30;
constexpr uint64_t kLeastOnCores = 32u << 20, kMostOnCores = 256u << 20;
constexpr uint64_t kPartOfMemory = 16;  // input, output and what they are compared with
constexpr uint64_t kTimesTheCache = 4;
constexpr double kMostSeconds = 2;

}  // namespace

PlateauFacts plateau_facts(const runtime::Communicator& whole) {
  PlateauFacts facts{.local_ranks = local_ranks(whole)};
  if (const auto device = whole.device()) facts.gpu_bytes = device->free_bytes();
  facts.host_bytes = base::physical_memory();
  if (const auto limit = base::cgroup_limits().memory_bytes)
    facts.host_bytes = std::min(facts.host_bytes, *limit);
  const base::Processors& processors = base::host_processors();
  std::set<int> caches;
  for (const base::Processor& each : processors.online) caches.insert(each.cache_domain);
  facts.cache_bytes = processors.cache_bytes * caches.size();
  return facts;
}

uint64_t plateau_bytes(const PlateauFacts& facts) {
  if (facts.gpu_bytes > 0)
    return std::clamp(std::bit_floor(facts.gpu_bytes / kPartOfMemory), kLeastBytes, kMostOnGpu);
  const auto ranks = uint64_t(std::max(1, facts.local_ranks));
  const uint64_t beyond = std::clamp(std::bit_ceil(kTimesTheCache * facts.cache_bytes / ranks),
                                     kLeastOnCores, kMostOnCores);
  if (facts.host_bytes == 0) return beyond;
  return std::clamp(std::bit_floor(facts.host_bytes / kPartOfMemory / ranks), kLeastBytes, beyond);
}

uint64_t bytes_in_time(uint64_t wanted, const RowBefore& before, double blocks) {
  if (before.ns <= 0 || before.bytes == 0) return wanted;
  const double each_byte_s = double(before.ns) / 1e9 / double(before.bytes);
  while (wanted > before.bytes && each_byte_s * double(wanted) * blocks > kMostSeconds) wanted /= 2;
  return wanted > before.bytes ? wanted : 0;
}

}  // namespace collctl::cmd
