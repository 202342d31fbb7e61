// Buffers on every GPU of this host, and what is measured with them: pairs, many at once, and the
// host's memory. Used by measure_gpus(). Threads: one.
#pragma once
#include <cstdint>
#include <vector>

#include "cmd/gpu_test/gpu_test.h"
#include "cmd/gpu_test/race.h"
#include "kernels/cuda/launch.h"
#include "transport/device/device.h"

namespace collctl::cmd {

// A GPU with what others write to.
struct BenchGpu {
  transport::DevicePointer device;
  transport::DeviceStream stream, back = {};  // back: for the other direction at the same time
  transport::DeviceMemory source = {}, landing = {}, chain = {};  // landing: a place a sender
  std::vector<transport::DeviceStream> to = {};  // one to each GPU; for many at once
};

class GpuBench {
 public:
  GpuBench(const GpuTestSpec& spec, const kernels::cuda::Launcher& launcher, GpuReport& report)
      : spec_(spec), launcher_(launcher), report_(report) {}
  // Errors: as measure_gpus().
  Status run();

 private:
  Status open();
  Status choose_bytes();
  Status fill();
  Status find_peers();
  void find_kernels();
  Status measure_pair(GpuPair& pair);
  Status measure_both(GpuPair& pair);
  Status measure_latency(GpuPair& pair);
  Status measure_many();
  // legs.cc
  Status measure_legs();
  Status measure_node(int node, uint8_t* out, uint8_t* in);
  Status measure_leg(size_t gpu, int node, uint8_t* out, uint8_t* in);

  int count() const { return int(gpus_.size()); }
  BenchGpu& from(const GpuPair& pair) { return gpus_[size_t(pair.from)]; }
  BenchGpu& to(const GpuPair& pair) { return gpus_[size_t(pair.to)]; }
  uint8_t* place(const GpuPair& pair) {
    return to(pair).landing.data() + uint64_t(pair.from) * report_.bytes;
  }
  const uint8_t* sent_by(int gpu) const;
  GpuPair& other_way(const GpuPair& pair);
  // By a stream of the sender, or of the receiver.
  Lane copy_lane(const GpuPair& pair, const BenchGpu& by, const transport::DeviceStream& stream);
  Lane kernel_lane(const GpuPair& pair, const BenchGpu& by);
  // So that what lies there afterwards has arrived since.
  Status clear(const GpuPair& pair);
  Status compare(GpuPair& pair, PairFigure figure);
  Status measure(GpuPair& pair, PairFigure figure, Lane lane);
  Result<double> sum_of(const std::vector<Lane>& lanes);
  Status kernel_status(const transport::Device& device, const char* what, int code) const;

  const GpuTestSpec& spec_;
  const kernels::cuda::Launcher& launcher_;
  GpuReport& report_;
  std::vector<BenchGpu> gpus_;
  transport::PinnedMemory pattern_, back_;
};

// By several threads.
bool same_bytes(const uint8_t* a, const uint8_t* b, uint64_t bytes);

}  // namespace collctl::cmd
