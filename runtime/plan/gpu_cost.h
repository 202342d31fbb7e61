// Predicted time of a collective on GPU ranks, by everything that the planner may choose: the
// window kernels by a table of measured times, all else by the model (model.h). Used to compare,
// and to say what limits. Pure; all ranks get the same answer. Threads: any.
//
// Where the machine at hand was measured (calibration.h), that counts instead of the table.
//
// The host's part (host_time) is the same whatever is chosen, so no time here has it: it is for
// what is held against measurements.
//
//   window kernel   launch + base + each further rank + bytes that leave a rank / bandwidth, where
//                   one-shot sends (n-1) x bytes and two-shot 2(n-1)/n x bytes; LL twice that for
//                   its flags, LL128 128/120; a broadcast whose receivers hand it on `bytes`
//                   on other paths than those of the machines measured their share of it, over
//                   PCIe with a crossing more; through host memory from a table of its own, by the
//                   share that the GPUs' links, the sockets' and the memory allow
//   direct          likewise, from a table of its own: the same bytes leave and enter a rank, but
//                   none are copied into place; two barriers of the ranks instead
//   ring, pairwise  the model's; over NVLink with the share of its bandwidth that is reached
//   tree-split      likewise the model's tree
//   tree            the same, but the bytes go one way at a time
//   doubling        (ours) log2 n messages one after the other, each with all bytes
//   bruck, halving  (ours) log2 n messages, together all that is gathered or added, on one channel
//   rooted-tree     (ours) log2 n messages, chunks behind one another, all bytes twice at a rank
#pragma once
#include <cstdint>
#include <string>

#include "runtime/plan/cost.h"
#include "runtime/plan/model.h"

namespace collctl::runtime {

// The path that windows go over.
struct GpuPath {
  // One GPU's bandwidth, one way, as the search has it of all channels: measured rates are scaled
  // by its share of those machines' 360 GB/s (18 NVLinks), and it is never more. For a pinned
  // window each GPU's through the host's memory, by its share of 48 GB/s (PCIe 5.0, 16 lanes).
  double gbps = 360;
  bool pcie = false;    // between some of the GPUs
  bool pinned = false;  // a window in host memory
  GpuCalibration measured = {};
};
GpuPath path_of_windows(const ModelInput& input, bool pinned);

// Whether the tables were measured on GPUs and paths like these: H100 and H200 over 18 NVLinks;
// their windows in host memory over PCIe 5.0.
bool has_window_table(const ModelInput& input, bool pinned);
// Names machines whose windows are alike: processors, GPUs, and what is between these.
std::string window_signature(const ModelInput& input, bool pinned,
                             const base::Processors& processors);
// By what two GPUs took for all-reduces of the kernel's two sizes, launched by a graph, as the
// table has it.
void set_measured(GpuCalibration& c, size_t kernel, double small_us, double large_us);

// The host's part, as it was measured there, or on hosts that are known.
HostTime host_time(const GpuCalibration& windows);

struct GpuQuery {
  kernels::Collective collective{};
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  int nranks = 1;
  uint64_t bytes = 0;  // of one rank's `count` elements
  GpuPath path = {};   // of window kernels
};

using GpuPrediction = Prediction;

// Predicts an algorithm over windows.
GpuPrediction predict_window_kernel(const GpuQuery& query);

// Direct between users' windows; `algorithm` and `protocol` are ignored.
GpuPrediction predict_direct(const GpuQuery& query);

// Empty, or why these GPU ranks cannot do it over fifos (a sentence without a full stop).
std::string fifos_unavailable(const ModelInput& input, const GpuQuery& query);
// Requires fifos_unavailable() to be empty.
GpuPrediction predict_fifos(const ModelInput& input, const GpuQuery& query);

// Bytes as the model and algbw count them: of all ranks where each has a block of its own.
uint64_t moved_bytes(kernels::Collective collective, int nranks, uint64_t bytes);

}  // namespace collctl::runtime
