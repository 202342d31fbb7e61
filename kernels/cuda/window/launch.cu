// Host side of the window kernels: what there is for whom, and whole operations by those that count
// no waits.
#include "kernels/cuda/window/launch.h"

#include "kernels/cuda/window/operations.cuh"

namespace collctl::kernels::cuda {

uint64_t window_part_bytes(int nranks) {
  return window_layout(nranks).total;
}
uint64_t window_host_bytes(int nranks) {
  return window_layout(nranks, In::host).total;
}
uint64_t window_own_bytes(int nranks) {
  return window_layout(nranks, In::host).peers;
}

bool window_serves(Collective collective, AlgorithmId algorithm, Protocol protocol, DataType, RedOp,
                   int nranks, uint64_t bytes) {
  return find_kernel({.through = Through::window,
                      .collective = collective,
                      .algorithm = algorithm,
                      .protocol = protocol,
                      .nranks = nranks,
                      .bytes = bytes}) != nullptr;
}

int prepare_windows(bool counts_waits) {
  int failed = prepare_forms(counts_waits,
                             [&]<bool kCounting>() { return prepare_operations<kCounting>(); });
  if (failed == 0) failed = prepare_direct(counts_waits);
  if (failed == 0) failed = prepare_messages(counts_waits);
  return failed;
}

int launch_window(const WindowLaunch& launch) {
  if (launch.rounds != nullptr) return launch_messages(launch);
  if (launch.direct != DirectPath::none) return launch_direct(launch);
  const Exchange x = exchange_of(launch);
  if (x.bytes == 0) return cudaSuccess;
  return with_form(x, [&]<bool kCounting>() { return launch_operation<kCounting>(x, launch); });
}

}  // namespace collctl::kernels::cuda
