// The WindowBlock of kernels/window_block.h on host threads: copies and reductions directly between
// the caller's buffers and memory that all ranks map. Made by CpuBackend::window() on the stack of
// run_work(), used by that thread only. The functions of every piece are defined here, to be
// inlined into the algorithm: for a tiny operation they are most of the time.
#pragma once
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu_work.h"
#include "kernels/cpu/wait.h"
#include "kernels/window_block.h"

namespace collctl::kernels {

class CpuWindow {
 public:
  CpuWindow(CpuWork& work, const WindowSpec& spec)
      : work_(work),
        window_(*work.links.window),
        shape_(window_),
        input_(static_cast<const uint8_t*>(spec.input)),
        output_(static_cast<uint8_t*>(spec.output)),
        arrivals_(window_.arrivals),
        pieces_(window_.pieces) {
    COLL_CHECK_NOTE(shape_.rank == work.work.rank && shape_.nranks == work.work.nranks,
                    "a window is of other ranks than the work");
  }
  ~CpuWindow() {
    window_.arrivals = arrivals_;
    window_.pieces = pieces_;
  }
  CpuWindow(const CpuWindow&) = delete;
  CpuWindow& operator=(const CpuWindow&) = delete;

  void next_piece(uint64_t n) {
    const uint64_t bytes = n * work_.element_bytes;
    COLL_CHECK_NOTE(bytes <= shape_.bank_bytes, "a piece is larger than a bank");
    bank_ = pieces_++ % kWindowBanks;
    // A piece this small travels beside its announcement.
    const bool in_line = bytes <= kWindowLineBytes;
    in_line_ = in_line ? bytes : 0;
    first_ = in_line ? shape_.line(0, bank_)->data : shape_.bank(0, bank_) + place(bytes);
    use_as(WindowUse::banks);
  }
  // Turns to the other bank's line alone, of a piece that notes in it where its data is
  // (shared_cpu.h).
  void next_call() {
    bank_ = pieces_++ % kWindowBanks;
    in_line_ = 0;
    use_as(WindowUse::shared);
  }
  WindowLine& line(int rank) const { return *shape_.line(rank, bank_); }
  void stage(uint64_t in, uint64_t at, uint64_t n) {
    if (n == 0 || work_.failed()) return;
    const uint64_t bytes = n * work_.element_bytes;
    const uint8_t* from = input_ + in * work_.element_bytes;
    uint8_t* to = staged(shape_.rank, at);
    if (in_line_ != 0 && at == 0 && bytes > kFirstLineData)
      stage_in_lines(to, from, bytes);
    else if (bytes < kStreamedBytes)
      std::memcpy(to, from, bytes);
    else
      work_.context.pace.copy(to, from, bytes);
  }
  // Sequentially consistent with a sleeper's exchange and its look after that (PatientWait): either
  // it sees the arrival, or this rank sees it asleep.
  void arrive_and_wait() {
    if (work_.failed()) return;
    ++arrivals_;
    WindowLine& own = line(shape_.rank);
    std::atomic_ref<uint64_t>(own.arrived).store(arrivals_, std::memory_order_seq_cst);
    if (std::atomic_ref<uint32_t>(own.sleepers).load(std::memory_order_seq_cst) != 0) wake(own);
    // Peers have read the lines that are written next: they are fetched back while this rank waits.
    const WindowLine& next = *shape_.line(shape_.rank, bank_ ^ 1);
    for (uint64_t at = 0; at < used_bytes(); at += kCacheLine) prefetch_to_write(byte_of(next, at));
    for (int k = 1; k < shape_.nranks; ++k) {
      const int peer =
          shape_.rank + k < shape_.nranks ? shape_.rank + k : shape_.rank + k - shape_.nranks;
      if (!has_arrived(peer) && !wait_for(peer)) return;
      if (!check_use(peer)) return;
    }
  }
  void reduce_from_peers(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    reduce(in, at, out, n, post, false);
  }
  void reduce_and_stage(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    reduce(in, at, out, n, post, true);
  }
  void copy_from_peer(int peer, uint64_t at, uint64_t out, uint64_t n);

 private:
  static constexpr uint64_t kCacheLine = 64,
                            kFirstLineData = kCacheLine - offsetof(WindowLine, data);

  uint64_t place(uint64_t bytes) const {
    return place_in_bank(bytes, pieces_ / kWindowBanks, shape_.bank_bytes, shape_.nranks);
  }
  // The bytes of this piece's line, its data included.
  uint64_t used_bytes() const { return offsetof(WindowLine, data) + in_line_; }
  static const uint8_t* byte_of(const WindowLine& line, uint64_t at) {
    return reinterpret_cast<const uint8_t*>(&line) + at;
  }
  // Early, which brings the line here. Where several lines are to be written, the first one comes
  // last: a peer that looks at it meanwhile takes it away, and the arrival is written there.
  void use_as(WindowUse use) {
    use_ = use;
    uint32_t& kind = line(shape_.rank).kind;
    if (in_line_ <= kFirstLineData || kind != uint32_t(use)) kind = uint32_t(use);
  }
  static void stage_in_lines(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    std::memcpy(to + kFirstLineData, from + kFirstLineData, bytes - kFirstLineData);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps this order
    std::memcpy(to, from, kFirstLineData);
  }
  // Where a rank's staged data of this piece begins.
  uint8_t* staged(int rank, uint64_t at) const {
    return first_ + uint64_t(rank) * shape_.stride + at * work_.element_bytes;
  }
  void reduce(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post, bool stages);
  void reduce_and_copy(const void** sources, void* const* destinations, uint64_t n,
                       uint32_t divisor);
  // Whether the peer has got that far, by this look or an earlier one.
  bool has_arrived(int peer) const {
    return std::atomic_ref<uint64_t>(line(peer).arrived).load(std::memory_order_seq_cst) >=
           arrivals_;
  }
  static void wake(WindowLine& own);
  bool wait_for(int peer);
  bool check_use(int peer) { return line(peer).kind == uint32_t(use_) || refuse_use(peer); }
  bool refuse_use(int peer);
  FaultKind due_fault();

  CpuWork& work_;
  Window& window_;
  const Window shape_;  // a copy, which stores through uint8_t pointers cannot change
  const uint8_t* input_;
  uint8_t* output_;
  uint64_t arrivals_, pieces_;
  uint64_t bank_ = 0;
  uint64_t in_line_ = 0;  // bytes of this piece that lie beside its announcement
  WindowUse use_ = WindowUse::banks;
  uint8_t* first_ = nullptr;  // rank 0's staged data of this piece
};

}  // namespace collctl::kernels
