// What the window kernels share: the plain form of an operation, the way a thread waits, and access
// to users' memory in words of 8 bytes at any alignment.
#pragma once
#include "kernels/cuda/launch.h"
#include "kernels/cuda/window_layout.h"
#include "kernels/cuda/window_math.cuh"

namespace collctl::kernels::cuda {

// Which ranks an operation takes from, or gives to.
enum class Peers : uint8_t { none, all, root };

// Any collective where each rank gives every peer something straight: the same bytes to all
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
  bool meets;  // not every rank hears from every other: they meet at the end

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
  // What `writer` writes at `reader` and block `block`.
  __device__ PeerCounters* counters(int reader, int writer, int block) const {
    auto* all = reinterpret_cast<PeerCounters*>(part(reader) + layout.peers);
    return all + block * (memory.nranks - 1) + place_of(writer, reader, memory.nranks);
  }
  __device__ OwnCounters* own(int peer_rank, int block) const {
    auto* all = reinterpret_cast<OwnCounters*>(part(memory.rank) + layout.own);
    return all + block * (memory.nranks - 1) + place_of(peer_rank, memory.rank, memory.nranks);
  }
  __device__ uint64_t* epochs() const {
    return reinterpret_cast<uint64_t*>(part(memory.rank) + layout.epochs);
  }
};

__device__ inline uint64_t load_word_relaxed(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ inline uint64_t load_word_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ inline void store_word_relaxed(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ inline void store_word_release(uint64_t* p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ inline long long time_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return static_cast<long long>(t);
}

// A wait of one thread: ended by its value, by the abort word or by the deadline; the last two are
// written into the report and end the kernel early.
class Patience {
 public:
  // True every so often, when the wait must be given up.
  __device__ bool over(const Exchange& x, Protocol protocol, int peer, WaitSide side, uint64_t seen,
                       uint64_t wanted) {
    if (++spins_ % 4096 != 0) return false;
    if (start_ == 0) start_ = time_ns();
    const bool aborted = *reinterpret_cast<volatile uint32_t*>(x.shared.abort_word) != 0;
    const bool late = time_ns() - start_ > x.shared.timeout_ns;
    if (!aborted && !late) return false;
    Report* r = x.shared.reports;
    const auto code = aborted ? ReportCode::aborted : ReportCode::timeout;
    if (atomicCAS_system(reinterpret_cast<unsigned*>(&r->code), 0u, unsigned(code)) == 0u) {
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
    }
    if (late) *reinterpret_cast<volatile uint32_t*>(x.shared.abort_word) = 1;
    __threadfence_system();
    return true;
  }

 private:
  uint32_t spins_ = 0;
  long long start_ = 0;
};

// `have` (1 to 8) bytes at any address as the low bytes of a word, and back.
__device__ __forceinline__ uint64_t load_user(const uint8_t* p, uint64_t have) {
  if (have >= 8) {
    if ((reinterpret_cast<uintptr_t>(p) & 7) == 0) return *reinterpret_cast<const uint64_t*>(p);
    if ((reinterpret_cast<uintptr_t>(p) & 3) == 0) {
      const auto* w = reinterpret_cast<const uint32_t*>(p);
      return w[0] | uint64_t(w[1]) << 32;
    }
    have = 8;
  }
  uint64_t w = 0;
  for (uint32_t i = 0; i < have; ++i) w |= uint64_t(p[i]) << 8 * i;
  return w;
}
__device__ __forceinline__ void store_user(uint8_t* p, uint64_t w, uint64_t have) {
  if (have >= 8) {
    if ((reinterpret_cast<uintptr_t>(p) & 7) == 0) {
      *reinterpret_cast<uint64_t*>(p) = w;
      return;
    }
    if ((reinterpret_cast<uintptr_t>(p) & 3) == 0) {
      auto* to = reinterpret_cast<uint32_t*>(p);
      to[0] = uint32_t(w), to[1] = uint32_t(w >> 32);
      return;
    }
    have = 8;
  }
  for (uint32_t i = 0; i < have; ++i) p[i] = uint8_t(w >> 8 * i);
}

// The next kernel of the stream may take its place on the device while this one runs, and this one
// goes on when the one before is over and what it wrote is there: that hides the time of a launch.
// Without the attribute at the launch both are nothing.
__device__ inline void begin_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// All ranks go on from the same epoch, whatever number of blocks a launch has: each block writes
// the count of every block that has its number modulo the grid.
__device__ inline void end_epoch(const Exchange& x, uint64_t epoch) {
  __syncthreads();
  for (int b = int(blockIdx.x) + int(threadIdx.x) * int(gridDim.x); b < kWindowBlocks;
       b += int(blockDim.x) * int(gridDim.x))
    x.epochs()[b] = epoch;
}

}  // namespace collctl::kernels::cuda
