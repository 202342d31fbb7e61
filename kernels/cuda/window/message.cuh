// Messages by store: one to a peer, one from a peer, or one of both, in chunks through slots of the
// receiver (store.cuh), for large ones.
//
// Only the two ends of a message know of it, so it is no epoch and has no barrier: what the ends
// agree on are the counts of their pair, and those grow by the message's chunks, which follow from
// its bytes. Where lines lie (layout.h) depends on epochs alone and stays as it was.
#pragma once
#include "kernels/cuda/window/store.cuh"

namespace collctl::kernels::cuda {

// The messages that a launch sends and receives; one that is not there has no bytes.
struct Messages {
  const uint8_t* send;
  uint8_t* recv;
  uint64_t send_bytes, recv_bytes;
  uint32_t send_chunk, recv_chunk;    // by store: bytes; the other end has the same
  uint16_t send_before, recv_before;  // by lines: of the pair in the same launch
  bool last_sent, last_received;      // likewise: none of the pair follows in it
  int send_peer, recv_peer;
};

// Nobody waits for it.
__device__ inline void count_launch(const Exchange& x) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(x.messages()), 1ull);
}

template <bool kVec, bool kCounting>
__device__ void send_chunks(Group<kCounting>& group, const Messages& m, const Chunks& chunks) {
  const Exchange& x = group.x;
  const int me = x.memory.rank, p = m.send_peer;
  const bool mine = group.peer() == p;
  for (uint64_t c = group.first(); c < group.count; c = group.next()) {
    const uint64_t number = group.number(kSent, p, c);
    if (mine) group.wait_slot(counts_of(x, x.layout.taken, me, p), number, p);
    group.start();
    copy_bytes<kVec, false>(m.send + chunks.at(c), slot_of(x, x.layout.stage, p, me, number),
                            chunks.size(c), group.t);
    group.end();
    if (mine && !group.has_failed())
      store_release(counts_of(x, x.layout.arrived, p, me) + group.slot(number), number + 1);
  }
}

template <bool kVec, bool kCounting>
__device__ void receive_chunks(Group<kCounting>& group, const Messages& m, const Chunks& chunks,
                               uint64_t from) {
  const Exchange& x = group.x;
  const int me = x.memory.rank, p = m.recv_peer;
  const bool mine = group.peer() == p;
  for (uint64_t c = from; c < group.count; c = group.next()) {
    const uint64_t number = group.number(kReceived, p, c);
    if (mine)
      group.wait(counts_of(x, x.layout.arrived, me, p) + group.slot(number), number, p,
                 WaitSide::recv);
    group.start();
    copy_bytes<kVec, true>(slot_of(x, x.layout.stage, me, p, number), m.recv + chunks.at(c),
                           chunks.size(c), group.t);
    group.end();
    if (mine && !group.has_failed())
      store_volatile(counts_of(x, x.layout.taken, p, me) + group.slot(number), number + 1);
  }
}

template <bool kVec, bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    message_store(const __grid_constant__ Exchange x, const __grid_constant__ Messages m) {
  COLL_BLOCK_SHARED(StoreShared, shared);
  begin_launch([&] { fetch_arguments(x); });
  begin_store<kCounting>(x, shared);
  const Chunks sent(m.send_bytes, m.send_chunk), received(m.recv_bytes, m.recv_chunk);
  constexpr int kGivers = 2;  // as in exchange_store
  const int number = int(threadIdx.x) / kGroupThreads;
  const bool joins = sent.count > 0 && received.count > 0;
  if (number < kGivers) {
    if (sent.count > 0) {
      Group<kCounting> group(x, shared, sent.count, StoreRole::give, number, kGivers);
      send_chunks<kVec>(group, m, sent);
    }
    if (joins) {
      Group<kCounting> group(x, shared, received.count, StoreRole::take, 0, 1);
      receive_chunks<kVec>(group, m, received, group.join());
    }
  } else if (received.count > 0) {
    Group<kCounting> group(x, shared, received.count, StoreRole::take, 0, 1);
    receive_chunks<kVec>(group, m, received, group.first());
  }
  end_counts<kCounting>(
      x, shared, 0,
      [&](int peer, Count count) -> uint64_t {
        if (count == kSent && peer == m.send_peer) return sent.count;
        return count == kReceived && peer == m.recv_peer ? received.count : 0;
      },
      [&](StoreRole role) -> uint64_t {
        if (role == StoreRole::give) return sent.count;
        if (role != StoreRole::take) return 0;
        return received.count + (joins ? kGivers * gridDim.x : 0);
      });
  count_launch(x);
}

}  // namespace collctl::kernels::cuda
