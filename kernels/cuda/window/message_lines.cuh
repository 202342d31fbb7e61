// Messages by lines (LL128), for small and middle sizes: data and news of it together, into banks
// of the receiver that are messages' own.
//
// Messages of a pair are counted from 0, by both ends; the parity is the bank, the number after
// it is in every line. Only the two ends know of a message, so a sender must hear that the last one
// but one has been taken: each block of the receiver marks it for itself and for every block that
// has its number modulo the grid.
#pragma once
#include "kernels/cuda/window/exchange_lines.cuh"
#include "kernels/cuda/window/message.cuh"

namespace collctl::kernels::cuda {

// The rounds of one launch, one after the other.
inline constexpr int kMostRounds = 8;
struct MessageRounds {
  int count;
  Messages round[kMostRounds];
};

__device__ inline uint8_t* message_bank(const Exchange& x, int reader, int writer,
                                        uint64_t number) {
  const uint64_t senders = uint64_t(x.memory.nranks - 1);
  const uint64_t place = (number & 1) * senders + place_of(writer, reader, x.memory.nranks);
  return x.part(reader) + x.layout.message_lines + place * x.layout.message_bank_bytes;
}
// For each block how many messages of `writer` the reader has taken.
__device__ inline uint64_t* message_taken(const Exchange& x, int reader, int writer) {
  auto* all = reinterpret_cast<uint64_t*>(x.part(writer) + x.layout.message_taken);
  return all + place_of(reader, writer, x.memory.nranks) * kWindowBlocks;
}

// A lane's knowledge of how many messages a peer has taken. All loads are in flight together, and
// relaxed: what depends on them are stores, which no device makes before it knows that it will.
class Taken {
 public:
  __device__ __forceinline__ Taken(const uint64_t* words, int lane) : words_(words + lane) {
    look();
  }
  // The warp together: until the bank of message `number` may be written. False: aborted.
  template <bool kCounting>
  __device__ __forceinline__ bool wait(const Exchange& x, int peer, uint64_t number) {
    WaitLimit<kCounting> limit;
    while (true) {
      const uint64_t least = least_seen();
      if (!__any_sync(~0u, least + 1 < number)) break;
      const bool over = limit.over(x, Protocol::ll128, peer, WaitSide::send, least, number - 1);
      if (__any_sync(~0u, over)) return false;
      look();
    }
    if (threadIdx.x % kWarp == 0) limit.count(peer, WaitSide::send);
    return true;
  }

 private:
  static constexpr int kWords = kWindowBlocks / 32;
  __device__ __forceinline__ void look() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) seen_[i] = load_volatile(words_ + 32 * i);
  }
  __device__ __forceinline__ uint64_t least_seen() const {
    uint64_t least = seen_[0];
#pragma unroll
    for (int i = 1; i < kWords; ++i) least = seen_[i] < least ? seen_[i] : least;
    return least;
  }
  const uint64_t* const words_;
  uint64_t seen_[kWords];
};

template <class B>
__device__ __forceinline__ void send_batch(const Exchange& x, const Messages& m, const B& batch,
                                           uint32_t turn, uint32_t units, int lane,
                                           uint64_t number) {
  LaneData d[B::kUnits];
  load_units(typename B::User(m.send, m.send_bytes), 0, batch, turn, units, lane, d);
  store_lines(message_bank(x, m.send_peer, x.memory.rank, number), batch, turn, units, lane,
              number + 1, d);
}

template <class B>
__device__ __forceinline__ bool receive_batch(const Exchange& x, const Messages& m, const B& batch,
                                              uint32_t turn, uint32_t units, int lane,
                                              uint64_t number) {
  static_assert(B::kAtOnce == 1);
  const Source from[1] = {{message_bank(x, x.memory.rank, m.recv_peer, number), units}};
  LaneData d[1][B::kUnits];
  if (!wait_batch<B>(
          x, from, batch, turn, lane, number + 1, [&](int) { return m.recv_peer; }, d))
    return false;
  store_units(typename B::User(m.recv, m.recv_bytes), 0, batch, turn, units, lane, d[0]);
  return true;
}

template <class B>
__global__ void __launch_bounds__(kLineThreads)
    message_lines(const __grid_constant__ Exchange x,
                  const __grid_constant__ MessageRounds rounds) {
  using L = typename B::L;
  begin_lines<B::kCounting>(x);
  const int lane = int(threadIdx.x) % 32, me = x.memory.rank, nranks = x.memory.nranks;
  const B batch;
  const auto count_with = [&](int block, int peer, Count count) -> uint64_t& {
    return x.own_block(block).peers[place_of(peer, me, nranks)].count[count];
  };
  const auto each_block = [&](auto what) {
    for (int b = int(blockIdx.x) + int(threadIdx.x) * int(gridDim.x); b < kWindowBlocks;
         b += int(blockDim.x) * int(gridDim.x))
      what(b);
  };
#pragma unroll 1
  for (int i = 0; i < rounds.count; ++i) {
    const Messages& m = rounds.round[i];
    const bool sends = m.send_bytes > 0, receives = m.recv_bytes > 0;
    const int to = sends ? m.send_peer : m.recv_peer, from = receives ? m.recv_peer : m.send_peer;
    Taken taken(message_taken(x, to, me), lane);
    const uint64_t sent = count_with(int(blockIdx.x), to, kLinesSent) + m.send_before;
    const uint64_t received = count_with(int(blockIdx.x), from, kLinesReceived) + m.recv_before;
    const uint32_t send_units = units_of<L>(m.send_bytes), recv_units = units_of<L>(m.recv_bytes);
    const uint32_t gives = batch.turns(send_units), takes = batch.turns(recv_units);
    bool ok = gives == 0 || taken.wait<B::kCounting>(x, to, sent);
    // Giving is a turn ahead of taking.
#pragma unroll 1
    for (uint32_t turn = 0; ok && turn <= (gives > takes ? gives : takes); ++turn) {
      if (turn < gives) send_batch<B>(x, m, batch, turn, send_units, lane, sent);
      if (turn > 0 && turn <= takes)
        ok = receive_batch<B>(x, m, batch, turn - 1, recv_units, lane, received);
    }
    __syncthreads();  // what was taken has been used, the counts are known
    if (ok && receives)
      each_block([&](int b) { store_volatile(message_taken(x, me, from) + b, received + 1); });
    if (sends && m.last_sent) each_block([&](int b) { count_with(b, to, kLinesSent) = sent + 1; });
    if (receives && m.last_received)
      each_block([&](int b) { count_with(b, from, kLinesReceived) = received + 1; });
  }
  count_launch(x);
  if constexpr (B::kCounting) end_line_waits(x, units_of<L>(x.bytes));
}

}  // namespace collctl::kernels::cuda
