// The common parts of the window kernels: the plain form of an operation, how a thread waits, how a
// launch begins and ends.
#pragma once
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/window/math.cuh"
#include "kernels/cuda/window_layout.h"

namespace collctl::kernels::cuda {

// Which ranks an operation takes from, or gives to.
enum class Peers : uint8_t { none, all, root };

// Any collective where each rank gives every peer something directly: the same bytes to all
// (in_stride 0) or block p to peer p, and either puts what it takes into place (copy) or adds it
// up in the order of ranks. Bytes throughout.
struct Exchange {
  const uint8_t* input;
  uint8_t* output;
  uint64_t bytes;            // of one block: what one rank gives one other
  uint64_t in_stride;        // from one peer's block to the next, in the input
  uint64_t out_stride;       // copy: where the next peer's block lies in the output
  uint64_t own_in, own_out;  // copy_own: this rank's own block goes from there to there
  uint64_t reduce_own;       // reduction: where the own contribution lies in the input
  PeerMemory memory;
  WindowLayout layout;
  WordOps ops;
  DeviceShared shared;
  uint64_t op_count;
  int root;
  Peers gives_to, takes_from;
  Collective collective;
  AlgorithmId algorithm;
  bool copy_own;
  bool announces;  // not every rank hears from every other: they announce their arrival

  __device__ bool gives(int peer) const {
    return gives_to == Peers::all || (gives_to == Peers::root && peer == root);
  }
  __device__ bool takes(int peer) const {
    return takes_from == Peers::all || (takes_from == Peers::root && peer == root);
  }
  // Counted from the next rank on, so that not all ranks begin with the same one.
  __device__ int peer(int k) const {
    const int p = memory.rank + 1 + k;
    return p < memory.nranks ? p : p - memory.nranks;
  }
  __device__ uint8_t* part(int rank) const { return memory.base + uint64_t(rank) * memory.stride; }
  __device__ uint8_t* own() const { return memory.own != nullptr ? memory.own : part(memory.rank); }
  // The counters that `writer` writes at `reader` and block `block`.
  __device__ PeerCounters* counters(int reader, int writer, int block) const {
    auto* all = reinterpret_cast<PeerCounters*>(part(reader) + layout.peers);
    return all + block * (memory.nranks - 1) + place_of(writer, reader, memory.nranks);
  }
  __device__ OwnBlock& own_block(int block) const {
    return *reinterpret_cast<OwnBlock*>(own() + layout.own + uint64_t(block) * layout.own_bytes);
  }
  __device__ OwnBlock& own_block() const { return own_block(int(blockIdx.x)); }
  __device__ StoreState& store() const {
    return *reinterpret_cast<StoreState*>(own() + layout.store);
  }
  __device__ uint64_t* messages() const {
    return reinterpret_cast<uint64_t*>(own() + layout.messages);
  }
  __device__ uint64_t* epochs() const { return reinterpret_cast<uint64_t*>(own() + layout.epochs); }
  __device__ uint32_t* claim() const { return reinterpret_cast<uint32_t*>(own() + layout.claim); }
};

// Where a microsecond counts: what a kernel needs of its arguments is fetched while the launch
// before still runs, one word of every 64 bytes.
__device__ __forceinline__ void fetch_arguments(const Exchange& x) {
  const auto* words = reinterpret_cast<const uint32_t*>(&x);
#pragma unroll
  for (int i = 0; i < int(sizeof(Exchange) / 4); i += 16) fetch_word(words[i]);
  fetch_word(words[sizeof(Exchange) / 4 - 1]);
}

// The report of a kernel that must abort. One thread of the launch writes it, and the code last:
// the host may be looking. A report of a kernel before this one explains more and stays.
__device__ inline void write_report(const Exchange& x, ReportCode code, Protocol protocol, int peer,
                                    WaitSide side, uint64_t seen, uint64_t wanted) {
  Report* r = x.shared.reports;
  if (atomicCAS(x.claim(), 0u, 1u) == 0u &&
      *reinterpret_cast<volatile ReportCode*>(&r->code) == ReportCode::none) {
    r->side = side;
    r->rank = x.memory.rank;
    r->peer = peer;
    r->channel = int(blockIdx.x);
    r->protocol = protocol;
    r->algorithm = x.algorithm;
    r->collective = x.collective;
    r->step = wanted;
    r->seen = seen;
    r->wanted = wanted;
    r->op_count = x.op_count;
    __threadfence_system();
    *reinterpret_cast<volatile ReportCode*>(&r->code) = code;
  }
  if (code != ReportCode::aborted) *reinterpret_cast<volatile uint32_t*>(x.shared.abort_word) = 1;
  __threadfence_system();
}

// The waits of a block, in kernels that count them: in its shared memory until its end. By place:
// all warps by lines, or each group by store, and last the whole block. Waits for several peers at
// a time are one.
inline constexpr int kWholeBlock = 3;
struct BlockWaits {
  struct {
    unsigned long long recv_ns, send_ns, count;
  } of[kWholeBlock + 1][kMostPeers + 1];  // by rank
  unsigned long long all_ns[kWholeBlock + 1];
  // Threads that look after a peer each and meet at a barrier behind: since when, and of the one
  // that looked in vain most often how often, the side and the peer.
  struct {
    unsigned long long since_ns, last;
  } together[kWholeBlock + 1];
};
__device__ __forceinline__ BlockWaits& block_waits() {
  COLL_BLOCK_SHARED(BlockWaits, waits);
  return waits;
}
// Out of line, as the next one: what does not wait stays short.
static __device__ __noinline__ void count_wait(int place, int peer, WaitSide side,
                                               uint64_t since_ns) {
  BlockWaits& waits = block_waits();
  auto& sum = waits.of[place][peer];
  const uint64_t waited_ns = uint64_t(clock_ns()) - since_ns;
  atomicAdd(side == WaitSide::recv ? &sum.recv_ns : &sum.send_ns, waited_ns);
  atomicAdd(&sum.count, 1ull);
  atomicAdd(&waits.all_ns[place], waited_ns);
}
static __device__ __noinline__ void join_wait(int place, int peer, WaitSide side, uint64_t since_ns,
                                              uint32_t looks) {
  auto& together = block_waits().together[place];
  atomicMin(&together.since_ns, since_ns);
  atomicMax(&together.last, uint64_t(looks) << 32 | uint32_t(side) << 16 | uint32_t(peer));
}
// One thread, behind the barrier.
__device__ inline void count_together(int place) {
  auto& together = block_waits().together[place];
  if (together.last == 0) return;
  count_wait(place, int(together.last & 0xffff), WaitSide(together.last >> 16 & 1),
             together.since_ns);
  together = {~0ull, 0};
}
// All threads, before a barrier.
__device__ inline void begin_waits(const Exchange& x) {
  BlockWaits& waits = block_waits();
#pragma unroll 1
  for (int i = int(threadIdx.x); i < (kWholeBlock + 1) * x.memory.nranks; i += int(blockDim.x))
    waits.of[i / x.memory.nranks][i % x.memory.nranks] = {0, 0, 0};
  if (threadIdx.x > kWholeBlock) return;
  waits.all_ns[threadIdx.x] = 0;
  waits.together[threadIdx.x] = {~0ull, 0};
}
// All threads, behind a barrier: to the rank's sums, the mean of those that had something to do, of
// them `here` in this block and `all` in the launch. By lines warps; by store blocks, in which the
// group counts that waited most, as one that is done does not wait.
__device__ inline void end_waits(const Exchange& x, uint32_t here, uint32_t all) {
  using Word = unsigned long long;
  if (threadIdx.x >= kWarp) return;
  if (threadIdx.x == 0) count_together(kWholeBlock);
  __syncwarp();
  const BlockWaits& waits = block_waits();
  int most = 0;
  for (int place = 1; place < kWholeBlock; ++place)
    if (waits.all_ns[place] > waits.all_ns[most]) most = place;
  const float part = float(kWaitParts) / float(all), whole = part * float(here);
#pragma unroll 1
  for (int r = int(threadIdx.x); r < x.memory.nranks; r += kWarp) {
    const auto &one = waits.of[most][r], &block = waits.of[kWholeBlock][r];
    if (here * (one.count + block.count) == 0) continue;
    PeerWait& sum = x.shared.waits[r];
    atomicAdd(reinterpret_cast<Word*>(&sum.recv_ns),
              Word(float(one.recv_ns) * part + float(block.recv_ns) * whole));
    atomicAdd(reinterpret_cast<Word*>(&sum.send_ns),
              Word(float(one.send_ns) * part + float(block.send_ns) * whole));
    atomicAdd(reinterpret_cast<Word*>(&sum.waits), one.count + block.count);
  }
}

// A wait of one thread: ended by its value, by the abort word or by the deadline; the last two are
// written into the report and end the kernel early. kCounting, here and elsewhere: in the kernel's
// form that counts waits. Both are compiled: what is never asked for would cost the smallest
// operations some percent.
template <bool kCounting>
class WaitLimit {
 public:
  // True every so often, when the wait must be aborted.
  __device__ bool over(const Exchange& x, Protocol protocol, int peer, WaitSide side, uint64_t seen,
                       uint64_t wanted) {
    ++spins_;
    if constexpr (kCounting)
      if (spins_ == 1) start_ = clock_ns();
    if (spins_ % 4096 != 0) return false;
    if (start_ == 0) start_ = clock_ns();
    const bool aborted = *reinterpret_cast<volatile uint32_t*>(x.shared.abort_word) != 0;
    const bool late = clock_ns() - start_ > x.shared.timeout_ns;
    if (!aborted && !late) return false;
    write_report(x, aborted ? ReportCode::aborted : ReportCode::timeout, protocol, peer, side, seen,
                 wanted);
    return true;
  }
  // It is over, and was a warp's; of several peers for the one that was missing at the last look.
  __device__ void count(int peer, WaitSide side) const {
    if constexpr (kCounting)
      if (spins_ > 0) count_wait(0, peer, side, uint64_t(start_));
  }
  // It is over, and was one of several (BlockWaits::together).
  __device__ void join(int place, int peer, WaitSide side) const {
    if constexpr (kCounting)
      if (spins_ > 0) join_wait(place, peer, side, uint64_t(start_), spins_);
  }

 private:
  uint32_t spins_ = 0;
  int64_t start_ = 0;
};

// For an operation in which not every rank hears from every other: each announces its arrival, and
// at the end has seen that all others have. So no one starts the next but one before all have ended
// the one before this (layout.h). Block by block.
__device__ inline void announce(const Exchange& x, uint64_t epoch) {
  const int k = int(threadIdx.x);
  if (!x.announces || k >= x.memory.nranks - 1) return;
  store_release(&x.counters(x.peer(k), x.memory.rank, int(blockIdx.x))->arrived, epoch);
}
template <bool kCounting>
__device__ inline void wait_counter(const Exchange& x, Protocol protocol, int peer,
                                    const uint64_t* counter, uint64_t epoch) {
  WaitLimit<kCounting> limit;
  for (uint64_t seen; (seen = load_acquire(counter)) < epoch;)
    if (limit.over(x, protocol, peer, WaitSide::send, seen, epoch)) return;
  limit.join(kWholeBlock, peer, WaitSide::send);
}
// `heard`: the thread has something of this epoch from each peer that it takes from, which says the
// same, and spares another look.
template <bool kCounting>
__device__ inline void await_peers(const Exchange& x, Protocol protocol, uint64_t epoch,
                                   bool heard = false) {
  if constexpr (kCounting) __syncthreads();  // from here on the whole block waits
  const int k = int(threadIdx.x);
  if (!x.announces || k >= x.memory.nranks - 1) return;
  const int p = x.peer(k);
  if (heard && x.takes(p)) return;
  wait_counter<kCounting>(x, protocol, p, &x.counters(x.memory.rank, p, int(blockIdx.x))->arrived,
                          epoch);
}

// All ranks continue from the same epoch, whatever number of blocks a launch has: each block writes
// the count of every block that has its number modulo the grid.
__device__ inline void end_epoch(const Exchange& x, uint64_t epoch) {
  __syncthreads();
  for (int b = int(blockIdx.x) + int(threadIdx.x) * int(gridDim.x); b < kWindowBlocks;
       b += int(blockDim.x) * int(gridDim.x))
    x.epochs()[b] = epoch;
}

// The begin and the end of kernels by lines. `units`: a warp that has none does not wait.
template <bool kCounting>
__device__ __forceinline__ void begin_lines(const Exchange& x) {
  if constexpr (kCounting) {
    begin_waits(x);
    __syncthreads();
  }
  begin_launch([&] { fetch_arguments(x); });
}
__device__ inline void end_line_waits(const Exchange& x, uint32_t units) {
  const uint32_t warps = blockDim.x / kWarp, before = blockIdx.x * warps;
  const uint32_t all = min(units, gridDim.x * warps);
  end_waits(x, before < all ? min(all - before, warps) : 0, all);
}
template <bool kCounting>
__device__ __forceinline__ void end_lines(const Exchange& x, uint64_t epoch, uint32_t units) {
  end_epoch(x, epoch);
  if constexpr (kCounting) end_line_waits(x, units);
}

}  // namespace collctl::kernels::cuda
