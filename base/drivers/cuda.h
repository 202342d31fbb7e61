// The CUDA driver, as far as the topology needs it: our own declarations of the public interface
// (CUDA driver API reference). Loaded once. Threads: any.
#pragma once
#include <string>

namespace collctl::base::drivers {

using CudaReturn = int;
inline constexpr CudaReturn kCudaSuccess = 0;
// Attributes of a device.
inline constexpr int kCudaMajor = 75, kCudaMinor = 76, kCudaGdr = 116, kCudaDmaBuf = 124;

struct Cuda {
  CudaReturn (*init)(unsigned) = nullptr;
  CudaReturn (*error_name)(CudaReturn, const char**) = nullptr;
  CudaReturn (*device_count)(int*) = nullptr;
  CudaReturn (*device)(int*, int) = nullptr;
  CudaReturn (*bus_id)(char*, int, int) = nullptr;
  CudaReturn (*attribute)(int*, int, int) = nullptr;
  std::string missing;  // why the table cannot be used; empty when it can
};
const Cuda& cuda();

}  // namespace collctl::base::drivers
