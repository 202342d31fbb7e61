// The verbs: what an algorithm may do. An algorithm is a function template over a Backend; it
// never sees a thread, a transport or an allocator, and it is the same text on GPU blocks, host
// threads and the recorder.
//
// Every verb moves one chunk of n elements (n <= Work::chunk_count, any n including 0 = nothing on
// either side), cut into slices by the backend; both ends cut alike because they see the same n,
// element size and slot size: slices = ceil(n * element size / data bytes of a slot), each slice
// one step, all but the last equal and a multiple of 16 bytes. Per slice a fused verb waits for
// every in-slot and every out-slot it needs before it moves anything, then publishes and frees:
// hence two slots are the least a ring can live with. Offsets are elements from the block's input
// and output. Memory order: data is written before its tail (release) or travels with its flag
// (LL); a slot is read before its head is published (release). No verb waits forever: the abort
// word and the deadline end a wait; then the report is written and all further verbs of the work do
// nothing.
//
// FifoBlock b (opened with up to FanIn receive peers and FanOut send peers):
//   b.send(in, n)                          input -> every send peer
//   b.send_from_output(out, n)             output -> every send peer
//   b.copy_send(in, out, n)                input -> output and every send peer (no copy in place)
//   b.recv(out, n)                         the receive peer -> output
//   b.recv_send(n)                         the receive peer -> every send peer, nothing kept
//   b.recv_copy_send(out, n)               the receive peer -> output and every send peer
//   b.recv_reduce(in, out, n, post)        every receive peer (+) input -> output
//   b.recv_reduce_send(in, n)              every receive peer (+) input -> every send peer
//   b.recv_reduce_copy_send(in, out, n, post)
//                                          every receive peer (+) input -> output, every send peer
// `post` is kPost exactly where a value gets its final form (avg divides there once), else kNoPost.
// Verbs with zero peers in a direction simply skip that direction (a tree's leaf receives from
// nobody).
//
// Backend be:
//   be.template block<FanIn, FanOut>(BlockSpec, body)
//                          body(b) with a block opened for it and closed afterwards
//   be.split(up, down)     up(be') and down(be') run side by side, each with a share of the workers
//   be.copy(from, to, n)   local copy of n elements of Work::type; nothing when from == to
//   be.failed()            true once the work was aborted: loops may stop early
#pragma once
#include "kernels/contract/work.h"

namespace collctl::kernels {

inline constexpr bool kPost = true;
inline constexpr bool kNoPost = false;

// Which peers (ranks, -1 for none) a block communicates with, and where its offsets start.
struct BlockSpec {
  int32_t recv[kMaxFanIn] = {-1, -1, -1};
  int32_t send[kMaxFanOut] = {-1, -1, -1};
  const void* input = nullptr;
  void* output = nullptr;
};

}  // namespace collctl::kernels
