// Where the CPU ranks of a job sit: on which cores, caches and NUMA nodes, and what that means for
// the links between them. Each rank tells its CpuPlace in its facts; what follows from all of them
// is pure and the same on every rank, as the planner's choices must be.
//
// Core to core a cache line takes (published measurements of Skylake to Genoa servers, one way):
// about 25 ns within one last-level cache, 100 ns between caches of a socket, 200 ns between
// sockets. Those are the three classes of Nearness.
#pragma once
#include <cstdint>
#include <span>

#include "base/processors.h"
#include "runtime/plan/calibration.h"
#include "runtime/plan/shape.h"

namespace collctl::runtime {

enum class Nearness : uint8_t { cache, socket, host };
inline constexpr int kNearnessCount = 3;
static_assert(sizeof(Calibration::line_us) == kNearnessCount * sizeof(float));

// Plain data of a RankFacts. A rank that may run on several caches or sockets is where its first
// processor is, and as far from others as `span` says.
struct CpuPlace {
  int32_t cache = 0;    // lowest processor of the last-level cache
  int16_t package = 0;  // socket
  int16_t numa = 0;     // index of the NUMA node
  uint8_t span = 0;     // Nearness of the farthest of its own processors to each other
  uint8_t reserved[3] = {};
  uint32_t cache_kib = 0;        // of one last-level cache; 0: unknown
  float memory_gbps = 0;         // of one NUMA node, 1e9 bytes/s; 0: unknown
  float socket_gbps = 0;         // between NUMA nodes, one direction; 0: only one, or unknown
  Calibration calibration = {};  // of the host; that of its first rank counts
};
static_assert(sizeof(CpuPlace) == 56);

// The place of a rank that may run on `allowed` processors.
CpuPlace cpu_place(const base::Processors& processors, std::span<const int> allowed);
// Makes data from another rank safe to calculate with.
void sanitize(CpuPlace& place);
Nearness nearness(const CpuPlace& a, const CpuPlace& b);  // ranks of one host

// The ranks of every host in an order that keeps near ones together: by socket, NUMA node, cache,
// then rank. Rings and trees are built over it.
HostGroups by_nearness(const HostGroups& hosts, std::span<const CpuPlace> places);

// The links between ranks of one host, of the host where they are worst.
LocalLinks local_links(const HostGroups& near, std::span<const CpuPlace> places);

}  // namespace collctl::runtime
