// In place of kernels/cuda/overlap.cuh: kernels of a stream run one after the other.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace collctl::kernels::cuda {

template <class Meanwhile>
inline void begin_launch(Meanwhile meanwhile) {
  meanwhile();
}
inline void begin_launch() {}

// Keeps how its arguments are bound: launches know the address alone.
template <class... Arguments>
const void* address_of(void (*kernel)(Arguments...)) {
  const void* const address = reinterpret_cast<const void*>(kernel);
  emulated::know(address, [kernel](void** arguments) -> std::function<void()> {
    const auto bind = [&]<size_t... kAt>(std::index_sequence<kAt...>)->std::function<void()> {
      return [kernel, values = std::tuple<Arguments...>(
                          *static_cast<const std::remove_cv_t<Arguments>*>(arguments[kAt])...)] {
        std::apply(kernel, values);
      };
    };
    return bind(std::index_sequence_for<Arguments...>());
  });
  return address;
}

enum class Places : bool { any, alone };
inline cudaError_t launch_overlapping(const void* kernel, int blocks, int threads, void* stream,
                                      void** arguments, Places = Places::any) {
  return emulated::launch(kernel, blocks, threads, stream, arguments) ? cudaSuccess
                                                                      : cudaErrorInvalidValue;
}

}  // namespace collctl::kernels::cuda
