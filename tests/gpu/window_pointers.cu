// A user's window in kernels: its struct in the device's memory, the own part and every peer's.
#include <cstring>

#include "kernels/contract/user_window.h"
#include "tests/gpu/window_world.h"

namespace window_tests {

namespace {

constexpr uint64_t kOffset = 1027;  // of what is written, in the window
constexpr uint32_t kWords = 64;

__host__ __device__ uint32_t word_of(int rank, uint32_t i) {
  return uint32_t(rank) * 1000 + i;
}

__device__ uint8_t byte_of(int rank, uint32_t i) {
  return uint8_t(word_of(rank, i / 4) >> i % 4 * 8);
}

__global__ void write_own(const UserWindow* window) {
  uint8_t* const at = window_local(*window, kOffset);
  for (uint32_t i = threadIdx.x; i < kWords * 4; i += blockDim.x)
    at[i] = byte_of(window->team_rank, i);
}

// Counts, for every member, the bytes that are not what it wrote, by its own shadow's word for it.
__global__ void look_at_all(const UserWindow* window, uint32_t* wrong) {
  for (int peer = 0; peer < window->team_size; ++peer) {
    const volatile uint8_t* const at = window_peer(*window, peer, kOffset);
    for (uint32_t i = threadIdx.x; i < kWords * 4; i += blockDim.x)
      if (at[i] != byte_of(peer, i)) atomicAdd(wrong, 1);
  }
  if (threadIdx.x == 0 && (window->device != window || window->bytes < kOffset + kWords * 4))
    atomicAdd(wrong, 1);
}

}  // namespace

void check_pointers(const World& w) {
  ++cases;
  std::vector<UserWindow*> structs(w.n);
  uint32_t* wrong;
  CUDA_OK(cudaHostAlloc(&wrong, 4, cudaHostAllocPortable));
  *wrong = 0;
  std::vector<UserWindow> shadows(w.n);
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaSetDevice(w.device(r)));
    CUDA_OK(cudaMalloc(&structs[r], sizeof(UserWindow)));
    // As the runtime makes them (runtime/window/user_register.cc): the range begins inside a slot.
    UserWindow& shadow = shadows[r];
    shadow = {};
    shadow.base = w.users.base + 4096;
    shadow.stride = w.users.stride;
    shadow.bytes = 1 << 20;
    shadow.number = 1;
    shadow.shadow = &shadow;
    shadow.device = structs[r];
    shadow.team_rank = shadow.rank = r;
    shadow.team_size = shadow.nranks = w.n;
    CUDA_OK(cudaMemcpy(structs[r], &shadow, sizeof shadow, cudaMemcpyHostToDevice));
    CUDA_OK(cudaDeviceSynchronize());
  }
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaSetDevice(w.device(r)));
    write_own<<<1, 128, 0, w.streams[r]>>>(structs[r]);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(w.streams[r]));
  }
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaSetDevice(w.device(r)));
    look_at_all<<<1, 128, 0, w.streams[r]>>>(structs[r], wrong);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(w.streams[r]));
    // Host and kernel address alike.
    uint32_t first = 0;
    CUDA_OK(cudaMemcpy(&first, window_peer(shadows[0], r, kOffset), 4, cudaMemcpyDeviceToHost));
    if (first != word_of(r, 0)) ++*wrong;
  }
  if (*wrong != 0) {
    std::printf("WRONG: %u bytes of windows are not where kernels look for them\n", *wrong);
    ++failures;
  }
  for (UserWindow* s : structs) cudaFree(s);
  cudaFreeHost(wrong);
}

}  // namespace window_tests
