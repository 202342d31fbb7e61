// The SharedBlock of kernels/shared_block.h on host threads: copies and reductions directly between
// the buffers of all ranks. Made by CpuBackend::shared() on the stack of run_work(), used by that
// thread only.
//
// The channel's window carries the arrivals. In its line a rank says with the first one where its
// buffers are, and which operation it runs, so that ranks that run different ones notice it.
#pragma once
#include "kernels/cpu/window_cpu.h"
#include "kernels/shared_block.h"

namespace collctl::kernels {

class CpuShared {
 public:
  explicit CpuShared(CpuWork& work);
  CpuShared(const CpuShared&) = delete;
  CpuShared& operator=(const CpuShared&) = delete;

  void arrive_and_wait();
  void reduce(int to, uint64_t in, uint64_t out, uint64_t n, bool post);
  void copy(int from, uint64_t in, int to, uint64_t out, uint64_t n);

 private:
  bool wait_for_peers();
  void reduce_in_parts(int to, uint64_t in, uint64_t out, uint64_t n, uint32_t divisor);
  // Destinations of `to`, this rank's first; how many.
  int destinations(int to, uint64_t out, void** list) const;
  uint8_t* input(int rank, uint64_t element) const {
    return inputs_[rank] + element * work_.element_bytes;
  }
  uint8_t* output(int rank, uint64_t element) const {
    return outputs_[rank] + element * work_.element_bytes;
  }

  CpuWork& work_;
  CpuWindow window_;
  const int rank_, nranks_;
  bool same_call_ = false;
  uint8_t* inputs_[kMaxWindowRanks];
  uint8_t* outputs_[kMaxWindowRanks];
};

}  // namespace collctl::kernels
