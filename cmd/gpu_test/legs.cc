// Copies between each GPU and host memory of each NUMA node.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/numa.h"
#include "base/processors.h"
#include "cmd/gpu_test/bench.h"

namespace collctl::cmd {

using transport::DeviceStream;
using transport::PinnedMemory;

namespace {

constexpr int kLooks = 8;  // pages of a block whose node is asked for

// Touched pages of a node; -1: wherever. Error: the kernel did not put them there.
Result<base::Mapping> pages_on(int node, uint64_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return base::errno_error(ErrorCode::unavailable, "memory for copies", errno);
  base::Mapping memory(at, bytes);
  {
    const base::PreferredNode preferred(node);
    std::memset(at, 0, bytes);
  }
  for (int look = 0; node >= 0 && look < kLooks; ++look) {
    const uint64_t offset = bytes / kLooks * uint64_t(look);
    const int lies = base::node_of_page(static_cast<const uint8_t*>(at) + offset);
    if (lies < 0)
      return Error(ErrorCode::unavailable, "the kernel does not say on which NUMA node memory lies",
                   "in a container: --cap-add SYS_NICE");
    if (lies != node)
      return Error(ErrorCode::unavailable,
                   format("memory that was to lie on NUMA node {} lies on node {}", node, lies),
                   "numactl --hardware shows which node is full");
  }
  return memory;
}

// As the kernel counts, 10: itself; -1: not known.
int distance_between(int from, int to) {
  const auto& nodes = base::host_processors().nodes;
  for (const base::NumaDomain& domain : nodes)
    if (domain.id == from)
      for (size_t i = 0; i < nodes.size() && i < domain.distances.size(); ++i)
        if (nodes[i].id == to) return domain.distances[i];
  return -1;
}

}  // namespace

Status GpuBench::measure_leg(size_t g, int node, uint8_t* out, uint8_t* in) {
  const BenchGpu& gpu = gpus_[g];
  const auto leg = [&](const DeviceStream& stream, void* target, const void* source) {
    return Lane{&gpu.device, &stream, [this, &stream, target, source] {
                  return stream.copy(target, source, report_.bytes);
                }};
  };
  uint8_t* const landing = gpu.landing.data();
  HostLeg& row = report_.legs.emplace_back();
  row.gpu = int(g);
  row.node = node;
  row.distance = node < 0 ? -1 : distance_between(report_.gpus[g].numa, node);
  COLL_TRY(gpu.stream.fill(landing, 0, report_.bytes));
  COLL_TRY(gpu.stream.synchronize(base::Deadline::after_seconds(kGpuTimeout)));
  std::memset(in, 0, report_.bytes);
  COLL_ASSIGN(row.to_GBps, sum_of({leg(gpu.stream, landing, out)}));
  COLL_ASSIGN(row.from_GBps, sum_of({leg(gpu.stream, in, landing)}));
  row.wrong = !same_bytes(in, out, report_.bytes);
  COLL_ASSIGN(row.both_GBps,
              sum_of({leg(gpu.stream, landing, out), leg(gpu.back, in, gpu.source.data())}));
  return {};
}

// Pinned once, for all GPUs.
Status GpuBench::measure_node(int node, uint8_t* out, uint8_t* in) {
  COLL_ASSIGN(const PinnedMemory first, PinnedMemory::over(gpus_[0].device, out, report_.bytes));
  COLL_ASSIGN(const PinnedMemory second, PinnedMemory::over(gpus_[0].device, in, report_.bytes));
  std::memcpy(out, pattern_.data(), report_.bytes);
  for (size_t g = 0; g < gpus_.size(); ++g)
    COLL_TRY_IN(measure_leg(g, node, out, in),
                format("{} and host memory", gpus_[g].device->text()));
  return {};
}

Status GpuBench::measure_legs() {
  std::vector<int> nodes;
  for (const base::NumaDomain& domain : base::host_processors().nodes)
    if (!domain.processors.empty() && domain.memory_bytes > 0) nodes.push_back(domain.id);
  if (nodes.size() < 2) nodes.clear();
  for (const int node : nodes) {
    const auto out = pages_on(node, report_.bytes), in = pages_on(node, report_.bytes);
    if (!out || !in) {
      report_.no_nodes = (out ? in : out).error().message;
      continue;
    }
    COLL_TRY(
        measure_node(node, static_cast<uint8_t*>(out->get()), static_cast<uint8_t*>(in->get())));
  }
  if (!report_.legs.empty()) return {};
  COLL_ASSIGN(const base::Mapping out, pages_on(-1, report_.bytes));
  COLL_ASSIGN(const base::Mapping in, pages_on(-1, report_.bytes));
  return measure_node(-1, static_cast<uint8_t*>(out.get()), static_cast<uint8_t*>(in.get()));
}

}  // namespace collctl::cmd
