// GPU memory over NICs, as `rails` measures it: what one measurement is and brings, and which are
// made between two hosts (memory_plan.cc, pure). Results travel: reading is bounded. Threads:
// values.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/record.h"
#include "cmd/rails/path.h"

namespace collctl::runtime {

inline constexpr int kHostMemory = -1;  // in the place of a GPU

// How an end of a measurement gets at its memory.
enum class MemoryWay : uint8_t {
  host,     // it is the host's
  direct,   // the NIC reads or writes the GPU's itself
  refused,  // driver or NIC refuse that: through pinned host memory
  by_rule,  // path or settings rule it out: likewise
  staged    // the network carries host memory alone: likewise
};
inline constexpr int kMemoryWays = 5;
const char* memory_way_word(MemoryWay way);  // stable, for scripts
struct MemoryUse {
  MemoryWay way = MemoryWay::host;
  std::string how;  // "DMA-BUF", "peer memory (nvidia_peermem ...)", or why not
};
// One direction.
struct MemoryFlow {
  RailEnd end = RailEnd::silent;
  double GBps = 0;       // alone
  double both_GBps = 0;  // while the other direction runs as well
  std::string text;      // when not ok: the reason
  MemoryUse out, in;     // at the sender, at the receiver
};
struct MemoryPoint {
  uint64_t bytes = 0;
  double there_GBps = 0, back_GBps = 0;
  double both_GBps = 0;  // both at the same time, their sum
};
// Memory of one host over a NIC of its own and one of the other host to memory there, and back.
// Hosts, GPUs and NICs are indexes.
struct MemoryTrial {
  int from = 0, to = 0;
  int from_gpu = kHostMemory, to_gpu = kHostMemory;
  int from_nic = 0, to_nic = 0;
  MemoryFlow there, back;
  double latency_us = 0;  // half of the way of 8 bytes there and back; 0: not measured
  std::vector<MemoryPoint> curve;
  bool of_hosts() const { return from_gpu == kHostMemory && to_gpu == kHostMemory; }
  bool ok() const { return there.end == RailEnd::ok && back.end == RailEnd::ok; }
};
void fields(base::Record& io, MemoryTrial& trial);
inline constexpr size_t kMostTrials = 1024;  // of two hosts, and sizes of a curve

// Sizes of a measurement's curve; those above a message go in several.
inline constexpr uint64_t kCurveStep = 8;
struct MemorySizes {
  std::vector<uint64_t> steps = {};
  // Then for each measurement the largest of `largest`, a step below that, ... for which it has the
  // time: its part of so many seconds of all between two hosts; 0: none.
  uint64_t largest = 0;
  double large_s = 0;
};
// The largest above `least` that takes no longer there, back and both ways, at this speed; 0: none.
uint64_t large_size(uint64_t largest, uint64_t least, double GBps, double seconds);

struct RailMatrix;
// Which are made between two hosts (of one host: its NICs against each other), those of host memory
// first: each GPU over the NICs near it (`every_nic`: over all) beside the other host's memory, and
// GPU k beside GPU k. The other NIC is that of the same name where these two go together.
std::vector<MemoryTrial> plan_trials(const RailHost& from, const RailHost& to,
                                     const std::pair<int, int>& hosts, bool one_host,
                                     bool every_nic, int roce_version);
// A GPU's own host matters, the other only has to be there: in the first rounds each host with GPUs
// gets kMemoryPartners others where there are so many. `with_gpus` by host.
inline constexpr int kMemoryPartners = 2;
using HostRounds = std::vector<std::vector<std::pair<int, int>>>;
HostRounds memory_rounds(const std::vector<bool>& with_gpus);
// The same for hosts in doubt, beside others than before where there are any.
HostRounds memory_rounds_again(const std::vector<int>& open, int hosts, int round);

}  // namespace collctl::runtime
