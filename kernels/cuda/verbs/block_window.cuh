// The verbs of kernels/window_block.h for one CUDA thread block, over a Window in memory that the
// devices of all ranks map. All threads of the team call every verb together. It is the plain form
// of the kernels made for windows (kernels/cuda/window/operations.cuh), and what they are compared
// with.
#pragma once
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/verbs/simple_loops.cuh"
#include "kernels/window_block.h"

namespace collctl::kernels::cuda {

class WindowBlock {
 public:
  __device__ __noinline__ WindowBlock(Team& team, Window& window, const WindowSpec& spec)
      : team_(team),
        window_(window),
        input_(static_cast<const uint8_t*>(spec.input)),
        output_(static_cast<uint8_t*>(spec.output)),
        element_bytes_(element_size(team.work().type)),
        arrivals_(window.arrivals),
        pieces_(window.pieces) {
    team.sync();  // no thread stores the counts at the end before all have loaded them
  }
  __device__ __noinline__ void close() {
    team_.sync();
    if (team_.index == 0) {
      window_.arrivals = arrivals_;
      window_.pieces = pieces_;
    }
    team_.sync();
  }

  __device__ __noinline__ void next_piece(uint64_t n) {
    const uint64_t bytes = n * element_bytes_;
    if (bytes > window_.bank_bytes) {  // a planner's bug
      if (team_.index == 0) {
        team_.report(ReportCode::bad_data, {-1, WaitSide::send, pieces_, bytes},
                     window_.bank_bytes);
        team_.fail();
      }
      team_.sync();
    }
    bank_ = pieces_++ % kWindowBanks;
    in_line_ = bytes <= kWindowLineBytes;
  }

  __device__ __noinline__ void stage(uint64_t in, uint64_t at, uint64_t n) {
    copy(input_ + in * element_bytes_, staged(window_.rank, at), n);
  }

  __device__ __noinline__ void arrive_and_wait() {
    if (team_.failed()) return;
    ++arrivals_;
    team_.sync();
    if (team_.index == 0) {
      fence_system();  // what all threads staged, before its announcement
      store_volatile(&window_.line(window_.rank, bank_)->arrived, arrivals_);
    }
#pragma unroll 1
    for (int k = 1 + team_.index; k < window_.nranks; k += team_.count) {
      const int sum = window_.rank + k;
      const int peer = sum < window_.nranks ? sum : sum - window_.nranks;
      uint64_t seen = 0;
      if (!team_.wait_above(&window_.line(peer, bank_)->arrived, arrivals_ - 1, seen,
                            {peer, WaitSide::recv, arrivals_ - 1, arrivals_}))
        break;
    }
    team_.sync();
  }

  __device__ void reduce_from_peers(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    reduce(in, at, out, n, post, false);
  }
  __device__ void reduce_and_stage(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    reduce(in, at, out, n, post, true);
  }
  __device__ __noinline__ void copy_from_peer(int peer, uint64_t at, uint64_t out, uint64_t n) {
    copy(staged(peer, at), output_ + out * element_bytes_, n);
  }

 private:
  // Where a rank's staged data of this piece begins.
  __device__ uint8_t* staged(int rank, uint64_t at) const {
    uint8_t* begin = in_line_ ? window_.line(rank, bank_)->data : window_.bank(rank, bank_);
    return begin + at * element_bytes_;
  }

  __device__ LoopArguments arguments(uint64_t n) const {
    LoopArguments a{};
    a.bytes = n * element_bytes_;
    a.index = team_.index;
    a.count = team_.count;
    return a;
  }
  __device__ void copy(const uint8_t* from, uint8_t* to, uint64_t n) {
    if (n == 0 || team_.failed()) return;
    LoopArguments a = arguments(n);
    a.first = from;
    a.kept = to;
    copy_loop(a);
  }

  // In the order of ranks, so that every rank that does it gets the same bits.
  __device__ __noinline__ void reduce(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post,
                                      bool stages) {
    if (n == 0 || team_.failed()) return;
    const Work& work = team_.work();
    TeamScratch& scratch = team_.scratch;
#pragma unroll 1
    for (int r = team_.index; r < window_.nranks; r += team_.count)
      scratch.staged[r] = r == window_.rank ? input_ + in * element_bytes_
                                            : const_cast<const uint8_t*>(staged(r, at));
    if (team_.index == 0) scratch.target[0][0] = staged(window_.rank, at);
    team_.sync();
    LoopArguments a = arguments(n);
    a.first = scratch.staged[0];
    a.others = scratch.staged + 1;
    a.other_count = window_.nranks - 1;
    a.kept = output_ + out * element_bytes_;
    a.targets = scratch.target[0];
    a.target_count = stages ? 1 : 0;
    a.finish.divisor = post && work.op == RedOp::avg ? uint32_t(work.nranks) : 1;
    a.finish.is_signed = is_signed_integer(work.type);
    with_type_and_op<ReduceLoop>(work.type, work.op, a);
    team_.sync();  // the list of sources is used again
  }

  Team& team_;
  Window& window_;
  const uint8_t* input_;
  uint8_t* output_;
  const uint32_t element_bytes_;
  uint64_t arrivals_, pieces_;
  uint64_t bank_ = 0;
  bool in_line_ = false;  // the piece is so small that it travels beside its announcement
};

}  // namespace collctl::kernels::cuda
