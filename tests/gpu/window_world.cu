#include "tests/gpu/window_world.h"

#include <cstring>

namespace window_tests {

namespace {

template <class F>
F driver(const char* name) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA_OK(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found));
  return reinterpret_cast<F>(f);
}
#define DRIVER(name) driver<decltype(&name)>(#name)

}  // namespace

void Mapped::make(int ranks, int share, uint64_t bytes, In where) {
  n = ranks;
  ranks_a_device = share;
  in = where;
  stride = (bytes + (2u << 20) - 1) / (2u << 20) * (2u << 20);
  if (in == In::host) {
    CUDA_OK(cudaHostAlloc(&base, stride * n, cudaHostAllocPortable | cudaHostAllocMapped));
    return clear();
  }
  CUdeviceptr at = 0;
  if (DRIVER(cuMemAddressReserve)(&at, stride * n, 0, 0, 0) != CUDA_SUCCESS) std::exit(1);
  std::vector<CUmemAccessDesc> access;
  for (int d = 0; d <= (n - 1) / ranks_a_device; ++d)
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, d}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  for (int r = 0; r < n; ++r) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, r / ranks_a_device};
    CUmemGenericAllocationHandle handle;
    CUDA_OK(DRIVER(cuMemCreate)(&handle, stride, &prop, 0));
    CUDA_OK(DRIVER(cuMemMap)(at + r * stride, stride, 0, handle, 0));
    CUDA_OK(DRIVER(cuMemRelease)(handle));
  }
  CUDA_OK(DRIVER(cuMemSetAccess)(at, stride * n, access.data(), access.size()));
  base = reinterpret_cast<uint8_t*>(at);
  clear();
}

void Mapped::clear() {
  for (int r = 0; r < n; ++r) {
    CUDA_OK(cudaSetDevice(r / ranks_a_device));
    CUDA_OK(cudaMemset(base + r * stride, 0, stride));
    CUDA_OK(cudaDeviceSynchronize());
  }
}

Mapped::~Mapped() {
  if (in == In::host) {
    cudaFreeHost(base);
    return;
  }
  DRIVER(cuMemUnmap)(CUdeviceptr(base), stride * n);
  DRIVER(cuMemAddressFree)(CUdeviceptr(base), stride * n);
}

World::World(int ranks, int share, uint64_t user_bytes, In where)
    : n(ranks), ranks_a_device(share), in(where) {
  const bool host = in == In::host;
  peers.make(n, share, host ? window_host_bytes(n) : window_part_bytes(n), in);
  users.make(n, share, user_bytes);
  for (int r = 0; r < n; ++r) {
    CUDA_OK(cudaSetDevice(device(r)));
    if (host) CUDA_OK(cudaMalloc(&owns.emplace_back(), window_own_bytes(n)));
    cudaStream_t s;
    CUDA_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    streams.push_back(s);
  }
  CUDA_OK(cudaHostAlloc(&reports, n * sizeof(Report), cudaHostAllocPortable));
  CUDA_OK(cudaHostAlloc(&abort_word, 4, cudaHostAllocPortable));
  forget();
}

void World::reset() {
  peers.clear();
  forget();
}

void World::forget() {
  for (size_t r = 0; r < owns.size(); ++r) {
    CUDA_OK(cudaSetDevice(device(int(r))));
    CUDA_OK(cudaMemset(owns[r], 0, window_own_bytes(n)));
    CUDA_OK(cudaDeviceSynchronize());
  }
  std::memset(static_cast<void*>(reports), 0, n * sizeof(Report));
  *abort_word = 0;
}

World::~World() {
  for (int r = 0; r < n; ++r) cudaStreamDestroy(streams[r]);
  for (uint8_t* own : owns) cudaFree(own);
  cudaFreeHost(reports), cudaFreeHost(abort_word);
}

}  // namespace window_tests
