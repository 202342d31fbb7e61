// Small operations over fifos, whose chunks are a slice each: the host runs the algorithm's text on
// the recorder and writes down what it moves (moves_of), and one kernel, the same for all
// algorithms, does these moves one after the other. On 2 x H200 over sockets an all-gather of 1 KiB
// was 10 us in the verbs' kernel before its data was out, most of it in calls, arguments on the
// stack and one look at memory behind another: here the fifos come with the launch and are read at
// once. It works with the verbs' kernels over the same fifos.
#pragma once
#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

// An end of a fifo: which of the block's, and how many steps of it come before in this launch.
struct MoveEnd {
  uint8_t fifo;
  uint8_t later;
};

// One verb's work (block.h), all in one slice: `in`, or else the first source, and every further
// source added to it, goes to `out` and to every target.
struct Move {
  const uint8_t* in;  // the caller's memory, or null
  uint8_t* out;       // likewise
  uint32_t bytes;     // more than 0
  bool divides;       // by MovesHead::divisor
  uint8_t in_count, out_count;
  MoveEnd recv[kMaxFanIn], send[kMaxFanOut];
};
static_assert(sizeof(Move) == 40);

struct MoveFifo {
  Fifo* fifo;     // device memory
  uint8_t steps;  // that the launch takes of it
  bool receives;
};

// The work of one channel: parts of the call's lists.
struct MovesBlock {
  int32_t rank;
  uint16_t channel;
  uint16_t first_move, move_count;
  uint16_t first_fifo, fifo_count;
};

struct MovesHead {
  DeviceShared shared;
  uint64_t op_count;
  uint32_t divisor;     // of avg, else 1
  uint32_t most_bytes;  // of a move
  DataType type;
  RedOp op;
  Collective collective;
  AlgorithmId algorithm;
  Protocol protocol;
};

// By Simple every move waits for its own fence and for two meetings: larger ones are the verbs'.
inline constexpr uint32_t kMostMoveBytes = 32 << 10;
// The most that 4 KiB of arguments hold.
inline constexpr int kMostMoveBlocks = 16, kMostMoveFifos = 40, kMostMoves = 74;
inline constexpr int kMostMovesOfBlock = 64, kMostFifosOfBlock = 16;
struct MovesCall {
  MovesHead head;
  MovesBlock blocks[kMostMoveBlocks];
  MoveFifo fifos[kMostMoveFifos];
  Move moves[kMostMoves];
};
static_assert(sizeof(MovesCall) <= 4096);

// Host, plain C++. Fills the call in. False: the launch is not of one kind with a work a channel,
// is too large, or divides its block among parts or chunks among slices; then the call is void.
// Needs WorksLaunch::host_links, host_orders and slot_bytes; of protocols LL and Simple.
bool moves_of(const WorksLaunch& launch, MovesCall& call);

// Host. Requires moves_of(). cudaError_t.
int launch_moves(const WorksLaunch& launch, const MovesCall& call);
int prepare_moves();

}  // namespace collctl::kernels::cuda
