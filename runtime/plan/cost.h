// Predicted time of an operation on CPU ranks: a small model with a table of constants, used only
// to compare algorithms and protocols with each other. Pure. All ranks must get the same answer, so
// its inputs are the same on all ranks.
//
//   time = launch + hops x hop latency x crowding + bytes one rank moves / bandwidth x crowding
//
// Between ranks of one host the hop latency and the bandwidth follow from where the ranks sit
// (CommShape::local): caches, sockets and the links between them, memory. Between hosts the network
// decides.
// hops: dependent chunk moves on the longest path (ring: steps; tree: levels up and down, plus the
// chunks that follow the first through the pipeline). Crowding: ranks per core when above 1,
// because then every hop waits for a turn on a core, and the tree's fewer messages count more than
// its depth.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/plan/plan.h"

namespace collctl::runtime {

struct CostQuery {
  kernels::Collective collective{};
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  uint64_t bytes = 0;  // of one rank's `count` elements
  uint64_t chunk_bytes = 1;
  int channels = 1;
  bool shared = false;  // direct between buffers in users' windows (shared.h)
};

struct Prediction {
  double us = 0;
  std::string limited_by = {};  // in words: what takes most of it
};
Prediction predict(const CostQuery& query, const CommShape& shape);
inline double predict_us(const CostQuery& query, const CommShape& shape) {
  return predict(query, shape).us;
}

// The model's numbers out of what two cores took to give each other nothing, and so many bytes
// (beyond that), through a window (calibration.h): LocalLinks::line_us and window_gbps.
double line_us_of(double exchange_us);
double window_gbps_of(uint64_t bytes, double exchange_us);

}  // namespace collctl::runtime
