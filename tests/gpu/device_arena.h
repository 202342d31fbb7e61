// Device memory with a mirror in pinned host memory: filled on the host, copied as one, read back
// as one. For the GPU tests, which have many small things to place. Any CUDA error ends the test.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace gpu_tests {

inline void cuda_ok(cudaError_t rc, const char* what) {
  if (rc == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(rc));
  std::exit(1);
}

class DeviceArena {
 public:
  explicit DeviceArena(size_t bytes) : bytes_(bytes) {
    cuda_ok(cudaMalloc(&device_, bytes), "cudaMalloc");
    cuda_ok(cudaHostAlloc(&host_, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  ~DeviceArena() {
    cudaFree(device_);
    cudaFreeHost(host_);
  }
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  void clear() { used_ = 0; }
  // Zeroed, aligned to 256. The device's address; host() gives the mirror's.
  uint8_t* take(size_t bytes) {
    const size_t at = used_;
    used_ = (used_ + bytes + 255) / 256 * 256;
    if (used_ > bytes_) {
      std::printf("FAILED the test's memory is too small: %zu of %zu bytes\n", used_, bytes_);
      std::exit(1);
    }
    std::memset(host_ + at, 0, used_ - at);
    return device_ + at;
  }
  template <class T>
  T* take(size_t count) {
    return reinterpret_cast<T*>(take(count * sizeof(T)));
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    T* const to = take<T>(values.size());
    if (!values.empty()) std::memcpy(host(to), values.data(), values.size() * sizeof(T));
    return to;
  }
  template <class T>
  T* host(T* on_device) const {
    return reinterpret_cast<T*>(host_ + (reinterpret_cast<uint8_t*>(on_device) - device_));
  }
  void upload() { cuda_ok(cudaMemcpy(device_, host_, used_, cudaMemcpyHostToDevice), "upload"); }
  void download() {
    cuda_ok(cudaMemcpy(host_, device_, used_, cudaMemcpyDeviceToHost), "download");
  }

 private:
  size_t bytes_, used_ = 0;
  uint8_t* device_ = nullptr;
  uint8_t* host_ = nullptr;
};

}  // namespace gpu_tests
