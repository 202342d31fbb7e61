// n ranks on one device: all blocks of one launch, rank r's channel c as the launch's channel
// r x channels + c. Every pair of ranks is connected for every channel and protocol, and every
// channel has a window; all of it is device memory.
#pragma once
#include <memory>

#include "kernels/cuda/launch.h"
#include "kernels/slices.h"
#include "tests/gpu/device_arena.h"
#include "tests/unit/kernels/cpu_operation.h"

namespace gpu_tests {

using namespace collctl::kernels;
using collctl::kernels::cuda::WorksLaunch;

struct WorldShape {
  int nranks = 2;
  int channels = 1;
  uint32_t slot_count = 8;
  uint32_t slot_data_bytes = 3840;  // of every protocol; a multiple of 240
  uint64_t first_step = 0;
  uint8_t before = 0;  // every byte of a slot; where zeros would look like what is to come
  uint64_t window_bytes = 16 << 10;  // of a bank
  uint8_t sender_flags = 0;          // of fifos
};

// Data that a launch may bring along in host memory: the rounds of all works, and by work its
// ring's order. Without them kernels look that up, and small operations go by the verbs.
struct HostSide {
  const PairStep* rounds = nullptr;
  std::vector<const int32_t*> orders = {};
};

class World {
 public:
  explicit World(const WorldShape& s);
  ~World();

  const WorldShape shape;
  // Launches the works (their channel is the rank's own, 0..channels-1) and waits. False: the
  // device did not end, or the launch was refused; reports() have why it aborted.
  bool run(std::vector<Work> works, int threads, int64_t timeout_ns, const HostSide& host = {});
  // Likewise, without waiting.
  bool launch(std::vector<Work> works, int threads, int64_t timeout_ns, const HostSide& host = {});
  const Report& report(int rank, int channel) const {
    return reports_[rank * shape.channels + channel];
  }
  bool aborted() const { return *abort_word_ != 0; }
  // The sender's record there for a proxy; where device memory is the host's.
  SlotRecord record(int from, int to, Protocol p, uint64_t step) const {
    return send_[index(from, to, 0, p)]->records[step % shape.slot_count];
  }

  // Traces of waits, in launches from now on: of all ranks together, as they are one launch.
  struct {
    WaitNote* notes = nullptr;  // one a block, at most kMaxChannels
    PeerWait* times = nullptr;  // one a rank
  } waits;

 private:
  static uint32_t slot_bytes(uint32_t data, Protocol p) {
    return p == Protocol::ll ? 2 * data : p == Protocol::ll128 ? data / 120 * 128 : data;
  }
  size_t bytes_needed() const;
  void connect(int from, int to, int channel, Protocol p);
  void make_windows();
  size_t index(int rank, int peer, int channel, Protocol p) const {
    return (size_t(rank * shape.channels + channel) * size_t(shape.nranks) + size_t(peer)) *
               kProtocolCount +
           size_t(p);
  }

  DeviceArena arena_;
  Fifo** send_ = nullptr;  // device, by index()
  Fifo** recv_ = nullptr;
  ChannelLinks* links_ = nullptr;
  std::vector<ChannelLinks> host_links_;
  Report* reports_ = nullptr;
  uint32_t* abort_word_ = nullptr;
};

}  // namespace gpu_tests
