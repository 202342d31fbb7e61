// Work: what one channel does for one operation, as a plain struct the planner fills and every
// backend executes. Units: counts and offsets are elements of `type`. Ownership: pointers are the
// caller's until the operation is done.
//
// Meaning of count (elements per rank, as in NCCL's API):
//   all_reduce, broadcast, reduce: whole buffer; all_gather: sent by each rank; reduce_scatter:
//   received by each rank; gather/scatter/all_to_all/send_recv: see PairStep.
// A channel handles the elements [part_offset, part_offset + part_count) of every rank's block of
// `count` elements.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::kernels {

struct RingLinks {
  int32_t prev, next;  // ranks
  int32_t index;       // my position in the ring
  int32_t reserved;
  const int32_t* order;  // order[i]: the rank at ring position i, nranks entries
};

struct TreeLinks {
  int32_t up;               // -1 at the root
  int32_t down[kMaxFanIn];  // -1 for none; filled from the front
};

// One round of a pairwise schedule: send to one peer and receive from another, in step with each
// other. A peer of -1 (or count 0) means nothing in that direction. self_copy rounds have both
// peers == own rank.
struct PairStep {
  const void* send;
  void* recv;
  uint64_t send_count;
  uint64_t recv_count;
  int32_t send_peer;
  int32_t recv_peer;
};
static_assert(sizeof(PairStep) == 40);

struct Work {
  const void* input;
  void* output;
  uint64_t count;
  uint64_t part_offset;
  uint64_t part_count;
  uint64_t
      chunk_count;  // elements of the largest chunk (a multiple of 16 bytes' worth of elements)
  RingLinks ring;
  TreeLinks tree;
  union {
    const PairStep* pairs;  // pairwise only
    void* scratch;  // memory of scratch_bytes() (kernels/algo/algorithms.h), of whoever runs it
  };
  uint32_t pair_count;
  int32_t rank, nranks, root;
  uint64_t op_count;  // number of the operation in the communicator, for reports
  Collective collective;
  AlgorithmId algorithm;
  Protocol protocol;
  DataType type;
  RedOp op;
  // kSharedMark (shared_block.h), or, of pairwise on host threads: messages of 2^mark bytes and
  // more are lent where the path has kFifoLends. 0: neither.
  uint8_t mark;
  uint16_t channel;
};
static_assert(sizeof(Work) == 128 && offsetof(Work, ring) == 48 && offsetof(Work, tree) == 72);

}  // namespace collctl::kernels
