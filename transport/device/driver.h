// The driver's answers as errors: for the files of this folder and the transports of GPUs. Threads:
// any.
#pragma once
#include <bit>
#include <string>
#include <string_view>

#include "base/drivers/cuda.h"
#include "base/result.h"
#include "transport/device/device.h"

namespace collctl::transport {

// The installed driver has all that GPU ranks need and has been started; else unavailable.
Status start_driver();
// "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
std::string driver_word(int code);
// `gpu` names the device, `what` what was tried. Code lost when the GPU does not work any more.
Error driver_error(const std::string& gpu, std::string_view what, int code);
inline Status driver_status(const Device& device, std::string_view what, int code) {
  if (code == base::drivers::kCudaSuccess) return {};
  return driver_error(device.text(), what, code);
}
// The same for an allocation: says how much was asked and how much is free.
Error memory_error(const Device& device, std::string_view what, uint64_t bytes, int code);

inline base::drivers::CudaAddress address_of(const void* memory) {
  return base::drivers::CudaAddress(reinterpret_cast<uintptr_t>(memory));
}
inline uint8_t* pointer_to(base::drivers::CudaAddress address) {
  return std::bit_cast<uint8_t*>(uintptr_t(address));
}

}  // namespace collctl::transport
