// The burn-in's kernels (burn.h). A warp of a product adds up a tile of C in its registers; units
// of A and B come straight from memory, a step ahead of the one that is multiplied, and warps of a
// block share them in the first-level cache. The sums are compared where they are, bit by bit.
#include "kernels/cuda/burn.h"

#include <cuda_runtime.h>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/overlap.cuh"

namespace collctl::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr uint32_t kWarpsDown = 2, kWarpsAcross = 4;  // of a block
constexpr uint64_t kMostSweepBlocks = 132 * 8;

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Fragment {
  T of[kCount];
};

// A lane's part of a unit, and how many units a warp has down and across.
template <BurnType kType>
struct Math;
template <>
struct Math<BurnType::bf16> {
  using A = Fragment<uint32_t, 4>;
  using B = Fragment<uint32_t, 2>;
  using Sum = float;
  static constexpr int kDown = 4, kAcross = 8, kSums = 4;
  static __device__ __forceinline__ uint32_t a_part(uint32_t lane) { return lane; }
  static __device__ __forceinline__ uint32_t b_part(uint32_t lane) { return lane; }
  static __device__ __forceinline__ void multiply(Sum (&c)[kSums], const A& a, const B& b) {
    mma_bf16(c, a.of, b.of);
  }
};
template <>
struct Math<BurnType::fp8> : Math<BurnType::bf16> {
  static __device__ __forceinline__ void multiply(Sum (&c)[kSums], const A& a, const B& b) {
    mma_fp8(c, a.of, b.of);
  }
};
template <>
struct Math<BurnType::fp64> {
  using A = Fragment<double, 2>;  // of the upper and the lower 8 rows
  using B = Fragment<double, 1>;
  using Sum = double;
  static constexpr int kDown = 2, kAcross = 8, kSums = 4;
  static __device__ __forceinline__ uint32_t a_part(uint32_t lane) { return lane; }
  static __device__ __forceinline__ uint32_t b_part(uint32_t lane) { return lane; }
  static __device__ __forceinline__ void multiply(Sum (&c)[kSums], const A& a, const B& b) {
    mma_fp64(c[0], c[1], a.of[0], b.of[0]);
    mma_fp64(c[2], c[3], a.of[1], b.of[0]);
  }
};
template <>
struct Math<BurnType::fp32> {
  using A = Fragment<float, 4>;  // lanes: 4 down by 8 across, 4 rows by 2 columns each
  using B = Fragment<float, 2>;
  using Sum = float;
  static constexpr int kDown = 4, kAcross = 4, kSums = 8;
  static __device__ __forceinline__ uint32_t a_part(uint32_t lane) { return lane / 8; }
  static __device__ __forceinline__ uint32_t b_part(uint32_t lane) { return lane % 8; }
  static __device__ __forceinline__ void multiply(Sum (&c)[kSums], const A& a, const B& b) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) c[i] = fmaf(a.of[i / 2], b.of[i % 2], c[i]);
  }
};

__device__ __forceinline__ void note(BurnFault* fault, uint32_t number, uint64_t word,
                                     uint32_t expected, uint32_t found) {
  atomicAdd(reinterpret_cast<unsigned long long*>(&fault->count), 1ull);
  if (atomicCAS(&fault->taken, 0u, 1u) != 0) return;
  fault->word = word;
  fault->number = number;
  fault->expected = expected;
  fault->found = found;
}

template <BurnType kType>
struct Tile {
  using M = Math<kType>;
  typename M::A a[M::kDown];
  typename M::B b[M::kAcross];
};

// Units of one step; `a` and `b`: of the warp's first ones, `next`: words to the one beside it.
template <BurnType kType>
__device__ __forceinline__ void load(Tile<kType>& tile, const uint32_t* a, const uint32_t* b,
                                     uint32_t next_a, uint32_t next_b) {
  using M = Math<kType>;
#pragma unroll
  for (int i = 0; i < M::kDown; ++i)
    tile.a[i] = *reinterpret_cast<const typename M::A*>(a + i * next_a);
#pragma unroll
  for (int j = 0; j < M::kAcross; ++j)
    tile.b[j] = *reinterpret_cast<const typename M::B*>(b + j * next_b);
}

template <BurnType kType>
__device__ __forceinline__ void multiply_step(
    typename Math<kType>::Sum (&sums)[Math<kType>::kDown][Math<kType>::kAcross][Math<kType>::kSums],
    const Tile<kType>& tile) {
  using M = Math<kType>;
#pragma unroll
  for (int i = 0; i < M::kDown; ++i)
#pragma unroll
    for (int j = 0; j < M::kAcross; ++j) M::multiply(sums[i][j], tile.a[i], tile.b[j]);
}

template <BurnType kType>
__global__ void __launch_bounds__(kThreads, 1) multiply_matrices(BurnProduct p) {
  using M = Math<kType>;
  constexpr BurnUnit kUnit = burn_unit(kType);
  constexpr uint32_t kWords = kUnit.sum_words;
  const uint32_t units_across = p.shape.columns / kUnit.columns;
  const uint32_t blocks_across = units_across / (kWarpsAcross * M::kAcross);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t down = (blockIdx.x / blocks_across * kWarpsDown + warp / kWarpsAcross) * M::kDown;
  const uint32_t across =
      (blockIdx.x % blocks_across * kWarpsAcross + warp % kWarpsAcross) * M::kAcross;
  const uint32_t next_a = p.shape.steps * kUnit.a_words;
  const uint32_t next_b = p.shape.steps * kUnit.b_words;
  const uint32_t* const a =
      p.a + uint64_t(down) * next_a + M::a_part(lane) * (sizeof(typename M::A) / 4);
  const uint32_t* const b =
      p.b + uint64_t(across) * next_b + M::b_part(lane) * (sizeof(typename M::B) / 4);
  typename M::Sum sums[M::kDown][M::kAcross][M::kSums] = {};
  Tile<kType> even, odd;
  load<kType>(even, a, b, next_a, next_b);
  for (uint32_t step = 0; step < p.shape.steps; step += 2) {
    const uint32_t ahead = step + 2 < p.shape.steps ? step + 2 : 0;  // 0: for nothing
    load<kType>(odd, a + (step + 1) * kUnit.a_words, b + (step + 1) * kUnit.b_words, next_a,
                next_b);
    multiply_step<kType>(sums, even);
    load<kType>(even, a + ahead * kUnit.a_words, b + ahead * kUnit.b_words, next_a, next_b);
    multiply_step<kType>(sums, odd);
  }
#pragma unroll
  for (int i = 0; i < M::kDown; ++i)
#pragma unroll
    for (int j = 0; j < M::kAcross; ++j) {
      Fragment<uint32_t, kWords> mine;
      memcpy(mine.of, sums[i][j], sizeof mine);
      const uint64_t unit = uint64_t(down + i) * units_across + across + j;
      const uint64_t at = (unit * 32 + lane) * kWords;
#pragma unroll
      for (uint32_t w = 0; w < kWords; ++w) mine.of[w] ^= at + w == p.flip_word ? 1u << 13 : 0u;
      if (!p.compare) {
        *reinterpret_cast<Fragment<uint32_t, kWords>*>(p.c + at) = mine;
        continue;
      }
      const auto known = *reinterpret_cast<const Fragment<uint32_t, kWords>*>(p.c + at);
#pragma unroll
      for (uint32_t w = 0; w < kWords; ++w)
        if (mine.of[w] != known.of[w]) note(p.fault, p.number, at + w, known.of[w], mine.of[w]);
    }
}

template <BurnType kType>
__global__ void fill_inputs(uint64_t seed, uint32_t* to, uint64_t words) {
  for (uint64_t i = blockIdx.x * uint64_t(kThreads) + threadIdx.x; i < words;
       i += uint64_t(gridDim.x) * kThreads)
    to[i] = burn_input(kType, seed, i);
}

__global__ void __launch_bounds__(kThreads) sweep_memory(BurnSweep s) {
  using Four = Fragment<uint32_t, 4>;
  auto* const packs = reinterpret_cast<Four*>(s.memory);
#pragma unroll 4
  for (uint64_t i = blockIdx.x * uint64_t(kThreads) + threadIdx.x; i < s.packs;
       i += uint64_t(gridDim.x) * kThreads) {
    if (s.compare) {
      const Four seen = packs[i];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        if (const uint32_t known = burn_word(s.old, 4 * i + w); seen.of[w] != known)
          note(s.fault, s.number, 4 * i + w, known, seen.of[w]);
    }
    if (!s.write) continue;
    Four fresh;
#pragma unroll
    for (int w = 0; w < 4; ++w) fresh.of[w] = burn_word(s.fresh, 4 * i + w);
    packs[i] = fresh;
  }
}

__global__ void __launch_bounds__(kThreads)
    hash_bands(const uint32_t* words, uint64_t band_words, uint64_t* hashes) {
  const uint32_t* const band = words + blockIdx.x * band_words;
  unsigned long long sum = 0;
  for (uint64_t i = threadIdx.x; i < band_words; i += kThreads)
    sum += uint64_t(burn_bits(band[i], i)) << 32 | burn_bits(~band[i], i);
  atomicAdd(reinterpret_cast<unsigned long long*>(hashes + blockIdx.x), sum);
}

uint64_t sweep_blocks(uint64_t items) {
  const uint64_t wanted = (items + kThreads - 1) / kThreads;
  return wanted < kMostSweepBlocks ? wanted : kMostSweepBlocks;
}

cudaError_t start(const void* kernel, uint64_t blocks, void* stream, void** arguments) {
  return cudaLaunchKernel(kernel, dim3(unsigned(blocks)), dim3(kThreads), arguments, 0,
                          static_cast<cudaStream_t>(stream));
}

template <template <BurnType> class Of>
const void* kernel_of(BurnType type) {
  switch (type) {
    case BurnType::bf16:
      return Of<BurnType::bf16>::address();
    case BurnType::fp8:
      return Of<BurnType::fp8>::address();
    case BurnType::fp32:
      return Of<BurnType::fp32>::address();
    default:
      return Of<BurnType::fp64>::address();
  }
}
template <BurnType kType>
struct Multiply {
  static const void* address() { return address_of(multiply_matrices<kType>); }
};
template <BurnType kType>
struct Inputs {
  static const void* address() { return address_of(fill_inputs<kType>); }
};

uint32_t units_down(BurnType type) {
  return type == BurnType::fp64 ? Math<BurnType::fp64>::kDown : Math<BurnType::bf16>::kDown;
}

int make_inputs(BurnType type, uint64_t seed, uint32_t* to, uint64_t words, void* stream) {
  void* arguments[] = {&seed, &to, &words};
  return start(kernel_of<Inputs>(type), sweep_blocks(words), stream, arguments);
}

int multiply(const BurnProduct& product, void* stream) {
  const BurnShape& shape = product.shape;
  if (shape.rows == 0 || shape.rows % 128 != 0 || shape.columns == 0 || shape.columns % 256 != 0 ||
      shape.steps == 0 || shape.steps % 2 != 0)
    return cudaErrorInvalidValue;
  const uint64_t blocks =
      uint64_t(shape.rows / (16 * kWarpsDown * units_down(product.type))) * (shape.columns / 256);
  BurnProduct given = product;
  void* arguments[] = {&given};
  return start(kernel_of<Multiply>(product.type), blocks, stream, arguments);
}

int sweep(const BurnSweep& sweep, void* stream) {
  BurnSweep given = sweep;
  void* arguments[] = {&given};
  return start(address_of(sweep_memory), sweep_blocks(sweep.packs), stream, arguments);
}

int hash(const uint32_t* words, uint64_t band_words, uint32_t bands, uint64_t* hashes,
         void* stream) {
  void* arguments[] = {&words, &band_words, &hashes};
  return start(address_of(hash_bands), bands, stream, arguments);
}

}  // namespace

const BurnKernels kBurnKernels{make_inputs, multiply, sweep, hash};

}  // namespace collctl::kernels::cuda
