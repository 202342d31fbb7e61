// The kernel of messages (pairwise): what a launch of it carries. It works with the verbs' kernels
// over the same fifos, but has nothing to reduce: hardly any stack, and sending and receiving
// side by side, each by warps of its own that share no barrier except between rounds.
#pragma once
#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

// Warps of a side that move data; one more keeps the counters.
inline constexpr int kMostPairWarps = 9;
inline constexpr int kMostPairThreads = 2 * (kMostPairWarps + 1) * 32;

// A block's rounds: the work of one channel.
struct SendRecvBlock {
  PairStep only;  // with `has_only`: there is one
  Fifo* send;     // of it, device memory; null: to be looked up
  union {
    Fifo* recv;             // likewise
    const PairStep* steps;  // otherwise: all of them, device memory
  };
  uint32_t step_count;
  int32_t rank;
  uint16_t channel;
  bool has_only;
};

struct SendRecvHead {
  DeviceShared shared;
  uint64_t op_count;
  uint64_t chunk_bytes;
  uint32_t element_bytes;
  Collective collective;
  uint8_t send_warps, recv_warps;  // that move data; 0: no sends, or receives
  bool apart;  // sides have blocks of their own, block 2 b sends and block 2 b + 1 receives
};

inline constexpr int kMostPairBlocks = 55;  // what 4 KiB of arguments hold
struct SendRecvCall {
  SendRecvHead head;
  SendRecvBlock blocks[kMostPairBlocks];
};
static_assert(sizeof(SendRecvCall) <= 4096);

// Host. Whether it is a launch of messages only that this kernel can run.
bool sendrecv_serves(const WorksLaunch& launch);
// Requires sendrecv_serves(). cudaError_t.
int launch_sendrecv(const WorksLaunch& launch);
int prepare_sendrecv();

}  // namespace collctl::kernels::cuda
