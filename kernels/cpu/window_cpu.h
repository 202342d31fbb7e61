// The WindowBlock of kernels/window_block.h on host threads: copies and reductions straight between
// the caller's buffers and memory that all ranks map. Made by CpuBackend::window() on the stack of
// run_work(), used by that thread only.
#pragma once
#include "kernels/cpu/cpu_work.h"
#include "kernels/window_block.h"

namespace collctl::kernels {

class CpuWindow {
 public:
  CpuWindow(CpuWork& work, const WindowSpec& spec);
  ~CpuWindow();
  CpuWindow(const CpuWindow&) = delete;
  CpuWindow& operator=(const CpuWindow&) = delete;

  void next_piece(uint64_t n);
  // Turns to the other bank's line alone, of a piece that says in it where its data is
  // (shared_cpu.h).
  void next_call();
  WindowLine& line(int rank) const { return *shape_.line(rank, bank_); }
  void stage(uint64_t in, uint64_t at, uint64_t n);
  void arrive_and_wait();
  void reduce_from_peers(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    reduce(in, at, out, n, post, false);
  }
  void reduce_and_stage(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    reduce(in, at, out, n, post, true);
  }
  void copy_from_peer(int peer, uint64_t at, uint64_t out, uint64_t n);

 private:
  // Where a rank's staged data of this piece begins.
  uint8_t* staged(int rank, uint64_t at) const {
    return first_ + uint64_t(rank) * shape_.stride + at * work_.element_bytes;
  }
  void reduce(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post, bool stages);
  void reduce_and_copy(const void** sources, void* const* destinations, uint64_t n,
                       uint32_t divisor);
  bool wait_for(int peer);
  bool check_use(int peer);
  FaultKind due_fault();

  CpuWork& work_;
  Window& window_;
  const Window shape_;  // a copy, which stores through uint8_t pointers cannot change
  const uint8_t* input_;
  uint8_t* output_;
  uint64_t arrivals_, pieces_;
  uint64_t bank_ = 0;
  WindowUse use_ = WindowUse::banks;
  uint8_t* first_ = nullptr;  // rank 0's staged data of this piece
};

}  // namespace collctl::kernels
